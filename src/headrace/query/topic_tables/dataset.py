"""A topic as a data set of Arrow that DuckDB scans: each scan reads from the log what it asks for.

DuckDB gives a scan of a `pyarrow.dataset.Dataset` the columns that it needs and the conditions on them, and
leaves both to `scanner`. So only the stretches are read in which the conditions can hold (`ranges.py`), only
the wanted columns are made of each record, and reading ends when DuckDB has enough rows, as with LIMIT.

Invariants: a scan sees the committed records of the plan's stretches, however often the question scans them;
a question reads no more bytes and takes no more time than its limits allow, and says so instead of giving a
part; records are in memory in portions of some megabytes. Belongs to the thread of one scan at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.client.batches import BatchReader, RecordsGoneError
from headrace.client.offsets_at_times import EARLIEST, offset_at_time
from headrace.client.topics import Partition, TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.topic_tables.plan import TopicPlan
from headrace.query.topic_tables.ranges import Ranges, ranges_of
from headrace.query.topic_tables.rows import TopicRows
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_columns import RecordColumns, record_columns

_PATIENCE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05
# Few rows at first: with LIMIT they are often enough.
_FIRST_ROWS: Final = 256
_MOST_ROWS: Final = 16_384
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


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """One topic for one question."""

    def __init__(self, plan: TopicPlan, rows: TopicRows, allowance: Allowance) -> None:
        # The base class has no constructor: it is meant for data sets of files.
        self._plan = plan
        self._rows = rows
        self._allowance = allowance
        self.notes = ScanNotes()

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> _Scan:
        """DuckDB calls this for each scan."""
        return _Scan(self, list(columns) if columns is not None else self.schema.names, filter)

    def batches(self, columns: Sequence[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches(columns, condition)
        except HeadraceError as error:
            # DuckDB would only pass on its text.
            self._allowance.failure = error
            raise
        except (CorruptBatchError, RecordsGoneError, pa.ArrowException, OSError) as error:
            self._allowance.failure = HeadraceError(
                "query_failed",
                f"Topic `{self._plan.topic.name}` cannot be read: {error}.",
                remedy="Leave out the damaged offsets with a condition on `_offset`, or ask again.",
            )
            raise

    def _batches(self, columns: Sequence[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        needed = set(columns) | _named_in(condition, self.schema)
        ranges = ranges_of(condition, self._plan.stretches, self.schema)
        reader = BatchReader(_KnownLeaders(self._plan), timeout_seconds=_PATIENCE_SECONDS)
        try:
            stretches = dict(self._timed(ranges))
            self.notes.begin(stretches.items())
            size = _FIRST_ROWS
            for number, (first, end) in sorted(stretches.items()):
                for records in self._records(reader, number, first, end):
                    at = 0
                    while at < len(records):
                        part = records.only(slice(at, at + size))
                        at += size
                        size = min(size * 2, _MOST_ROWS)
                        self.notes.rows += len(part)
                        batch = self._rows.batch(part, number, needed)
                        yield from _chosen(batch, columns, condition)
        finally:
            reader.close()

    def _timed(self, ranges: Ranges) -> Iterator[tuple[int, tuple[int, int]]]:
        """The stretches without records that are certainly too old, or too new."""
        for number, (first, end) in ranges.stretches.items():
            low, high = first, end
            if ranges.from_ms is not None and ranges.from_ms > 0:
                found = self._offset_at(number, ranges.from_ms)
                low = end if found is None else max(first, found)
            # Producers may write older times later, but the log's own times never decrease.
            if ranges.to_ms is not None and ranges.to_ms > 0 and self._plan.appended_times:
                found = self._offset_at(number, ranges.to_ms)
                high = end if found is None else min(end, found)
            if low < high:
                yield number, (low, high)

    def _offset_at(self, number: int, at_ms: int) -> int | None:
        return offset_at_time(
            self._plan.leaders[number],
            self._plan.topic.name,
            number,
            at_ms,
            timeout_seconds=_PATIENCE_SECONDS,
        )

    def _records(self, reader: BatchReader, number: int, first: int, end: int) -> Iterator[RecordColumns]:
        """The visible records of a stretch, in order, in portions."""
        topic = self._plan.topic
        position = first
        waiting_since = time.monotonic()
        while position < end:
            self._check(number, position)
            try:
                found = reader.record_set(topic, number, position)
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
            self.notes.bytes_read += size
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
        total = sum(end - first for first, end in self.notes.stretches.values())
        raise HeadraceError(
            "query_failed",
            f"Reading topic `{self._plan.topic.name}` takes {limit}: {self.notes.rows} records of about "
            f"{total} were read, up to offset {position} of partition {number}.",
            remedy="Narrow it with conditions on `_offset`, `_timestamp` or `_partition`, or add a LIMIT.",
        )


class _Scan:
    """What DuckDB expects of a scanner."""

    def __init__(
        self, dataset: TopicDataset, columns: Sequence[str], condition: pc.Expression | None
    ) -> None:
        self._dataset = dataset
        self._columns = columns
        self._condition = condition

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._dataset.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        batches = self._dataset.batches(self._columns, self._condition)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


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


def _named_in(condition: pc.Expression | None, schema: pa.Schema) -> set[str]:
    """The columns that a condition may be about; some more do no harm."""
    if condition is None:
        return set()
    text = str(condition)
    return {name for name in schema.names if name in text}


def _chosen(
    batch: pa.RecordBatch, columns: Sequence[str], condition: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    if condition is None:
        yield batch.select(list(columns))
        return
    table = pa.Table.from_batches([batch])
    yield from table.filter(condition).select(list(columns)).to_batches()
