"""The name of a table at a version or at a time: `events@v12`, `events@2026-03-14 10:00:00`.

Every door can carry such a name, since it is one name: `spelling.py` turns clauses into it. A table of the
lake that has such a name itself comes first. Times without a zone are in UTC, as in all of SQL here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from headrace.core.errors import HeadraceError

_VERSION: Final = re.compile(r"v(\d{1,18})")
_SEPARATOR: Final = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A table at a version, or at a time in milliseconds since 1970. `name` is as in the statement."""

    name: str
    table: str
    version: int | None = None
    at_ms: int | None = None

    @property
    def described(self) -> str:
        if self.version is not None:
            return f"version {self.version}"
        return f"{datetime.fromtimestamp((self.at_ms or 0) / 1000, tz=UTC):%Y-%m-%d %H:%M:%S.%f} UTC"


def named_moment(table: str, *, version: int | None = None, at: str = "") -> str:
    """The name of a table at a version, or at a time as text."""
    return f"{table}{_SEPARATOR}{f'v{version}' if version is not None else at}"


def table_of(name: str, tables: Collection[str]) -> str | None:
    """The table (of these, case-folded) that such a name is about; None if it is another name."""
    folded = name.casefold()
    table, separator, _ = folded.rpartition(_SEPARATOR)
    return table if separator and folded not in tables and table in tables else None


def moment_of(name: str) -> Moment:
    """What a name says for which there is a `table_of`. Raises bad_request."""
    table, _, text = name.rpartition(_SEPARATOR)
    if match := _VERSION.fullmatch(text.casefold()):
        return Moment(name=name, table=table, version=int(match[1]))
    try:
        at = datetime.fromisoformat(text.strip().upper())
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        at_ms = int(at.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise HeadraceError(
            "bad_request",
            f"`{text[:100]}` is neither a version nor a time of table {table}.",
            remedy="Write `AS OF VERSION 12` or `AS OF TIMESTAMP '2026-03-14 10:00:00'`.",
        ) from error
    return Moment(name=name, table=table, at_ms=at_ms)
