"""Counts derived records, each source coordinate once, and spreads a batch's latency quantiles over its rows.

Pure: it sees records one at a time and knows no consumer and no clock. The rules:

- A lane is (query, source topic id, source partition, partition of the derived topic). Within a lane,
  coordinates go backwards only when something upstream was repeated, so a record counts if its (offset,
  ordinal) is above the highest of its lane.
- A record without our header, or with an unreadable one, counts by itself.
- All lanes count, including those of a source topic that was deleted and recreated since: the count covers
  everything in the derived topic, just as the lake's covers all its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.client.topics import printed_topic_id
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, SourceCoordinates, parse_source

Headers = Sequence[tuple[str, bytes | str | None]]


class DerivedCount:
    """The records of one derived topic."""

    def __init__(self) -> None:
        self.count = 0
        self._highest: dict[tuple[str, str, int, int], tuple[int, int]] = {}

    def add(self, partition: int, headers: Headers) -> bool:
        """Count a record of this partition; False if its source was already counted."""
        source = source_of(headers)
        if source is not None:
            lane = (source.query, printed_topic_id(source.topic_id), source.partition, partition)
            position = (source.offset, source.ordinal)
            if position <= self._highest.get(lane, (-1, -1)):
                return False
            self._highest[lane] = position
        self.count += 1
        return True

    def source_ends(self) -> dict[tuple[str, int], int]:
        """By source topic id and partition: the offset after the highest one that a record came from."""
        ends: dict[tuple[str, int], int] = {}
        for (_, topic_id, partition, _), (offset, _) in self._highest.items():
            place = (topic_id, partition)
            ends[place] = max(ends.get(place, 0), offset + 1)
        return ends


def source_of(headers: Headers) -> SourceCoordinates | None:
    header = _last(headers, SOURCE_HEADER)
    if header is None:
        return None
    try:
        return parse_source(header)
    except ValueError:
        return None


def posted_at_ms(headers: Headers) -> int | None:
    header = _last(headers, POSTED_AT_HEADER)
    return int(header) if header is not None and header.isdigit() else None


def weighted_quantiles(quantiles: Sequence[float], rows: int) -> Iterator[tuple[float, int]]:
    """Values with counts that add up to `rows` and have these evenly spaced quantiles.

    With so few rows that each quantile stands for less than one, the rows are recovered from the quantiles.
    """
    if not quantiles or rows <= 0:
        return
    last = len(quantiles) - 1
    if rows <= len(quantiles):
        for row in range(rows):
            yield quantiles[round(last * row / (rows - 1)) if rows > 1 else last // 2], 1
        return
    for number, value in enumerate(quantiles):
        yield value, (number + 1) * rows // (last + 1) - number * rows // (last + 1)


def _last(headers: Headers, name: str) -> bytes | None:
    for key, value in reversed(headers):
        if key == name:
            return value.encode() if isinstance(value, str) else value
    return None
