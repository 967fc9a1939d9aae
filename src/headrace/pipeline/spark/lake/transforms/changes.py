"""What all transformations share: what they return, how settings are read, and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column

from headrace.core.errors import HeadraceError
from headrace.lake.sink import Transformation
from headrace.lake.types import Struct, Type, ddl
from headrace.pipeline.sink_tables import refused
from headrace.pipeline.spark.lake.records import NamedColumn, Record, Typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A record after a transformation. `reason` is why records could not be transformed, null if they could;
    it is not yet part of the record.
    """

    record: Record
    reason: Column | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSide:
    """The same for a key or a value."""

    typed: Typed
    reason: Column | None = field(default=None, repr=False)


Change = Callable[[Record, Transformation], Changed]
# The key or the value, and the record that it is in.
SideChange = Callable[[Typed, Transformation, Record], ChangedSide]


def on_side(change: SideChange) -> Change:
    """A transformation of the key or the value, as `side` says."""

    def changed(record: Record, step: Transformation) -> Changed:
        if step.side == "value":
            found = change(record.value, step, record)
            return Changed(record=replace(record, value=found.typed), reason=found.reason)
        if record.key is None:
            raise refused(step, "changes the key, but keys are not read")
        found = change(record.key, step, record)
        return Changed(record=replace(record, key=found.typed), reason=found.reason)

    return changed


def text(step: Transformation, name: str, default: str | None = None) -> str:
    found = step.settings.get(name, default)
    if found is None:
        raise refused(step, f"needs the setting {name}")
    return found


def texts(step: Transformation, *names: str) -> tuple[str, ...]:
    """A list, by the first of the names that is set: later ones are older."""
    found = next((step.settings[name] for name in names if name in step.settings), "").strip()
    return tuple(each.strip() for each in found.split(",")) if found else ()


def require_struct(typed: Typed, step: Transformation) -> Typed:
    if not isinstance(typed.type, Struct):
        raise refused(
            step, f"needs a record with fields, but the {step.side or 'value'} is {ddl(typed.type)}"
        )
    return typed


def require_distinct(fields: Sequence[NamedColumn], step: Transformation) -> Sequence[NamedColumn]:
    """Names that differ only in case are one column in the lake."""
    if not fields:
        raise refused(step, "leaves no field")
    name, count = Counter(each.name.casefold() for each in fields).most_common(1)[0]
    if count > 1:
        shown = next(each.name for each in reversed(fields) if each.name.casefold() == name)
        raise refused(step, f"makes two fields named {shown}")
    return fields


def refused_type(step: Transformation, name: str, kind: Type, problem: str) -> HeadraceError:
    what = f"the field {name}, which is" if name else f"the {step.side}, which is"
    return refused(step, f"{problem} {what} {ddl(kind)}")
