"""Reads stretches of a topic for one question, within what the question may read.

Invariants: the committed records of a stretch come in order, each once; a question reads no more bytes and
takes no more time than its limits allow, and says so instead of giving a part; records are in memory in
portions of some megabytes. A reading belongs to the thread of one scan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.client.batches import BatchReader, RecordsGoneError
from headrace.client.offsets_at_times import EARLIEST, offset_at_time
from headrace.client.topics import Partition, TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.topic_tables.plan import TopicPlan
from headrace.query.topic_tables.ranges import Ranges
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_columns import RecordColumns, record_columns

_PATIENCE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05
_DECODED_BYTES: Final = 8 * 1024 * 1024
_MOST_HEADERS: Final = 10_000
_MEGABYTE: Final = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Allowance:
    """What the scans of one question may read of topics, together. `failure` is why one of them ended."""

    megabytes: int
    seconds: float
    bytes_read: int = 0
    deadline: float = field(init=False)
    failure: HeadraceError | None = None

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.seconds


@dataclass(slots=True, kw_only=True)
class ScanNotes:
    """What the scans of one topic have read, for the answer's summary."""

    rows: int = 0
    bytes_read: int = 0
    scans: int = 0
    # The smallest and the largest offset that any scan was to read, by partition.
    stretches: dict[int, tuple[int, int]] = field(default_factory=dict)

    def begin(self, stretches: Iterable[tuple[int, tuple[int, int]]]) -> None:
        self.scans += 1
        for number, (first, end) in stretches:
            former = self.stretches.get(number, (first, end))
            self.stretches[number] = (min(first, former[0]), max(end, former[1]))


class TopicReading:
    """One way through a topic. Close it."""

    def __init__(self, plan: TopicPlan, allowance: Allowance, notes: ScanNotes) -> None:
        self._plan = plan
        self._allowance = allowance
        self._notes = notes
        self._reader = BatchReader(_KnownLeaders(plan), timeout_seconds=_PATIENCE_SECONDS)

    def close(self) -> None:
        self._reader.close()

    def portions(self, ranges: Ranges) -> Iterator[tuple[int, RecordColumns]]:
        """The records that may be within the ranges, with their partitions, one partition after the other.

        Raises HeadraceError.
        """
        try:
            stretches = dict(self._timed(ranges))
            self._notes.begin(stretches.items())
            for number, (first, end) in sorted(stretches.items()):
                for records in self._records(number, first, end):
                    yield number, records
        except (CorruptBatchError, RecordsGoneError, OSError) as error:
            raise HeadraceError(
                "query_failed",
                f"Topic `{self._plan.topic.name}` cannot be read: {error}.",
                remedy="Leave out damaged offsets with a condition on `_offset`, or ask again.",
            ) from error

    def _timed(self, ranges: Ranges) -> Iterator[tuple[int, tuple[int, int]]]:
        """The stretches without records that are certainly too old, or too new."""
        for number, (first, end) in ranges.stretches.items():
            low, high = first, end
            if ranges.from_ms is not None and ranges.from_ms > 0:
                found = self._offset_at(number, ranges.from_ms)
                low = end if found is None else max(first, found)
            # Producers may write older times later, but the log's own times never decrease.
            if ranges.to_ms is not None and ranges.to_ms > 0 and self._are_appended_times(number, low):
                found = self._offset_at(number, ranges.to_ms)
                high = end if found is None else min(end, found)
            if low < high:
                yield number, (low, high)

    def _are_appended_times(self, number: int, offset: int) -> bool:
        """Whether the log stamps the records from there on, and did not begin to do so later."""
        if not self._plan.appended_times:
            return False
        headers = self._reader.headers(self._plan.topic, number, offset)
        return headers[0].log_append_time if headers else False

    def _offset_at(self, number: int, at_ms: int) -> int | None:
        return offset_at_time(
            self._plan.leaders[number],
            self._plan.topic.name,
            number,
            at_ms,
            timeout_seconds=_PATIENCE_SECONDS,
        )

    def _records(self, number: int, first: int, end: int) -> Iterator[RecordColumns]:
        """The visible records of a stretch, in order, in portions."""
        topic = self._plan.topic
        position = first
        waiting_since = time.monotonic()
        while position < end:
            self._check(number, position)
            try:
                found = self._reader.record_set(topic, number, position)
            except RecordsGoneError:
                # Retention may have removed the beginning meanwhile: then the topic begins later.
                begun = self._begun(number, position)
                if begun is None:
                    raise
                position = begun
                continue
            if found is None or found.position <= position:
                if time.monotonic() > waiting_since + _PATIENCE_SECONDS:
                    raise HeadraceError(
                        "log_unavailable",
                        f"Partition {number} of topic `{topic.name}` gives nothing from offset {position} "
                        f"on, although it had records up to {end}.",
                        remedy="Ask again in a moment.",
                    )
                time.sleep(_PAUSE_SECONDS)
                continue
            waiting_since = time.monotonic()
            size = len(found.content)
            self._notes.bytes_read += size
            self._allowance.bytes_read += size
            for records in record_columns(
                found.content, found.batches, most_headers=_MOST_HEADERS, about_bytes=_DECODED_BYTES
            ):
                yield records.only((records.offset >= position) & (records.offset < end))
            position = found.position

    def _begun(self, number: int, position: int) -> int | None:
        """The first offset that is still there, if it lies behind this position."""
        first = self._offset_at(number, EARLIEST)
        return first if first is not None and first > position else None

    def _check(self, number: int, position: int) -> None:
        allowance = self._allowance
        if allowance.bytes_read >= allowance.megabytes * _MEGABYTE:
            limit = f"more than the {allowance.megabytes} MB of topics that a question may read"
        elif time.monotonic() > allowance.deadline:
            limit = f"more than the {allowance.seconds:g} s that a question may take"
        else:
            return
        total = sum(end - first for first, end in self._notes.stretches.values())
        raise HeadraceError(
            "query_failed",
            f"Reading topic `{self._plan.topic.name}` takes {limit}: {self._notes.rows} records of about "
            f"{total} were read, up to offset {position} of partition {number}.",
            remedy="Narrow it with conditions on `_offset`, `_timestamp` or `_partition`, or add a LIMIT.",
        )


class _KnownLeaders:
    """The leaders that the query process has asked for."""

    def __init__(self, plan: TopicPlan) -> None:
        self._plan = plan
        self.bootstrap = plan.bootstrap

    def leaders(self, topics: Iterable[TopicIdentity]) -> dict[Partition, tuple[str, int]]:
        return {
            (topic.topic_id, number): leader
            for topic in topics
            for number, leader in self._plan.leaders.items()
        }

    def stretches(self, topics: Iterable[TopicIdentity]) -> dict[str, dict[int, tuple[int, int]]]:
        return {topic.name: dict(self._plan.stretches) for topic in topics}
