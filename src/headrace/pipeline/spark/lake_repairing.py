"""Repairs a table of the lake while no run writes it: writes rows that it lacks, removes double ones.

Every row is looked up in the table by its source coordinates before it is written, whatever the table's
commits say. Positions stay where they are: what the table has yet to read is not read here. Crash behaviour:
one commit or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.lake import layout
from headrace.lake.coordinates import SourceCoordinates, parse_source
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Offsets
from headrace.pipeline.plan import reads_of
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake_bounds import COORDINATES, sql_text
from headrace.pipeline.spark.lake_query import prepare
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.stateless_run import RunContext
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.writer_lock import hold_writer_lock


class LakeRepair:
    """One repair of the table of one query, whose run was stopped."""

    def __init__(
        self, query: PlannedQuery, inputs: TopicInputs, context: RunContext, *, client_id: str
    ) -> None:
        """`client_id` is for the producers of its dead letters."""
        assert query.plan.lake_table is not None
        self._inputs = inputs
        self._table = query.plan.lake_table
        (read,) = reads_of(query.plan.root)
        self._topic = inputs.topics[read.source.topic]
        hold_writer_lock(inputs.session, self._table.path.parent / f".{self._table.name}.writer")
        prepared = prepare(
            query, inputs, self._table, context=context, client_id=client_id, looks_up_everything=True
        )
        self._writer = prepared.writer

    @property
    def positions(self) -> Offsets:
        """How far the table has read its topic. Only records before that may be written."""
        return self._writer.progress.positions.of(self._topic.topic_id)

    def write(self, rows: Rows) -> int:
        """Write those of the rows that the table does not have; how many came out, dead letters included."""
        written = self._writer.write(lake_rows(rows, self._table, topic=self._topic))
        return written.rows + written.dead_letters

    def without_doubles(self, ids: Sequence[str]) -> int:
        """Keep one of the rows with each of these coordinates; how many rows were removed."""
        condition = _condition(parse_source(each.encode()) for each in ids)
        path = str(self._table.path)
        found = self._inputs.session.read.format("delta").load(path).filter(condition)
        before = found.count()
        kept = found.dropDuplicates(COORDINATES).persist()
        try:
            after = kept.count()
            if after == before:
                return 0
            log = DeltaLog(self._table.path)
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
