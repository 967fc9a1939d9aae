"""Latencies from what the pipeline leaves: a record's time of POST, and the quantiles of a batch of rows.

Pure: it knows no consumer and no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.lake.coordinates import POSTED_AT_HEADER

Headers = Sequence[tuple[str, bytes | str | None]]


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
