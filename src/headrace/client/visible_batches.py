"""Which batches of a fetch are visible, and how many records they have between two offsets. Pure.

The markers of transactions are not visible, nor are the batches of aborted ones. The last batch of a fetch
may be cut off; then it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.wire.control_batches import read_end_marker
from headrace.wire.record_batch import HEADER_SIZE, BatchHeader, Buffer, read_header
from headrace.wire.records import read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Visible records of one batch: `records` of them from offset `first` on, and before `end`."""

    first: int
    end: int
    records: int


def headers_in(buffer: Buffer) -> list[BatchHeader]:
    """Of all whole batches. The last batch of a fetch may be cut off; then it is left out."""
    found: list[BatchHeader] = []
    position = 0
    while len(buffer) - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        position += header.size
        if position <= len(buffer):
            found.append(header)
    return found


def visible_batches(
    buffer: Buffer, offset: int, aborted: Sequence[tuple[int, int]], *, end: int | None = None
) -> tuple[list[Batch], int]:
    """The batches with visible records from `offset` on and before `end`, and where the next batch begins.

    `aborted` has first offset and producer id of the aborted transactions that reach into the buffer. The
    last batch of a fetch may be cut off; then it is left out.
    """
    headers, next_offset = visible_headers(buffer, offset, aborted)
    found: list[Batch] = []
    for header in headers:
        first = max(header.base_offset, offset)
        before = header.next_offset if end is None else min(header.next_offset, end)
        if records := _records_between(buffer, header, first, before):
            found.append(Batch(first=first, end=before, records=records))
    return found, next_offset


def visible_headers(
    buffer: Buffer, offset: int, aborted: Sequence[tuple[int, int]]
) -> tuple[list[BatchHeader], int]:
    """The headers of the batches whose records are visible, and where the next batch begins; at least
    `offset`. See `visible_batches`.
    """
    pending = sorted(aborted)
    ended: set[int] = set()
    found: list[BatchHeader] = []
    position, next_offset = 0, offset
    while len(buffer) - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if position + header.size > len(buffer):
            break
        position += header.size
        while pending and pending[0][0] <= header.last_offset:
            ended.add(pending.pop(0)[1])
        if header.control:
            marker = read_end_marker(buffer, header)
            if marker is not None and not marker.committed:
                ended.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in ended):
            found.append(header)
        next_offset = max(next_offset, header.next_offset)
    return found, next_offset


def _records_between(buffer: Buffer, header: BatchHeader, first: int, end: int) -> int:
    if first >= end:
        return 0
    if first == header.base_offset and end == header.next_offset:
        return header.record_count
    if header.record_count == header.last_offset_delta + 1:
        return end - first
    # Only a batch that compaction has thinned out has to be opened.
    return sum(
        first <= header.base_offset + record.offset_delta < end for record in read_records(buffer, header)
    )
