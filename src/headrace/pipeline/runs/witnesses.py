"""Whether a log still has what it had before an offset: asks for the *witness*, the last thing before it.

A log loses records only at its end, and never uses an offset again. So if what stood right before an offset
is still there, nothing before that offset is lost. Most often a record stands there. Where none does, the
headers of the batches tell whether something was lost, or whether there was no record to begin with, or is
none any longer:

- a batch with this offset that has records, such as the marker of a transaction, or one that compaction has
  thinned out, is what stood there;
- so is an empty batch of a producer, which compaction leaves. The empty batch over the offsets that a log has
  lost is of no producer (`log/partition/hole.py`);
- no batch at all was compacted away, if the batches before and behind the place have the same leader epoch:
  a log that has lost something goes on in a new one.

Anything else counts as lost: that costs time, but is never wrong. Only reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headrace.client.batches import BatchReader
from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.reading import PartitionReader
from headrace.client.topics import Partition, TopicIdentity
from headrace.pipeline.runs.commits import Offsets
from headrace.pipeline.runs.reading_back import reached
from headrace.wire.record_batch import BatchHeader

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
# Each further look for the batch before a gap begins so many times as far before it.
_FARTHER: Final = 8

# The headers of the batches from an offset on.
HeadersFrom = Callable[[int], Sequence[BatchHeader]]


def has_records(bootstrap: str, topics: Sequence[TopicIdentity], offsets: Offsets) -> bool:
    """Whether the log still has what it had at each of these offsets. Raises log_unavailable."""
    by_id = {topic.topic_id: topic for topic in topics}
    wanted = {
        (by_id[topic_id].name, partition): offset
        for topic_id, of_topic in offsets.items()
        for partition, offset in of_topic.items()
    }
    lacking = _without_record(bootstrap, wanted)
    if not lacking:
        return True
    cluster = Cluster(bootstrap)
    reader = BatchReader(cluster, only_committed=False)
    try:
        starts = cluster.earliest(topics)
        by_name = {topic.name: topic for topic in topics}
        return all(
            stands(_headers_of(reader, by_name[place[0]], place[1]), offset, starts.get(place, 0))
            for place, offset in lacking.items()
        )
    finally:
        reader.close()
        cluster.close()


def stands(headers_from: HeadersFrom, offset: int, start: int) -> bool:
    """Whether the batches of a partition, which begins at `start`, show that nothing was lost up to this
    offset.
    """
    following = headers_from(offset)
    if not following or _is_hole(following[0]):
        return False
    if following[0].base_offset <= offset:
        return True
    before = _last_before(headers_from, offset, start)
    return before is not None and not _is_hole(before) and before.leader_epoch == following[0].leader_epoch


def _headers_of(reader: BatchReader, topic: TopicIdentity, number: int) -> HeadersFrom:
    return lambda offset: reader.headers(topic, number, offset) or ()


def _is_hole(batch: BatchHeader) -> bool:
    return batch.record_count == 0 and batch.producer_id < 0


def _last_before(headers_from: HeadersFrom, offset: int, start: int) -> BatchHeader | None:
    distance, begun = 1, offset
    while begun > start:
        begun = max(offset - distance, start)
        found = list(_between(headers_from, begun, offset))
        if found:
            return found[-1]
        distance *= _FARTHER
    return None


def _between(headers_from: HeadersFrom, start: int, end: int) -> Iterator[BatchHeader]:
    while start < end:
        headers = headers_from(start)
        if not headers:
            return
        for header in headers:
            if header.base_offset >= end:
                return
            yield header
        start = headers[-1].next_offset


def _without_record(bootstrap: str, wanted: dict[Partition, int]) -> dict[Partition, int]:
    """Those of the places that have no record at their offset."""
    if not wanted:
        return {}
    pending, lacking = dict(wanted), {}
    reader = PartitionReader(bootstrap, only_committed=False)
    try:
        reader.assign(wanted)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while pending:
            for message in reader.poll(_POLL_SECONDS):
                place = (message.topic() or "", message.partition() or 0)
                first, end = reached(bootstrap, message)
                if place in pending and end is not None:
                    offset = pending.pop(place)
                    if first != offset:
                        lacking[place] = offset
            if time.monotonic() > deadline:
                raise log_late(bootstrap, f"read topic `{next(iter(pending))[0]}`", _PATIENCE_SECONDS)
        return lacking
    finally:
        reader.close()
