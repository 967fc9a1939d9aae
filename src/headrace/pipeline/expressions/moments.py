"""Moments: the range of a row's time, and texts that are compared with it or with a window's bounds.

`WHERE ROWTIME >= '2020-02'`: missing parts take their first value; without a zone the moment is in UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_MOMENT: Final = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})"
    r"(T((?P<hour>\d{1,2})(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})([.](?P<fraction>\d{1,9}))?)?)?)?)?)?)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)
# The times of rows: the years 1 to 9999, in milliseconds since 1970.
FIRST_MS: Final = -62_135_596_800_000
LAST_MS: Final = 253_402_300_799_999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(text: str) -> int | None:
    """Milliseconds since 1970, or None if the text is not a moment."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        return None
    part = {name: int(match[name] or 0) for name in ("hour", "minute", "second")}
    fraction = int((match["fraction"] or "0").ljust(9, "0")[:6])
    try:
        moment = datetime(
            int(match["year"]),
            int(match["month"] or 1),
            int(match["day"] or 1),
            part["hour"],
            part["minute"],
            part["second"],
            fraction,
            tzinfo=_zone(match["zone"]),
        )
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
