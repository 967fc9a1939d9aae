"""What all transformations share: what they return, how settings are read, and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol

from headrace.core.errors import HeadraceError
from headrace.lake.sink import Transformation
from headrace.lake.types import Struct, Type, ddl
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_tables import refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Generic[C]):
    """A record after a transformation. `reason` is why records could not be transformed, null if they could;
    it is not yet part of the record.
    """

    record: Record[C]
    reason: C | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSide(Generic[C]):
    """The same for a key or a value."""

    typed: Typed[C]
    reason: C | None = field(default=None, repr=False)


class Change(Protocol):
    """What a kind of transformation does to a record."""

    def __call__(self, record: Record[C], step: Transformation, /) -> Changed[C]: ...


class SideChange(Protocol):
    """The same for the key or the value; `record` is what it is in."""

    def __call__(self, typed: Typed[C], step: Transformation, record: Record[C], /) -> ChangedSide[C]: ...


def on_side(change: SideChange) -> Change:
    """A transformation of the key or the value, as `side` says."""

    def changed(record: Record[C], step: Transformation) -> Changed[C]:
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


def require_struct(typed: Typed[C], step: Transformation) -> Typed[C]:
    if not isinstance(typed.type, Struct):
        raise refused(
            step, f"needs a record with fields, but the {step.side or 'value'} is {ddl(typed.type)}"
        )
    return typed


def require_distinct(fields: Sequence[NamedColumn[C]], step: Transformation) -> Sequence[NamedColumn[C]]:
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
