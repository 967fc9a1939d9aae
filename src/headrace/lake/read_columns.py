"""As what a run reads the records of a topic before it transforms them: in the commits of its table.

The table's own columns do not say it: a transformation has changed them, and the types depend on all schemas
that the run knew. Whoever makes the same rows without the run, as SQL does for records that are not in the
lake yet, needs to know them. Values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.lake.delta_schema import schema_of, struct_of
from headrace.lake.types import Struct

_COMMIT: Final = "of a commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadColumns:
    """`key` is None if keys are not read."""

    value: Struct
    key: Struct | None = None

    def as_json(self) -> dict[str, str]:
        found = {"value": schema_of(self.value)}
        return found if self.key is None else {**found, "key": schema_of(self.key)}


def read_columns(content: Mapping[str, Any] | None) -> ReadColumns | None:
    """The inverse of `as_json`; None if a commit does not say it."""
    if content is None:
        return None
    key = content.get("key")
    return ReadColumns(
        value=struct_of(content["value"], table=_COMMIT),
        key=None if key is None else struct_of(key, table=_COMMIT),
    )
