"""Cast: fields, or the whole key or value, as another type."""

from __future__ import annotations

from headrace.lake.sink import Transformation
from headrace.lake.types import Field, Type
from headrace.pipeline.sink_records.columns import CAST_TYPES, C, Columns
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.changes import ChangedSide, refused_type, require_struct, texts
from headrace.pipeline.sink_tables import refused


def cast(typed: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    """Fields that do not exist are ignored. Null stays null."""
    spec = _spec(step)
    if "" in spec:
        column, reason = _cast(typed.made_by, typed.column, typed.type, spec[""], name="", step=step)
        return ChangedSide(typed=typed.with_value(CAST_TYPES[spec[""]], column), reason=reason)
    fields, reasons = [], []
    for each in require_struct(typed, step).fields:
        target = spec.get(each.name)
        if target is None:
            fields.append(each)
            continue
        column, reason = _cast(typed.made_by, each.column, each.field.type, target, name=each.name, step=step)
        fields.append(NamedColumn(field=Field(name=each.name, type=CAST_TYPES[target]), column=column))
        if reason is not None:
            reasons.append(reason)
    reason = typed.made_by.first(reasons) if reasons else None
    return ChangedSide(typed=typed.with_fields(fields), reason=reason)


def _cast(
    columns: Columns[C], value: C, kind: Type, target: str, *, name: str, step: Transformation
) -> tuple[C, C | None]:
    found = columns.cast(value, kind, target)
    if found is None:
        raise refused_type(step, name, kind, f"cannot cast to {target}")
    if found.fails is None:
        return found.column, None
    what = f"the field {name}" if name else f"the {step.side}"
    start = f"{step.name} (Cast) cannot cast {what} to {target}: "
    return found.column, columns.when(found.fails, columns.problem(start, value))


def _spec(step: Transformation) -> dict[str, str]:
    """Types by the names of fields; by an empty name for the whole."""
    found = {}
    for each in texts(step, "spec"):
        name, colon, kind = each.rpartition(":")
        target = kind.strip().lower()
        if target not in CAST_TYPES or ":" in name or (colon and not name.strip()):
            raise refused(step, f"has an invalid item in spec: {each!r}")
        found[name.strip()] = target
    if not found or ("" in found and len(found) > 1):
        raise refused(step, "needs in spec either fields with their types, or one type")
    return found
