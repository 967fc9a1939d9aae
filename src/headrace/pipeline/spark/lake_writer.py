"""Writes batches of one topic to one Delta table, each row once (see `lake/positions.py` for the rule,
`lake/writer.py` for the contract).

Most batches take one pass: it writes the data files and observes what it sees, above all the highest offset
of each partition. Then the commit adds the files and says how far the topic was read. Rows that need more
attention are left out of that pass and take a second one, before the same commit: suspects, which are looked
up in the table (`lake_bounds.py`), and rows of new partitions (`lake_partitions.py`). Dead letters are sent
before the commit (`lake_dead_letters.py`).

Crash behaviour: before the commit nothing is visible, and the next run reads the batch again; after it, the
batch is behind the positions. Only one writer may exist (`writer_lock.py`). A commit must be the very next
version of the table; if somebody else's is in between, the writer goes on only if that cannot concern the
positions, and otherwise ends, so that the next run starts from what the table has. So it does if the version
that it has seen last is gone or another one, because the table was repaired or replaced by a copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

import headrace
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.delta_log import DeltaLog, SeenVersion, VersionChangedError
from headrace.lake.layout import TableLayout
from headrace.lake.positions import Progress
from headrace.lake.resuming import keeps_positions
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.spark.delta_files import DeltaFiles
from headrace.pipeline.spark.lake_bounds import IS_SUSPECT, with_suspects, without_known
from headrace.pipeline.spark.lake_dead_letters import IS_SENT, LakeDeadLetters
from headrace.pipeline.spark.lake_partitions import IS_NEW, PartitionPolicy
from headrace.pipeline.spark.lake_rows import LATENCY
from headrace.pipeline.spark.steps.rows import REASON, columns

_QUANTILES: Final = [step / 100 for step in range(101)]
# After a batch of this many rows, the next one is written by several tasks: more files, but sooner.
_LARGE_BATCH: Final = 20_000
_TASKS: Final = 2

_IS_BAD: Final = "__IS_BAD"
_IS_DOUBTFUL: Final = "__IS_DOUBTFUL"


class DeltaLakeWriter:
    """The writer of one table; one instance per run. `write` takes the result of `lake_rows`.

    The table exists and can be read; `progress` is where this run goes on, according to `version` of the
    table. If it `looks_up_everything`, every row is a suspect.
    """

    def __init__(
        self,
        files: DeltaFiles,
        table: TableLayout,
        *,
        topic: TopicIdentity,
        version: SeenVersion,
        progress: Progress,
        dead_letters: LakeDeadLetters,
        policy: PartitionPolicy,
        looks_up_everything: bool = False,
    ) -> None:
        self._files = files
        self._table = table
        self._topic = topic
        self._progress = progress
        self._dead_letters = dead_letters
        self._policy = policy
        self._looks_up_everything = looks_up_everything
        self._log = DeltaLog(table.path)
        self._version = version
        self._tasks = 1

    @property
    def progress(self) -> Progress:
        """What the newest commit of this run says, or where the run began."""
        return self._progress

    def write(self, batch: DataFrame) -> WrittenBatch:
        """Write one batch of rows. Returns after the commit."""
        rows = self._flagged(batch)
        seen = Observation()
        certain = rows.observe(seen, *self._measures()).filter(~F.col(_IS_BAD) & ~F.col(_IS_DOUBTFUL))
        adds = self._written(certain)
        counted = seen.get
        if not counted["records"]:
            return WrittenBatch(rows=0, repeated=0, dead_letters=0, latency_quantiles_ms=())
        if counted["elsewhere"]:
            raise HeadraceError(
                "pipeline_failed",
                f"Topic {self._topic.name} has got more partitions; the query starts again to read them.",
            )
        dead_letters = counted["bad"]
        if dead_letters:
            self._dead_letters.send(rows.filter(_IS_BAD))
        if counted["doubtful"]:
            more, refused = self._write_doubtful(rows, has_suspects=counted["suspects"] > 0)
            adds += more
            dead_letters += refused
        highest = {
            number: offset
            for number in range(self._topic.partitions)
            if (offset := counted[f"highest_{number}"]) is not None
        }
        progress = self._progress.advanced(highest)
        self._commit(adds, self._dead_letters.noted(progress, has_sent=dead_letters > 0))
        written = _rows_in(adds)
        self._tasks = _TASKS if written >= _LARGE_BATCH else 1
        quantiles = tuple(float(value) for value in counted["quantiles"] or ())
        return WrittenBatch(
            rows=written,
            repeated=counted["records"] - written - dead_letters,
            dead_letters=dead_letters,
            latency_quantiles_ms=quantiles if written else (),
        )

    def _flagged(self, batch: DataFrame) -> DataFrame:
        if self._looks_up_everything:
            suspected = batch.withColumn(IS_SUSPECT, F.lit(True))
        else:
            suspected = with_suspects(batch, self._progress.bounds)
        rows = self._dead_letters.with_sent(self._policy.with_new(suspected))
        is_bad = F.col(REASON).isNotNull() | F.col(IS_SENT)
        return rows.withColumns(
            {_IS_BAD: is_bad, _IS_DOUBTFUL: ~is_bad & (F.col(IS_SUSPECT) | F.col(IS_NEW))}
        )

    def _measures(self) -> list[Column]:
        partition, offset = F.col(layout.TOPIC_PARTITION), F.col(layout.TOPIC_OFFSET)
        is_fresh = ~F.col(_IS_BAD) & ~F.col(IS_SUSPECT)
        return [
            F.count(F.lit(1)).alias("records"),
            F.count_if(F.col(_IS_BAD)).alias("bad"),
            F.count_if(F.col(_IS_DOUBTFUL)).alias("doubtful"),
            F.count_if(F.col(_IS_DOUBTFUL) & F.col(IS_SUSPECT)).alias("suspects"),
            F.count_if(partition >= self._topic.partitions).alias("elsewhere"),
            F.percentile_approx(F.when(is_fresh, F.col(LATENCY)), _QUANTILES, 1000).alias("quantiles"),
            *(
                F.max(F.when(partition == number, offset)).alias(f"highest_{number}")
                for number in range(self._topic.partitions)
            ),
        ]

    def _write_doubtful(self, rows: DataFrame, *, has_suspects: bool) -> tuple[list[str], int]:
        """The rows that the first pass left out: actions for the files, and the number of dead letters."""
        doubtful = rows.filter(_IS_DOUBTFUL)
        if has_suspects:
            suspects = without_known(doubtful.filter(IS_SUSPECT), self._table.path)
            doubtful = doubtful.filter(~F.col(IS_SUSPECT)).unionByName(suspects)
        doubtful = doubtful.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            split = self._policy.split(doubtful)
            adds = self._written(split.taken)
            if split.refused is not None:
                self._dead_letters.send(split.refused)
            return adds, split.refused_rows
        finally:
            doubtful.unpersist()

    def _written(self, rows: DataFrame) -> list[str]:
        names = [each.name for each in self._table.columns]
        return self._files.write(rows.select(*columns(names)).coalesce(self._tasks))

    def _commit(self, adds: Sequence[str], progress: Progress) -> None:
        info = {
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {"numFiles": str(len(adds)), "numOutputRows": str(_rows_in(adds))},
            "userMetadata": progress.as_metadata(),
            "engineInfo": f"Headrace/{headrace.__version__}",
        }
        is_committed = False
        while not is_committed:
            before, version = self._version, self._version.number + 1
            now = {"timestamp": time.time_ns() // 1_000_000, "readVersion": before.number}
            try:
                self._version = self._log.add_commit(version, {**now, **info}, adds, after=before)
                is_committed = True
            except FileExistsError:
                self._version = self._seen_harmless(version)
            except VersionChangedError as error:
                raise self._changed(f"{error} is not what it was") from error
        self._progress = progress
        if self._version.number % layout.CHECKPOINT_INTERVAL == 0:
            self._log.sync_checkpoint(self._files.checkpoint())

    def _seen_harmless(self, version: int) -> SeenVersion:
        """Raise an error if this commit of somebody else may concern the positions."""
        seen = self._log.seen(version)
        commit = self._log.commit(version)
        if commit is not None and keeps_positions(commit):
            return seen
        operation = commit.operation if commit is not None else "a commit without information"
        raise self._changed(f"version {version} is {operation}")

    def _changed(self, how: str) -> HeadraceError:
        return HeadraceError(
            "pipeline_failed",
            f"Somebody else changed table {self._table.name}: {how}. "
            "The query starts again from what the table has now.",
        )


def _rows_in(adds: Sequence[str]) -> int:
    return sum(json.loads(json.loads(text)["add"]["stats"])["numRecords"] for text in adds)
