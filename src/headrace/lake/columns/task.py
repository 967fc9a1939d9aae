"""One task of a batch: reads stretches of a topic's partitions and writes their rows as data files.

The result says everything, also what went wrong: a task runs in another process, and an exception from there
would reach the writer as a text. A task that does not succeed leaves no file behind, unless it is killed or
the storage does not remove them; VACUUM does that then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.client.batches import PATIENCE_SECONDS, BatchReader, RecordsGoneError
from headrace.client.cluster import Cluster
from headrace.client.errors import log_unavailable
from headrace.core.errors import HeadraceError
from headrace.lake.columns.data_files import ColumnFiles, WrittenFile
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.columns.rows import rows_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.layout import COORDINATE_COLUMNS, POSTED_AT
from headrace.lake.types import Struct, Type
from headrace.wire.column_reader import Numbers
from headrace.wire.errors import WireError
from headrace.wire.record_columns import RecordColumns, record_columns

# Rows wait in memory for the others of their folders, up to so many bytes. Writing them takes as much again.
_WAITING_BYTES: Final = 128 * 1024 * 1024
# Decoded at once: few enough to stay in the processor's cache.
_DECODED_BYTES: Final = 8 * 1024 * 1024
# And so many values of columns: one that is null takes a byte in a record and eight or more in a column.
_DECODED_VALUES: Final = 2_000_000
# Each header takes time for all records.
_MOST_HEADERS: Final = 64
_PAUSE_SECONDS: Final = 0.02
_SAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Records of one partition, from offset `first` on and before `end`."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What one task has done. `highest` are the highest offsets that it has seen, by partition;
    `latencies_ms` are a sample of the times from POST to here.

    If it is `unusual`, or `failure` or `storage_failure` is set, nothing was written; they say why. A failure
    is the code, the message and the remedy of a HeadraceError; a storage failure is the number, the text and
    the file of an OSError.
    """

    files: tuple[WrittenFile, ...] = ()
    records: int = 0
    dropped: int = 0
    highest: dict[int, int] = field(default_factory=dict)
    latencies_ms: tuple[float, ...] = ()
    unusual: str = ""
    failure: tuple[str, str, str] | None = None
    storage_failure: tuple[int | None, str, str] | None = None


def run_task(plan: ColumnPlan, number: int, stretches: Sequence[Stretch]) -> TaskResult:
    """Never raises an error that the writer has to tell apart."""
    task = _Task(plan, number)
    try:
        return task.run(stretches)
    except UnusualRecordsError as error:
        failed = TaskResult(unusual=str(error))
    except WireError as error:
        failed = TaskResult(unusual=f"a batch cannot be read: {error}")
    except (pa.ArrowException, MemoryError) as error:
        failed = TaskResult(unusual=f"its columns cannot be made: {type(error).__name__} {error}")
    except RecordsGoneError as error:
        reason = f"The batch cannot be read: {error}. The query starts again from what there is."
        failed = TaskResult(failure=("pipeline_failed", reason, ""))
    except HeadraceError as error:
        failed = TaskResult(failure=(error.code, error.message, error.remedy))
    except OSError as error:
        failed = TaskResult(
            storage_failure=(error.errno, error.strerror or str(error), str(error.filename or ""))
        )
    task.files.remove()
    return failed


