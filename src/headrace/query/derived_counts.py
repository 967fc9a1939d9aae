"""Counting what has come through: each source coordinate once, and the latencies of whole batches.

Pure: it sees records one by one, and knows no consumer and no clock. The rules:

- A lane is (query, source topic id, source partition, partition of the derived topic). In a lane coordinates
  go backwards only when something upstream was repeated; so a record counts where its (offset, ordinal) lies
  above the lane's highest.
- A record without our header, or with one that cannot be read, counts for itself.
- All lanes count, also those of a source topic that was deleted and made again since: the count is of all
  that stands in the derived topic, as the lake's is of all its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, SourceCoordinates, parse_source
from headrace.query.log_directory import plain_topic_id

Headers = Sequence[tuple[str, bytes | str | None]]


class DerivedCount:
    """The records of one derived topic."""

    def __init__(self) -> None:
        self.count = 0
        self._highest: dict[tuple[str, str, int, int], tuple[int, int]] = {}

    def add(self, partition: int, headers: Headers) -> bool:
        """Count a record of this partition; False where its source was counted already."""
        source = source_of(headers)
        if source is not None:
            lane = (source.query, plain_topic_id(source.topic_id), source.partition, partition)
            position = (source.offset, source.ordinal)
            if position <= self._highest.get(lane, (-1, -1)):
                return False
            self._highest[lane] = position
        self.count += 1
        return True

    def source_ends(self) -> dict[tuple[str, int], int]:
        """By source topic id and partition: the offset behind the highest that a record came from."""
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
    """Values with counts that add up to `rows`, and that have these evenly spaced quantiles.

    Of so few rows that each quantile stands for less than one, the rows themselves are taken back out of
    the quantiles.
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
