"""Writes batches of one topic to one table, each row once (see `lake/positions.py` for the rule,
`lake/writer.py` for the contract).

A batch that can be is written in columns (`column_batches.py`), others in rows. Most of those take one pass:
it writes the data files and observes what it sees, above all the highest offset of each partition. Then the
commit adds the files and says how far the topic was read. Rows that need more attention are left out of that
pass and take a second one, before the same commit: suspects, which are looked up in the table (`bounds.py`),
and rows of new partitions (`new_folders.py`). Dead letters are sent before the commit (`dead_letters.py`).

Crash behaviour: before the commit nothing is visible, and the next run reads the batch again; after it, the
batch is behind the positions. Only one writer may exist (`writer_lock.py`). A commit must be the very next
version of the table; if somebody else's is in between, the writer goes on only if that cannot concern the
positions, and otherwise ends, so that the next run starts from what the table has. So it does if the version
that it has seen last is gone or another one, because the table was repaired or replaced by a copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

import headrace
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.columns.task import Stretch
from headrace.lake.delta_log import SeenVersion, VersionChangedError
from headrace.lake.layout import TableLayout
from headrace.lake.positions import Progress
from headrace.lake.resuming import keeps_positions
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.spark.fair_turns import usable_cores
from headrace.pipeline.spark.lake.bounds import IS_SUSPECT, with_suspects
from headrace.pipeline.spark.lake.column_batches import ColumnBatches
from headrace.pipeline.spark.lake.data_files import DataFiles
from headrace.pipeline.spark.lake.dead_letters import IS_SENT, LakeDeadLetters
from headrace.pipeline.spark.lake.new_folders import IS_NEW, PartitionPolicy
from headrace.pipeline.spark.lake.rows import DROPPED
from headrace.pipeline.spark.prepared import Measures, Selection
from headrace.pipeline.spark.steps.rows import REASON, VALUE, columns

_QUANTILES: Final = [step / 100 for step in range(101)]
# After a batch of this many rows, the next one is written by several tasks: more files, but sooner.
_LARGE_BATCH: Final = 20_000
# After a batch of this many rows, latencies are measured of one row of `_SAMPLED`: of all it would take long.
# There is no rate in between, because Spark compiles the whole batch again for another number.
_MANY_ROWS: Final = 10_000
_SAMPLED: Final = 100

_LATENCY: Final = "__LATENCY_MS"
_IS_BAD: Final = "__IS_BAD"
_IS_DOUBTFUL: Final = "__IS_DOUBTFUL"


class DeltaLakeWriter:
    """The writer of one table; one instance per run. `write` takes rows as `rows.py` describes them.

    The table exists and can be read; `progress` is where this run goes on, according to `version` of the
    table. Unless it `tolerates_errors`, the first record that cannot become a row ends the run, before
    anything of its batch is committed. A batch observes `measures`, too, and `check` may end the run for what
    it sees. If it `looks_up_everything`, every row is a suspect. `in_columns` writes the batches that it can.
    """

    def __init__(
        self,
        files: DataFiles,
        table: TableLayout,
        *,
        topic: TopicIdentity,
        version: SeenVersion,
        progress: Progress,
        dead_letters: LakeDeadLetters,
        policy: PartitionPolicy,
        tolerates_errors: bool = True,
        measures: Mapping[str, Column] | None = None,
        check: Callable[[Mapping[str, Any]], None] = lambda _: None,
        looks_up_everything: bool = False,
        waiting: int = 0,
        in_columns: ColumnBatches | None = None,
    ) -> None:
        """`waiting` is about how many records the first batch may have."""
        self._files = files
        self._table = table
        self._topic = topic
        self._progress = progress
        self._dead_letters = dead_letters
        self._policy = policy
        self._tolerates_errors = tolerates_errors
        self._further_measures = measures or {}
        self._check = check
        self._looks_up_everything = looks_up_everything
        self._in_columns = in_columns
        self._log = files.log
        self._version = version
        self._tasks = _tasks_for(waiting)
        self._is_sampled = waiting >= _MANY_ROWS
        self._expects_many = waiting >= _LARGE_BATCH
        self._spark = files.spark
        self._measures = Measures(self._spark, self._measured())
        self._table_columns = Selection(self._spark, columns([each.name for each in table.columns]))
        self._is_certain = ~F.col(_IS_BAD) & ~F.col(_IS_DOUBTFUL) & ~F.col(DROPPED)
        # The usual first pass, and what it was made for.
        self._usual_selection: Selection | None = None
        self._made_for = (policy.is_new, self._is_sampled)

    @property
    def progress(self) -> Progress:
        """What the newest commit of this run says, or where the run began."""
        return self._progress

    def commit_positions(self) -> None:
        """Commit where this run begins, without rows."""
        self._commit([], self._progress)

    def write(self, batch: DataFrame, stretches: Sequence[Stretch] | None = None) -> WrittenBatch:
        """Write one batch of rows, from the records in `stretches` if they are known, and commit it."""
        in_columns = self._written_in_columns(stretches)
        adds, counted = in_columns or self._written_at_once(batch)
        if not counted["records"]:
            return WrittenBatch(rows=0, repeated=0, dead_letters=0, latency_quantiles_ms=())
        if counted["elsewhere"]:
            raise HeadraceError(
                "pipeline_failed",
                f"Topic {self._topic.name} has got more partitions; the query starts again to read them.",
            )
        self._check(counted)
        dead_letters = counted["bad"]
        if dead_letters:
            bad = self._flagged(batch).filter(_IS_BAD)
            self._refuse(bad)
            self._dead_letters.send(bad)
        if counted["doubtful"]:
            has_suspects = counted["suspects"] > 0
            more, refused = self._write_doubtful(self._flagged(batch), has_suspects=has_suspects)
            adds += more
            dead_letters += refused
        highest = {
            number: offset
            for number in range(self._topic.partitions)
            if (offset := counted[f"highest_{number}"]) is not None
        }
        progress = self._progress.advanced(highest)
        self._commit(adds, self._dead_letters.noted(progress, has_sent=dead_letters > 0))
        written = self._files.rows_in(adds)
        self._tasks = _tasks_for(written)
        self._is_sampled = written >= _MANY_ROWS
        quantiles = tuple(float(value) for value in counted["quantiles"] or ())
        return WrittenBatch(
            rows=written,
            repeated=counted["records"] - counted["dropped"] - written - dead_letters,
            dead_letters=dead_letters,
            latency_quantiles_ms=quantiles if written else (),
            in_columns=in_columns is not None,
        )

    def _written_in_columns(
        self, stretches: Sequence[Stretch] | None
    ) -> tuple[list[str], dict[str, Any]] | None:
        """The whole batch without a row of Spark, if that is possible: actions, and what it has seen."""
        if self._in_columns is None or stretches is None or self._needs_more_than_files:
            return None
        written = self._in_columns.write(stretches)
        return None if written is None else (written.adds, written.seen)

    @property
    def _needs_more_than_files(self) -> bool:
        """Whether a row may be one that the table, or the dead letters, have already."""
        return bool(self._looks_up_everything or self._progress.bounds or self._dead_letters.has_sent)

    def _written_at_once(self, batch: DataFrame) -> tuple[list[str], dict[str, Any]]:
        """The first pass: actions for the files, and what it has seen."""
        if self._expects_many and not self._policy.knows_any:
            # Otherwise all rows of a new table would be left to a second pass.
            self._policy.look_ahead(self._flagged(batch).filter(F.col(_IS_DOUBTFUL) & ~F.col(IS_SUSPECT)))
        rows = self._narrow(self._flagged(batch)) if self._needs_more_than_files else self._usual(batch)
        observed, seen = self._measures.of(rows)
        adds = self._written(observed.filter(self._is_certain))
        return adds, seen.get

    def _usual(self, batch: DataFrame) -> DataFrame:
        """`_narrow` of `_flagged` if there are no suspects and no dead letters of earlier runs."""
        is_new, is_sampled = self._policy.is_new, self._is_sampled
        known = self._usual_selection
        if known is None or self._made_for[0] is not is_new or self._made_for[1] != is_sampled:
            is_bad, no = F.col(REASON).isNotNull(), F.lit(False)
            flags = {
                _IS_BAD: is_bad,
                _IS_DOUBTFUL: ~is_bad & ~F.col(DROPPED) & is_new,
                IS_SUSPECT: no,
            }
            known = self._usual_selection = Selection(self._spark, self._narrow_columns(flags))
            self._made_for = (is_new, is_sampled)
        return known.of(batch)

    def _flagged(self, batch: DataFrame) -> DataFrame:
        if self._looks_up_everything:
            suspected = batch.withColumn(IS_SUSPECT, F.lit(True))
        else:
            suspected = with_suspects(batch, self._progress.bounds)
        rows = self._dead_letters.with_sent(self._policy.with_new(suspected))
        is_bad = F.col(REASON).isNotNull() | F.col(IS_SENT)
        is_doubtful = ~is_bad & ~F.col(DROPPED) & (F.col(IS_SUSPECT) | F.col(IS_NEW))
        return rows.withColumns({_IS_BAD: is_bad, _IS_DOUBTFUL: is_doubtful})

    def _refuse(self, bad: DataFrame) -> None:
        """End the run at the first bad record, unless errors are tolerated."""
        if self._tolerates_errors:
            return
        place = [layout.TOPIC_PARTITION, layout.TOPIC_OFFSET]
        first = bad.select(REASON, *place).orderBy(*place).first()
        assert first is not None
        raise HeadraceError(
            "connector_failed",
            f"The record of topic {self._topic.name} at offset {first[layout.TOPIC_OFFSET]} of partition "
            f"{first[layout.TOPIC_PARTITION]} cannot become a row of table {self._table.name}: "
            f"{first[REASON]}",
            remedy="To send such records to the dead letters and go on, set errors.tolerance to all.",
        )

    def _narrow(self, rows: DataFrame) -> DataFrame:
        """With the columns that the first pass needs: Spark copies all others of every row to observe it."""
        flags = {name: F.col(name) for name in (_IS_BAD, _IS_DOUBTFUL, IS_SUSPECT)}
        return rows.select(*self._narrow_columns(flags))

    def _narrow_columns(self, flags: Mapping[str, Column]) -> list[Column]:
        is_measured = ~flags[_IS_BAD] & ~flags[IS_SUSPECT] & ~F.col(DROPPED)
        if self._is_sampled:
            is_measured = is_measured & (F.col(layout.TOPIC_OFFSET) % _SAMPLED == 0)
        # Not current_timestamp(), which is the same for the whole batch, but the clock when this row is read.
        now = F.call_function("java_method", F.lit("java.lang.System"), F.lit("currentTimeMillis"))
        latency = F.when(is_measured, now.cast("bigint") - F.unix_millis(layout.POSTED_AT))
        return [
            *columns([each.name for each in self._table.columns]),
            *(flag.alias(name) for name, flag in flags.items()),
            F.col(DROPPED),
            # Further measures are of the raw record, or of what became of it.
            *columns([VALUE, REASON] if self._further_measures else []),
            latency.alias(_LATENCY),
        ]

    def _measured(self) -> list[Column]:
        partition, offset = F.col(layout.TOPIC_PARTITION), F.col(layout.TOPIC_OFFSET)
        return [
            F.count(F.lit(1)).alias("records"),
            F.count_if(F.col(_IS_BAD)).alias("bad"),
            F.count_if(F.col(DROPPED) & ~F.col(_IS_BAD)).alias("dropped"),
            F.count_if(F.col(_IS_DOUBTFUL)).alias("doubtful"),
            F.count_if(F.col(_IS_DOUBTFUL) & F.col(IS_SUSPECT)).alias("suspects"),
            F.count_if(partition >= self._topic.partitions).alias("elsewhere"),
            F.percentile_approx(F.col(_LATENCY), _QUANTILES, 1000).alias("quantiles"),
            *(
                F.max(F.when(partition == number, offset)).alias(f"highest_{number}")
                for number in range(self._topic.partitions)
            ),
            *(measure.alias(name) for name, measure in self._further_measures.items()),
        ]

    def _write_doubtful(self, rows: DataFrame, *, has_suspects: bool) -> tuple[list[str], int]:
        """The rows that the first pass left out: actions for the files, and the number of dead letters."""
        doubtful = rows.filter(_IS_DOUBTFUL)
        if has_suspects:
            suspects = self._files.without_known(doubtful.filter(IS_SUSPECT))
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
        return self._files.write(self._table_columns.of(rows).coalesce(self._tasks))

    def _commit(self, adds: Sequence[str], progress: Progress) -> None:
        info = {
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {"numFiles": str(len(adds)), "numOutputRows": str(self._files.rows_in(adds))},
            "userMetadata": progress.as_metadata(),
            "engineInfo": f"Headrace/{headrace.__version__}",
        }
        is_committed, last = False, self._version.number
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
        # Commits of maintenance are in between, so that the very version may be one of them.
        if self._version.number // layout.CHECKPOINT_INTERVAL > last // layout.CHECKPOINT_INTERVAL:
            self._files.checkpoint()

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


def _tasks_for(rows: int) -> int:
    return usable_cores() if rows >= _LARGE_BATCH else 1
