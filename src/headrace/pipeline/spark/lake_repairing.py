"""Repairs a table of the lake while no run writes it: writes rows that it lacks, removes double ones.

Every row is looked up in the table by its source coordinates before it is written, whatever the table's
commits say. Positions never fall: what the table has yet to read is not read here. Crash behaviour: one
commit or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lake import layout
from headrace.lake.coordinates import SourceCoordinates, parse_source
from headrace.pipeline.plan import reads_of
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake_bounds import COORDINATES
from headrace.pipeline.spark.lake_query import Prepared, prepare
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.producers import new_client_id
from headrace.pipeline.spark.stateless_run import RunContext
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.writer_lock import hold_writer_lock


class LakeRepair:
    """One repair of the table of one query, whose run was stopped."""

    def __init__(self, query: PlannedQuery, inputs: TopicInputs, context: RunContext) -> None:
        assert query.plan.lake_table is not None
        self._query = query
        self._inputs = inputs
        self._context = context
        self._table = query.plan.lake_table
        (read,) = reads_of(query.plan.root)
        self._topic = inputs.topics[read.source.topic]

    def write(self, rows: Rows) -> int:
        """Write those of the rows that the table does not have; their number."""
        writer = self._prepared(looks_up_everything=True).writer
        return writer.write(lake_rows(rows, self._table, topic=self._topic)).rows

    def without_doubles(self, ids: Sequence[str]) -> int:
        """Keep one of the rows with each of these coordinates; how many rows were removed."""
        writer = self._prepared(looks_up_everything=False).writer
        condition = " OR ".join(_condition(parse_source(each.encode())) for each in ids)
        path = str(self._table.path)
        found = self._inputs.session.read.format("delta").load(path).filter(condition)
        before = found.count()
        kept = found.dropDuplicates(COORDINATES).persist()
        try:
            after = kept.count()
            if after == before:
                return 0
            (
                kept.write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", condition)
                # The rows of the table are those of before, so its positions are, too.
                .option("userMetadata", writer.progress.as_metadata())
                .save(path)
            )
        finally:
            kept.unpersist()
        return before - after

    def _prepared(self, *, looks_up_everything: bool) -> Prepared:
        hold_writer_lock(self._inputs.session, self._table.path.parent / f".{self._table.name}.writer")
        return prepare(
            self._query,
            self._inputs,
            self._table,
            context=self._context,
            client_id=new_client_id(self._query.name),
            looks_up_everything=looks_up_everything,
        )


def _condition(source: SourceCoordinates) -> str:
    parts = (
        (layout.QUERY, _text(source.query)),
        (layout.SOURCE_TOPIC_ID, _text(source.topic_id)),
        (layout.SOURCE_PARTITION, str(source.partition)),
        (layout.SOURCE_OFFSET, str(source.offset)),
        (layout.SOURCE_ORDINAL, str(source.ordinal)),
    )
    return "(" + " AND ".join(f"`{name}` = {value}" for name, value in parts) + ")"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
