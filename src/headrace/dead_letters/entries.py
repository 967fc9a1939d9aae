"""One dead letter: what could not be read, why, by which query, and from where.

Pure: made from the parts of a record. A record that somebody else wrote to a dead-letter topic becomes an
entry too, with whatever it has; without the place it came from (`read_from`) it can be shown but not sent
back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.coordinates import ERROR_HEADER, POSTED_AT_HEADER
from headrace.lake.dead_letter_headers import (
    ATTEMPTS_HEADER,
    ORIGINAL_PREFIX,
    POSITION_HEADER,
    QUERY_HEADER,
    READ_FROM_HEADER,
    RecordPlace,
    parse_place,
)

Headers = tuple[tuple[str, bytes | None], ...]

_AT: Final = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class At:
    """Partition and offset within a dead-letter topic, written `0:17`."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


def parse_at(text: str) -> At:
    """Raises HeadraceError bad_request."""
    matched = _AT.fullmatch(text.strip())
    if matched is None:
        raise HeadraceError(
            "bad_request",
            f"`{text}` is not the place of a dead letter.",
            remedy="Write PARTITION:OFFSET, for example 0:17; `headrace dlq list TOPIC` shows the places.",
        )
    return At(partition=int(matched[1]), offset=int(matched[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """`headers` are all headers of the entry; `original_headers` those of the original record."""

    topic: str
    at: At
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def reason(self) -> str | None:
        return self._text(ERROR_HEADER)

    @property
    def query(self) -> str | None:
        return self._text(QUERY_HEADER)

    @property
    def position(self) -> str | None:
        return self._text(POSITION_HEADER)

    @property
    def read_from(self) -> RecordPlace | None:
        text = self._text(READ_FROM_HEADER)
        try:
            return None if text is None else parse_place(text)
        except ValueError:
            return None

    @property
    def attempts(self) -> int:
        """How often the record has failed."""
        return max(1, self._number(ATTEMPTS_HEADER) or 1)

    @property
    def posted_at_ms(self) -> int | None:
        """When the original record was written."""
        return self._number(POSTED_AT_HEADER)

    @property
    def original_headers(self) -> Headers:
        return tuple(
            (name.removeprefix(ORIGINAL_PREFIX), value)
            for name, value in self.headers
            if name.startswith(ORIGINAL_PREFIX)
        )

    def _text(self, name: str) -> str | None:
        value = next((value for key, value in reversed(self.headers) if key == name), None)
        return None if value is None else value.decode("utf-8", errors="replace")

    def _number(self, name: str) -> int | None:
        text = self._text(name)
        return int(text) if text is not None and text.isascii() and text.isdigit() else None


def dead_letter(record: Any) -> DeadLetter:
    """Make an entry from a record as it was read."""
    given: Sequence[tuple[str, bytes | str | None]] = record.headers() or ()
    return DeadLetter(
        topic=record.topic(),
        at=At(partition=record.partition(), offset=record.offset()),
        timestamp_ms=record.timestamp()[1],
        key=record.key(),
        value=record.value(),
        headers=tuple((name, value.encode() if isinstance(value, str) else value) for name, value in given),
    )
