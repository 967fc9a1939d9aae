"""Changes that clients ask for, and their form in the log.

Values only: `decisions.py` says what becomes of them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.schema import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Text and references are in canonical form. `id` and `version` are given when importing."""

    subject: str
    schema_type: str
    schema: str
    references: tuple[Reference, ...] = ()
    id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVersion:
    subject: str
    version: int
    permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubject:
    subject: str
    permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfig:
    """What is None stays as it is. Without a subject, for all that have no own."""

    subject: str | None
    level: Level | None = None
    normalize: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveConfig:
    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    """`force` allows IMPORT where there are schemas already."""

    subject: str | None
    mode: Mode
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMode:
    """`recursive`, without a subject: also the modes of all subjects."""

    subject: str | None
    recursive: bool = False


Change = Register | DeleteVersion | DeleteSubject | SetConfig | RemoveConfig | SetMode | RemoveMode

_KINDS: dict[str, type[Change]] = {
    "register": Register,
    "deleteVersion": DeleteVersion,
    "deleteSubject": DeleteSubject,
    "setConfig": SetConfig,
    "removeConfig": RemoveConfig,
    "setMode": SetMode,
    "removeMode": RemoveMode,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def change_as_json(change: Change) -> dict[str, Any]:
    return {"change": _NAMES[type(change)], **dataclasses.asdict(change)}


def change_from_json(content: dict[str, Any]) -> Change:
    """Raises KeyError, TypeError, ValueError."""
    given = {name: value for name, value in content.items() if name != "change"}
    if given.get("level") is not None:
        given["level"] = Level(given["level"])
    if given.get("mode") is not None:
        given["mode"] = Mode(given["mode"])
    if "references" in given:
        given["references"] = tuple(Reference(**each) for each in given["references"])
    return _KINDS[content["change"]](**given)
