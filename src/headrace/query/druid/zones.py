"""Time zones by name (`America/Los_Angeles`) or offset (`-08:00`), in a statement and in its results.

Timestamps are the wall clock of UTC everywhere in a translated statement; a zone's own wall clock appears
only between `local` and `instant`. Never depends on the time zone of the session.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from headrace.query.druid.errors import DruidSqlError

_OFFSET: Final = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?")
_UTC_NAMES: Final = frozenset({"utc", "z", "gmt", "etc/utc", "etc/gmt", "+00:00", "-00:00"})
_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """`minutes` is the offset of a zone that has only one; None if it depends on the date."""

    name: str
    minutes: int | None

    @property
    def is_utc(self) -> bool:
        return self.minutes == 0

    def local(self, utc: str) -> str:
        """The zone's wall clock for a timestamp, both as DuckDB SQL."""
        if self.is_utc:
            return utc
        if self.minutes is not None:
            return f"({utc} + INTERVAL ({self.minutes}) MINUTE)"
        return f"timezone('{self.name}', timezone('UTC', {utc}))"

    def instant(self, local: str) -> str:
        """The timestamp at which the zone's clock shows this."""
        if self.is_utc:
            return local
        if self.minutes is not None:
            return f"({local} - INTERVAL ({self.minutes}) MINUTE)"
        return f"timezone('UTC', timezone('{self.name}', {local}))"

    @property
    def tzinfo(self) -> tzinfo:
        if self.minutes is None:
            return ZoneInfo(self.name)
        return UTC if self.is_utc else timezone(timedelta(minutes=self.minutes))


UTC_ZONE: Final = Zone(name="UTC", minutes=0)


@lru_cache(256)
def zone_of(name: str) -> Zone:
    """Raises DruidSqlError if there is no such zone."""
    if name.lower() in _UTC_NAMES:
        return UTC_ZONE
    found = _OFFSET.fullmatch(name)
    if found is not None:
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        if minutes >= 24 * 60 or int(found[3] or 0) >= 60:
            raise _unknown(name)
        signed = -minutes if found[1] == "-" else minutes
        return Zone(name=f"{found[1]}{minutes // 60:02}:{minutes % 60:02}", minutes=signed)
    try:
        if len(name) > _LONGEST_NAME or not re.fullmatch(r"[A-Za-z0-9_+/-]+", name):
            raise _unknown(name)
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise _unknown(name) from error
    return Zone(name=name, minutes=None)


def _unknown(name: str) -> DruidSqlError:
    return DruidSqlError(
        f"There is no time zone '{name[:_LONGEST_NAME]}'",
        remedy="Use a name such as 'America/Los_Angeles' or an offset such as '-08:00'.",
    )
