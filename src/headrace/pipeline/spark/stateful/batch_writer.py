"""Writes the batches of a stateful query to its sink: the function that Spark calls with each batch.

Each row has the id of the checkpoint and the number of its batch in its header. The first batches of a run
leave out the rows that the sinks already hold (`Repetition`). After the rows of a batch are acknowledged, and
before Spark commits the batch, a note says where sources and sinks stand.

Stopping the query waits a few seconds for the end of the current write, and no other begins
(`batch_gate.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.coordinates import SOURCE_HEADER, BatchOrigin
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.fault_headers import header
from headrace.pipeline.spark.short_errors import shortened_errors
from headrace.pipeline.spark.stateful.generations import Generation
from headrace.pipeline.spark.stateful.present_rows import (
    ORIGIN,
    without_derived_before,
    without_repeated,
)
from headrace.pipeline.spark.stateful.row_identity import NO_ORIGIN, RowIdentity

_COMMIT_PAUSE_SECONDS: Final = 2.0
_WRITTEN: Final = ("topic", "key", "value", "headers", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """The rows that the sinks held when the run began. They matter for the batches up to `last`.

    `derives_again`: former checkpoints may have written the same rows in other batches.
    """

    present: DataFrame
    last: int
    derives_again: bool


class BatchWriter:
    """The batches of one run. A stop closes the gate first."""

    def __init__(
        self,
        generation: Generation,
        *,
        query: str,
        sink: str,
        identity: RowIdentity,
        options: Mapping[str, Any],
        repetition: Repetition | None,
        standing: Callable[[int], Commit],
        commits: CommitLog,
        gate: BatchGate,
    ) -> None:
        """`sink` is the topic of the rows; dead letters go to another one. `standing` tells where sources and
        sinks stand after the rows of a batch are written.
        """
        self._generation = generation
        self._query = query
        self._sink = sink
        self._identity = identity
        self._options = dict(options)
        self._repetition = repetition
        self._standing = standing
        self._commits = commits
        # The note of the newest batch, and whether it is to be committed.
        self._newest: Commit | None = None
        self._committed: Commit | None = None
        self._commit_due = 0.0
        self._gate = gate

    def note(self, now: float) -> bool:
        """Commit the newest batch, every now and then; for those who ask how far the query is, and for its
        next run, should the checkpoint be lost.
        """
        if now < self._commit_due:
            return False
        newest = self._newest
        if newest is not None and newest != self._committed:
            self._commits.add(self._query, newest)
            self._committed = newest
            self._commit_due = now + _COMMIT_PAUSE_SECONDS
        return True

    def write(self, batch: DataFrame, number: int) -> None:
        self.write_then(batch, number, lambda: None)

    def write_then(self, batch: DataFrame, number: int, then: Callable[[], None]) -> None:
        """Write the rows, then do what belongs to the batch, then note it."""
        with self._gate.batch(number):
            rows = self._new(_with_origin(batch), number)
            batch_origin = BatchOrigin(query=self._query, checkpoint=self._generation.id, batch=number)
            source = F.concat(F.lit(batch_origin.as_prefix()), F.col(ORIGIN))
            records = rows.withColumn(
                "headers", F.concat(F.array(header(SOURCE_HEADER, source)), F.col("headers"))
            )
            with shortened_errors():
                records.select(*_WRITTEN).write.format("kafka").options(**self._options).save()
                then()
            note = self._standing(number)
            self._generation.note(note)
            self._newest = note

    def _new(self, rows: DataFrame, number: int) -> DataFrame:
        """Only the rows that the sinks do not hold."""
        repetition = self._repetition
        if repetition is None or number > repetition.last:
            return rows
        present = repetition.present
        is_own = (F.col("checkpoint") == F.lit(self._generation.id)) & (F.col("batch") == F.lit(number))
        rows = without_repeated(rows, present.filter(is_own), self._identity, sink=self._sink)
        if not repetition.derives_again:
            return rows
        before = present.filter(F.col("checkpoint") != F.lit(self._generation.id))
        return without_derived_before(rows, before, self._identity, sink=self._sink)


def _with_origin(batch: DataFrame) -> DataFrame:
    return batch if ORIGIN in batch.columns else batch.withColumn(ORIGIN, F.lit(NO_ORIGIN))