class _Task:
    def __init__(self, plan: ColumnPlan, number: int) -> None:
        self._plan = plan
        self.files = ColumnFiles(plan, number)
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._most_records = max(_DECODED_VALUES // _values_of_a_row(plan.columns), 1)
        self._records = self._dropped = 0
        self._highest: dict[int, int] = {}
        self._latencies: list[Numbers] = []

    def run(self, stretches: Sequence[Stretch]) -> TaskResult:
        for stretch in stretches:
            for records in _records(self._plan, stretch):
                for piece in records.pieces(self._most_records):
                    self._take(piece, stretch.partition)
        self._write()
        return TaskResult(
            files=tuple(self.files.written),
            records=self._records,
            dropped=self._dropped,
            highest=self._highest,
            latencies_ms=self._sampled_latencies(),
        )

    def _take(self, records: RecordColumns, partition: int) -> None:
        if not len(records):
            return
        self._records += len(records)
        self._highest[partition] = max(self._highest.get(partition, -1), int(records.offset.max()))
        is_null = records.value.is_null
        if is_null.any():
            if not self._plan.drops_nulls:
                raise UnusualRecordsError("a record has no value")
            self._dropped += int(is_null.sum())
            records = records.only(~is_null)
            if not len(records):
                return
        rows = rows_of(
            records,
            partition=partition,
            topic_id=self._plan.topic.topic_id,
            columns=self._plan.columns,
            schema_by_id=self._plan.schemas.get,
        )
        now = time.time_ns() // 1_000_000
        posted = np.asarray(rows.column(POSTED_AT).combine_chunks().cast(pa.int64()), np.int64) // 1000
        self._latencies.append(now - posted)
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= _WAITING_BYTES:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting).combine_chunks()
            self._waiting, self._waiting_bytes = [], 0
            self.files.write(rows)

    def _sampled_latencies(self) -> tuple[float, ...]:
        if not self._latencies:
            return ()
        found = np.concatenate(self._latencies)
        return tuple(found[:: max(1, len(found) // _SAMPLES)].tolist())


def _records(plan: ColumnPlan, stretch: Stretch) -> Iterator[RecordColumns]:
    """All records of the stretch. Raises log_unavailable if some cannot be had for a while, and
    RecordsGoneError.
    """
    reader = _reader(plan.bootstrap)
    position = stretch.first
    deadline = time.monotonic() + PATIENCE_SECONDS
    while position < stretch.end:
        try:
            found = reader.record_set(plan.topic, stretch.partition, position)
        except HeadraceError as error:
            # The log may have restarted since the last task of this process.
            if error.code != "log_unavailable" or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
            continue
        if found is None or found.position == position:
            if time.monotonic() > deadline:
                raise log_unavailable(
                    plan.bootstrap,
                    f"give records of partition {stretch.partition} of topic `{plan.topic.name}`",
                    f"nothing came behind offset {position} for {PATIENCE_SECONDS:g} s",
                )
            time.sleep(_PAUSE_SECONDS)
            continue
        # Batches are fetched whole: the first and the last may have more records than wanted.
        batches = [header for header in found.batches if header.base_offset < stretch.end]
        for records in record_columns(
            found.content, batches, most_headers=_MOST_HEADERS, about_bytes=_DECODED_BYTES
        ):
            yield records.only((records.offset >= position) & (records.offset < stretch.end))
        position = found.position
        deadline = time.monotonic() + PATIENCE_SECONDS


def _values_of_a_row(columns: Struct) -> int:
    """How many columns of single values there are, those of the coordinates too."""

    def count(kind: Type) -> int:
        return sum(count(each.type) for each in kind.fields) if isinstance(kind, Struct) else 1

    return count(columns) + len(COORDINATE_COLUMNS)


@lru_cache(maxsize=4)
def _reader(bootstrap: str) -> BatchReader:
    """Kept by the process, with its connections, for the tasks that follow."""
    return BatchReader(Cluster(bootstrap))


def split(stretches: Sequence[Stretch], tasks: int) -> list[list[Stretch]]:
    """The stretches in at most so many parts with about as many offsets each."""
    left = [each for each in stretches if each.first < each.end]
    total = sum(each.end - each.first for each in left)
    share = -(-total // max(tasks, 1))
    parts: list[list[Stretch]] = [[]]
    room = share
    while left:
        stretch = left.pop(0)
        if stretch.end - stretch.first > room:
            cut = stretch.first + room
            left.insert(0, Stretch(partition=stretch.partition, first=cut, end=stretch.end))
            stretch = Stretch(partition=stretch.partition, first=stretch.first, end=cut)
        if stretch.first < stretch.end:
            parts[-1].append(stretch)
        room -= stretch.end - stretch.first
        if not room and left:
            parts.append([])
            room = share
    return [each for each in parts if each]
