"""ExtractField, HoistField, Flatten and ValueToKey: other shapes of the same data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.lake.sink import Transformation
from headrace.lake.types import Field, Map, Simple, Struct
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed, typed
from headrace.pipeline.sink_records.transforms.changes import (
    Changed,
    ChangedSide,
    refused_type,
    require_distinct,
    require_struct,
    text,
    texts,
)
from headrace.pipeline.sink_tables import refused


def extract_field(given: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    """The field instead of the record. A field that is not there is null if there is no schema."""
    path = text(step, "field")
    is_nested = text(step, "field.syntax.version", "V1").upper() == "V2"
    steps = path_steps(path, step) if is_nested else [path]
    found = require_struct(given, step).find(steps[0])
    for each in steps[1:]:
        if found is not None:
            if not isinstance(found.field.type, Struct):
                raise refused_type(step, found.name, found.field.type, f"looks for {each} in")
            found = typed(given.made_by, found.field.type, found.column).find(each)
    if found is not None:
        return ChangedSide(typed=given.with_value(found.field.type, found.column))
    if given.has_schema:
        raise refused(step, f"extracts the field {path}, which does not exist")
    return ChangedSide(typed=given.with_value(Simple.STRING, given.made_by.null(Simple.STRING)))


def path_steps(path: str, step: Transformation) -> list[str]:
    """Names with dots between them; a name within backticks may have dots (KIP-821).

    A backtick ends the name only before a dot or at the end; with a backslash before, it never does.
    """
    found: list[str] = []
    rest = path
    while rest:
        if not rest.startswith("`"):
            name, dot, rest = rest.partition(".")
            found.append(name)
            if dot and not rest:
                found.append("")
            continue
        name, place = "", 1
        while True:
            end = rest.find("`", place)
            if end < 0 or (end == len(rest) - 1 and rest[end - 1] == "\\"):
                raise refused(step, f"has a field with a backtick that is not closed: {path!r}")
            is_last = end == len(rest) - 1
            if is_last or (rest[end + 1] == "." and rest[end - 1] != "\\"):
                break
            if rest[end + 1] == ".":
                name, place = name + rest[place : end - 1] + "`", end + 1
            else:
                name, place = name + rest[place : end + 1], end + 1
        found.append(name + rest[place:end])
        rest = rest[end + 2 :]
        if not is_last and not rest:
            found.append("")
    return found


def hoist_field(given: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    """A record with one field; also of null."""
    field = Field(name=text(step, "field"), type=given.type)
    hoisted = Typed(
        type=Struct(fields=(field,)),
        columns=(given.column,),
        present=given.made_by.constant(True, Simple.BOOLEAN),
        made_by=given.made_by,
        has_schema=given.has_schema,
    )
    return ChangedSide(typed=hoisted)


def flatten(given: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    """Fields of fields become fields, with the delimiter between the names. Arrays stay."""
    delimiter = text(step, "delimiter", ".")
    fields = list(_flat(require_struct(given, step), "", delimiter, step))
    return ChangedSide(typed=given.with_fields(require_distinct(fields, step)))


def _flat(given: Typed[C], prefix: str, delimiter: str, step: Transformation) -> Iterator[NamedColumn[C]]:
    for each in given.fields:
        name = f"{prefix}{delimiter}{each.name}" if prefix else each.name
        match each.field.type:
            case Struct() as kind:
                yield from _flat(typed(given.made_by, kind, each.column), name, delimiter, step)
            case Map() as kind:
                raise refused_type(step, name, kind, "cannot flatten")
            case _:
                yield NamedColumn(field=replace(each.field, name=name), column=each.column)


def value_to_key(record: Record[C], step: Transformation) -> Changed[C]:
    """A key with some fields of the value. A null value cannot be transformed."""
    value = require_struct(record.value, step)
    fields = [_key_field(value, name, step) for name in texts(step, "fields")]
    key = Typed(
        type=Struct(fields=tuple(each.field for each in require_distinct(fields, step))),
        columns=tuple(each.column for each in fields),
        present=value.present,
        made_by=value.made_by,
        has_schema=value.has_schema,
    )
    return Changed(record=replace(record, key=key), reason=null_reason(value, step))


def _key_field(value: Typed[C], name: str, step: Transformation) -> NamedColumn[C]:
    found = value.find(name)
    if found is None and value.has_schema:
        raise refused(step, f"takes the field {name} of the value, which does not exist")
    return found or NamedColumn(
        field=Field(name=name, type=Simple.STRING), column=value.made_by.null(Simple.STRING)
    )


def null_reason(given: Typed[C], step: Transformation) -> C:
    problem = f"needs a record with fields, but the {step.side or 'value'} is null."
    columns = given.made_by
    text = columns.constant(f"{step.name} ({step.kind}) {problem}", Simple.STRING)
    return columns.when(columns.opposite(given.present), text)
