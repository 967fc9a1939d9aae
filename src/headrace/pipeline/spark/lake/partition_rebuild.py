"""Reads one partition of a table again from its topic, and replaces its files in one commit.

The records of the partition's rows are read again, as a run would read them now; the rows that come out are
exactly those that the partition has, by source coordinates and by their place in the topic. If one of them
does not come out, nothing is committed (`lake/rebuilding.py` has the rules). Positions stay as they are, and
so do rows that are written meanwhile: they lie behind the positions, in files of their own.

If the files of the partition cannot be read, the log's counts say how many rows it must have; then all
records of the topic up to the positions are read.

Crash behaviour: before the commit nothing is visible, and new files belong to nobody until they are vacuumed.
Belongs to one thread; nothing else may maintain the table meanwhile.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.delta_log import DeltaLog
from headrace.lake.layout import TableLayout
from headrace.lake.positions import Offsets
from headrace.lake.rebuilding import Span, chosen_partition, partition_text, refuse_rebuild
from headrace.lake.replacing import replace_files
from headrace.lake.resuming import REBUILD, history
from headrace.lake.table_state import DataFile, PartitionValues, TableState, data_file
from headrace.pipeline.spark.kafka_source import records_in
from headrace.pipeline.spark.lake.bounds import COORDINATES
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.rows import DROPPED
from headrace.pipeline.spark.short_errors import first_line
from headrace.pipeline.spark.steps.rows import REASON, column, columns

logger = logging.getLogger(__name__)

_PLACE: Final = [layout.TOPIC_PARTITION, layout.TOPIC_OFFSET]
_IDENTITY: Final = [*COORDINATES, *_PLACE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """`doubles` is how many rows the partition had more than once; one of each is left."""

    version: int
    rows: int
    removed: int
    added: int
    doubles: int
    partition: PartitionValues


@dataclass(frozen=True, slots=True, kw_only=True)
class _Had:
    """What the partition has. `identities` is None if its files cannot be read."""

    rows: int
    distinct: int
    foreign: int
    spans: Mapping[int, Span]
    identities: DataFrame | None


class PartitionRebuild:
    """For one table, whose writer's lock is held. `rows`, `measures` and `check` are as in `work.py`."""

    def __init__(
        self,
        session: SparkSession,
        table: TableLayout,
        *,
        topic: TopicIdentity,
        bootstrap: str,
        rows: Callable[[DataFrame], DataFrame],
        measures: Mapping[str, Column],
        check: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._session = session
        self._table = table
        self._topic = topic
        self._bootstrap = bootstrap
        self._rows = rows
        self._measures = measures
        self._check = check
        self._log = DeltaLog(table.location)

    def run(self, asked: Mapping[str, str | None], *, starts: Offsets) -> Rebuilt:
        """Rebuild the partition with these values; `starts` are the first offsets that the topic has.

        Raises HeadraceError if that is not possible, OSError if the storage fails.
        """
        state = self._state()
        partition = chosen_partition(state.partitions(), asked, table=self._table.name)
        what = f"Partition {partition_text(partition)} of table {self._table.name}"
        files = state.partitions()[partition]
        said = next(history(self._log, state.version.number), None)
        if said is None:
            raise HeadraceError(
                "lake_unsupported", f"{what} cannot be rebuilt: the table does not say what it has read."
            )
        positions = said.progress.positions
        had = self._had(state, partition, files)
        refuse_rebuild(
            had.spans,
            what=what,
            foreign=had.foreign,
            positions=positions,
            topic_id=self._topic.topic_id,
            starts=starts,
        )
        limits = {number: (span.lowest, span.highest + 1) for number, span in had.spans.items()}
        if had.identities is None:
            limits = {
                number: (starts[number], end)
                for number, end in positions.offsets.items()
                if starts.get(number, end) < end
            }
        adds = self._written(limits, partition, had, what)
        version = replace_files(
            self._log,
            state,
            old=files,
            adds=adds,
            definition=state.definition,
            operation=REBUILD,
            parameters={"predicate": json.dumps([partition_text(partition)])},
            changes_data=True,
        )
        if version is None:
            self._log.files.delete(data_file(add).name for add in adds)
            raise HeadraceError(
                "pipeline_failed",
                f"{what} was not rebuilt: somebody else changed the table meanwhile.",
                remedy="Ask again.",
            )
        logger.info("%s was rebuilt: %d rows in version %d", what, had.distinct, version)
        return Rebuilt(
            version=version,
            rows=had.distinct,
            removed=len(files),
            added=len(adds),
            doubles=had.rows - had.distinct,
            partition=partition,
        )

    def _state(self) -> TableState:
        try:
            state = TableState(self._log)
        except FileNotFoundError as error:
            raise HeadraceError("no_such_table", f"There is no table {self._table.name}.") from error
        if state.unsupported:
            raise HeadraceError(
                "lake_unsupported", f"Table {self._table.name} cannot be changed: {state.unsupported}."
            )
        return state

    def _had(self, state: TableState, partition: PartitionValues, files: list[DataFile]) -> _Had:
        counts = [file.rows for file in files]
        rows = sum(count for count in counts if count is not None)
        if None in counts:
            raise HeadraceError(
                "lake_unsupported", "The log does not say how many rows the files of the partition have."
            )
        reader = self._session.read.format("delta").option("versionAsOf", state.version.number)
        present = reader.load(self._table.location.uri).filter(_is_in(partition)).select(*columns(_IDENTITY))
        is_foreign = reduce(lambda left, right: left | right, (column(name).isNull() for name in _IDENTITY))
        offset = column(layout.TOPIC_OFFSET)
        try:
            found = (
                present.groupBy(layout.TOPIC_PARTITION)
                .agg(
                    F.count(F.lit(1)).alias("rows"),
                    F.count_distinct(F.struct(*columns(_IDENTITY))).alias("distinct"),
                    F.count_if(is_foreign).alias("foreign"),
                    F.min(offset).alias("lowest"),
                    F.max(offset).alias("highest"),
                )
                .collect()
            )
        except (PySparkException, Py4JError) as error:
            logger.warning("Files of the partition cannot be read: %s", first_line(str(error)))
            return _Had(rows=rows, distinct=rows, foreign=0, spans={}, identities=None)
        if sum(each["rows"] for each in found) != rows:
            raise HeadraceError(
                "lake_unsupported",
                f"The files of partition {partition_text(partition)} do not have the rows that the log says.",
            )
        return _Had(
            rows=rows,
            distinct=sum(each["distinct"] for each in found),
            foreign=sum(each["foreign"] for each in found),
            spans={
                each[layout.TOPIC_PARTITION]: Span(
                    rows=each["rows"], lowest=each["lowest"], highest=each["highest"]
                )
                for each in found
                if each[layout.TOPIC_PARTITION] is not None
            },
            identities=present.dropDuplicates(),
        )

    def _written(
        self, limits: Mapping[int, tuple[int, int]], partition: PartitionValues, had: _Had, what: str
    ) -> list[dict[str, Any]]:
        """The `add` actions of the new files. Raises lake_unsupported if they lack rows."""
        if not limits:
            raise HeadraceError("lake_unsupported", f"{what} cannot be rebuilt: the topic is empty.")
        read = self._rows(records_in(self._session, self._bootstrap, self._topic, limits))
        seen = Observation()
        if self._measures:
            read = read.observe(seen, *(each.alias(name) for name, each in self._measures.items()))
        rows = read.filter(column(REASON).isNull() & ~column(DROPPED) & _is_in(partition))
        if had.identities is not None:
            rows = rows.join(had.identities, on=_IDENTITY, how="left_semi")
        names = [each.name for each in self._table.columns]
        files = DeltaFiles(self._session, self._table)
        # One task, so that half of a small machine stays free.
        adds = [json.loads(each)["add"] for each in files.write(rows.select(*columns(names)).coalesce(1))]
        new = [data_file(add) for add in adds]
        written = sum(file.rows or 0 for file in new)
        try:
            if self._measures:
                self._check(seen.get)
            if written != had.distinct or {file.partition for file in new} != {partition}:
                raise self._differing(rows, had, written, what)
        except HeadraceError:
            self._log.files.delete(file.name for file in new)
            raise
        return adds

    def _differing(self, rows: DataFrame, had: _Had, written: int, what: str) -> HeadraceError:
        if had.identities is None:
            return HeadraceError(
                "lake_unsupported",
                f"{what} cannot be rebuilt: it has {had.distinct} rows, but {written} come out of the topic. "
                "Its files cannot be read, so the missing ones are unknown.",
                remedy="`headrace lake restore` goes back to an older version.",
            )
        lost = had.identities.join(rows.select(*columns(_IDENTITY)), on=_IDENTITY, how="left_anti")
        first = lost.orderBy(*_PLACE).first()
        example = "" if first is None else f", the first at offset {first[_PLACE[1]]} of {first[_PLACE[0]]}"
        return HeadraceError(
            "lake_unsupported",
            f"{what} cannot be rebuilt: {had.distinct - written} of its {had.distinct} rows do not come out "
            f"of the topic any more{example}. Their records were compacted away, or the connector's settings "
            "have put them elsewhere since.",
            remedy="The table is as it was.",
        )


def _is_in(partition: PartitionValues) -> Column:
    """Whether a row belongs to the partition; an empty text is stored as null."""
    if not partition:
        return F.lit(True)

    def has(name: str, value: str | None) -> Column:
        text = column(name).cast("string")
        return text.isNull() | (text == "") if value is None else F.coalesce(text == value, F.lit(False))

    return reduce(and_, (has(name, value) for name, value in partition))
