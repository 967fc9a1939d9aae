"""Cast: fields, or the whole key or value, as another type."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import Transformation
from headrace.lake.types import Field, Type
from headrace.pipeline.sink_tables import refused
from headrace.pipeline.spark.lake.records import NamedColumn, Record, Typed, shown
from headrace.pipeline.spark.lake.transforms.casting import TYPES, cast_value
from headrace.pipeline.spark.lake.transforms.changes import ChangedSide, refused_type, require_struct, texts


def cast(typed: Typed, step: Transformation, _: Record) -> ChangedSide:
    """Fields that do not exist are ignored. Null stays null."""
    spec = _spec(step)
    if "" in spec:
        column, reason = _cast(typed.column, typed.type, "", spec[""], step)
        return ChangedSide(typed=typed.with_value(TYPES[spec[""]], column), reason=reason)
    fields, reasons = [], []
    for each in require_struct(typed, step).fields:
        target = spec.get(each.name)
        if target is None:
            fields.append(each)
            continue
        column, reason = _cast(each.column, each.field.type, each.name, target, step)
        fields.append(NamedColumn(field=Field(name=each.name, type=TYPES[target]), column=column))
        if reason is not None:
            reasons.append(reason)
    reason = F.coalesce(*reasons) if reasons else None
    return ChangedSide(typed=typed.with_fields(fields), reason=reason)


def _cast(
    value: Column, kind: Type, name: str, target: str, step: Transformation
) -> tuple[Column, Column | None]:
    found = cast_value(value, kind, target)
    if found is None:
        raise refused_type(step, name, kind, f"cannot cast to {target}")
    if found.fails is None:
        return found.column, None
    what = f"the field {name}" if name else f"the {step.side}"
    start = F.lit(f"{step.name} (Cast) cannot cast {what} to {target}: ")
    return found.column, F.when(found.fails, F.concat(start, shown(value), F.lit(".")))


def _spec(step: Transformation) -> dict[str, str]:
    """Types by the names of fields; by an empty name for the whole."""
    found = {}
    for each in texts(step, "spec"):
        name, colon, kind = each.rpartition(":")
        target = kind.strip().lower()
        if target not in TYPES or ":" in name or (colon and not name.strip()):
            raise refused(step, f"has an invalid item in spec: {each!r}")
        found[name.strip()] = target
    if not found or ("" in found and len(found) > 1):
        raise refused(step, "needs in spec either fields with their types, or one type")
    return found
