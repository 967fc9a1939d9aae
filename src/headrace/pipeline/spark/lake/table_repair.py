"""Repairs a table of the lake while no run writes it: writes rows that it lacks, removes double ones.

Every row is looked up in the table by its source coordinates before it is written, whatever the table's
commits say. Positions stay where they are: what the table has yet to read is not read here. Crash behaviour:
one commit or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.lake import layout
from headrace.lake.commit_turn import commit_turn
from headrace.lake.coordinates import SourceCoordinates, parse_source
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Offsets
from headrace.pipeline.runs.stretches import Stretch
from headrace.pipeline.spark.kafka_source import as_written, ranges_of
from headrace.pipeline.spark.lake.bounds import COORDINATES, sql_text
from headrace.pipeline.spark.lake.table_run import prepare
from headrace.pipeline.spark.lake.work import TableWork
from headrace.pipeline.spark.written_filter import only_records


class TableRepair:
    """One repair of a table whose run was stopped. The writer's lock of the table is held."""

    def __init__(self, work: TableWork) -> None:
        self._work = work
        self._writer = prepare(work, looks_up_everything=True).writer

    @property
    def positions(self) -> Offsets:
        """How far the table has read its topic. Only records before that may be written."""
        return self._writer.progress.positions.of(self._work.topic.topic_id)

    def write(self, stretches: Sequence[Stretch]) -> int:
        """Write those rows of these records that the table does not have; how many came out, dead letters
        included. There is at least one stretch.
        """
        work = self._work
        records = ranges_of(work.session, work.settings.bootstrap, work.topic, stretches)
        written = self._writer.write(work.rows(only_records(records, as_written(stretches))))
        return written.rows + written.dead_letters

    def without_doubles(self, ids: Sequence[str]) -> int:
        """Keep one of the rows with each of these coordinates; how many rows were removed."""
        condition = _condition(parse_source(each.encode()) for each in ids)
        path = self._work.table.location.uri
        found = self._work.session.read.format("delta").load(path).filter(condition)
        before = found.count()
        kept = found.dropDuplicates(COORDINATES).persist()
        try:
            after = kept.count()
            if after == before:
                return 0
            log = DeltaLog(self._work.table.location)
            with commit_turn(self._work.table.location):
                version = log.newest_version()
                (
                    kept.write.format("delta")
                    .mode("overwrite")
                    .option("replaceWhere", condition)
                    # No record has come or gone, so the positions are those of before.
                    .option("userMetadata", self._writer.progress.as_metadata())
                    .save(path)
                )
                for added in range(version + 1, log.newest_version() + 1):
                    log.sync_commit(added)
        finally:
            kept.unpersist()
        return before - after


def _condition(ids: Iterable[SourceCoordinates]) -> str:
    """SQL for the rows of these records, whatever their ordinals: short, however many there are."""
    by_source: dict[tuple[str, str, int], set[int]] = {}
    for each in ids:
        by_source.setdefault((each.query, each.topic_id, each.partition), set()).add(each.offset)
    return " OR ".join(
        f"(`{layout.QUERY}` = {sql_text(query)} AND `{layout.SOURCE_TOPIC_ID}` = {sql_text(topic_id)} "
        f"AND `{layout.SOURCE_PARTITION}` = {partition} "
        f"AND `{layout.SOURCE_OFFSET}` IN ({', '.join(map(str, sorted(offsets)))}))"
        for (query, topic_id, partition), offsets in sorted(by_source.items())
    )
