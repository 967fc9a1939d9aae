"""Replays batches that are already in the log into a producer state, as appending them did.

Byte format: `wire.record_batch`, and `wire.control_batches` for the only record that is read: the marker that
ends a transaction. Crash behaviour: nothing is written. Who may call: recovery, `snapshots`,
`aborted_transactions`. Never looks into clients' records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.errors import StorageError
from headrace.log.segments.batch_walk import Fields, header_of, walk
from headrace.wire.control_batches import read_end_marker
from headrace.wire.errors import WireError
from headrace.wire.record_batch import CONTROL, LOG_OVERHEAD

if TYPE_CHECKING:
    from headrace.log.producers.producer_state import Ended, ProducerState
    from headrace.log.segments.segment import Segment
    from headrace.log.segments.segment_list import SegmentList


def replay_batch(producers: ProducerState, segment: Segment, position: int, fields: Fields) -> Ended | None:
    """Replay one batch of a producer. Return the transaction that it ends, if any. Raises StorageError."""
    header = header_of(fields)
    if not fields[5] & CONTROL:
        producers.appended(header, fields[0], fields[8])
        return None
    batch = segment.read(segment.open_file(), fields[1] + LOG_OVERHEAD, position)
    try:
        marker = read_end_marker(batch, header)
    except WireError as error:
        raise StorageError(f"{segment.log_path} is damaged at byte {position}: {error}") from error
    return None if marker is None else producers.ended(header, marker, fields[0], fields[8])


def replay_all(segments: SegmentList, producers: ProducerState, offset: int, end_offset: int) -> int:
    """Replay all batches from the one with `offset` to before `end_offset`. Return how many there were.

    Raises StorageError.
    """
    batches = 0
    for number in range(max(0, segments.number_of(offset)), len(segments)):
        segment = segments[number]
        if segment.base_offset >= end_offset:
            break
        place = segment.locate(max(offset, segment.base_offset)) if segment.size else None
        if place is None:
            continue
        for position, fields in walk(segment.open_file(), place.position, segment.size, verify=False):
            if fields[0] >= end_offset:
                return batches
            batches += 1
            if fields[9] >= 0:
                replay_batch(producers, segment, position, fields)
    return batches
