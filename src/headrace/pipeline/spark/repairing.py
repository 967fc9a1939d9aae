"""Carries out repairs (`catalogue/repairs.py`): a query reads exactly the given records of its source again.

For a query that keeps no state: one batch of its own plan over these records, whose results have the same
identities as if they had been derived in time. What the sinks already have of them is left out: the wish says
from where on that can be. For the lake: its query is stopped meanwhile, because there is only one writer of a
table; every row is looked up in the table before it is written. Rows that are double are replaced by one of
them in one commit.

Crash behaviour: a repair that is interrupted is carried out again and finds what is there. Belongs to the
thread of the pipeline process; takes seconds, in which no query is started or restarted.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_message_bytes
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.catalogue.repairs import Repair
from headrace.pipeline.plan import Aggregate, QueryPlan, Read, is_stateful, reads_of
from headrace.pipeline.rules.modes import MICRO_BATCH, Mode
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.runs.reading_back import read_back
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake_repairing import LakeRepair
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.producers import new_client_id
from headrace.pipeline.spark.query_schemas import QuerySchemas, SchemaRegistry
from headrace.pipeline.spark.sink_limits import limits_of
from headrace.pipeline.spark.stateless_run import RunContext
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.sink import PRODUCER, sink_records

logger = logging.getLogger(__name__)

# How long to look out for dead letters of the run that was stopped.
_SETTLE_SECONDS: Final = 1.0
_MODE: Final = Mode(name=MICRO_BATCH, reason="a repair is one batch")

# Partition, first and last offset.
Stretches = Sequence[tuple[int, int, int]]


class GivenOffsets:
    """The `Inputs` of a repair: given records of the stream, and tables as they are now."""

    def __init__(self, inputs: TopicInputs, stretches: Stretches, bootstrap: str) -> None:
        self._inputs = inputs
        self._stretches = stretches
        self._bootstrap = bootstrap

    def changes(self, read: Read) -> Rows:
        inputs = self._inputs
        topic = inputs.topics[read.source.topic]
        return inputs.rows(read, records_at(inputs.session, self._bootstrap, topic, self._stretches))

    def standing(self, read: Read, *, is_global: bool) -> Rows:  # noqa: ARG002 - the copy belongs to the run
        return self._inputs.standing(read, is_global=False)

    def table_groups(self, step: Aggregate) -> Rows:
        return self._inputs.table_groups(step)


def records_at(
    session: SparkSession, bootstrap: str, topic: TopicIdentity, stretches: Stretches
) -> DataFrame:
    """Exactly these records of a topic, with the columns of Spark's Kafka source."""
    partitions = sorted({partition for partition, _, _ in stretches})
    first = {str(each): min(f for p, f, _ in stretches if p == each) for each in partitions}
    end = {str(each): max(last for p, _, last in stretches if p == each) + 1 for each in partitions}
    wanted: Column = F.lit(False)
    for partition, start, last in stretches:
        wanted = wanted | ((F.col("partition") == partition) & F.col("offset").between(start, last))
    return (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.allow.auto.create.topics", "false")
        .option("assign", json.dumps({topic.name: partitions}))
        .option("startingOffsets", json.dumps({topic.name: first}))
        .option("endingOffsets", json.dumps({topic.name: end}))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
        .filter(wanted)
    )


class Repairs:
    """Carries out repairs. `pause_lake` stops the query `lake` into the lake until its next tick."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        cluster: Cluster,
        commits: CommitLog,
        registry: SchemaRegistry,
        catalogue: Callable[[], Catalogue],
        lake: QueryPlan,
        pause_lake: Callable[[], None],
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._cluster = cluster
        self._commits = commits
        self._registry = registry
        self._catalogue = catalogue
        self._lake = lake
        self._pause_lake = pause_lake

    def carry_out(self, repair: Repair) -> Repair:
        """The repair with its answer. Raises log_unavailable: then it is to be tried again."""
        logger.info("repairing %s: %s", repair.query, repair)
        try:
            if repair.query == self._lake.query_id:
                self._pause_lake()
                changed = self._into_lake(repair)
            else:
                changed = self._into_topics(repair)
        except (HeadraceError, PySparkException, Py4JError) as error:
            if isinstance(error, HeadraceError) and error.code == "log_unavailable":
                raise
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            return dataclasses.replace(repair, state="FAILED", message=reason)
        return dataclasses.replace(repair, state="DONE", changed=changed)

    def _into_topics(self, repair: Repair) -> int:
        known = self._catalogue()
        asked = known.queries.get(repair.query)
        if asked is None:
            raise HeadraceError("query_failed", f"There is no query {repair.query}.")
        plan = plan_again(asked.statement, asked.id, known)
        if is_stateful(plan):
            raise HeadraceError(
                "query_failed", f"Query {repair.query} keeps state: records cannot be repeated."
            )
        query = PlannedQuery(name=asked.id, plan=plan, settings=self._settings)
        topics = self._topics(query, repair)
        first = reads_of(plan.root)[0]
        left = self._without_written(query, topics, repair)
        if not left:
            return 0
        schemas = QuerySchemas(self._registry)
        inputs = TopicInputs(query, schemas, self._spark.newSession(), topics, _MODE)
        records = sink_records(
            built(plan.root, GivenOffsets(inputs, left, self._settings.bootstrap)),
            plan.sink,
            topic=topics[plan.sink.topic],
            keys=schemas.writer(plan.sink, "key"),
            values=schemas.writer(plan.sink, "value"),
            dead_letter_topic=query.dead_letter_topics[first.source.topic],
            read=first,
            query=query.name,
            limits=limits_of(query)[first.source.topic],
        )
        options: dict[str, Any] = {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.client.id": new_client_id(query.name),
            "kafka.max.request.size": str(derived_message_bytes(self._settings)),
            **PRODUCER,
        }
        records.write.format("kafka").options(**options).save()
        return sum(last - start + 1 for _, start, last in left)

    def _topics(self, query: PlannedQuery, repair: Repair) -> Mapping[str, TopicIdentity]:
        names = (*query.source_topics, *query.written_topics)
        topics = self._cluster.lookup(names)
        gone = [name for name in names if name not in topics]
        source = query.source_topics[0]
        if gone or topics[source].topic_id != repair.topic_id:
            raise HeadraceError(
                "query_failed", f"A topic of query {query.name} was deleted or recreated: {gone or source}."
            )
        return topics

    def _without_written(
        self, query: PlannedQuery, topics: Mapping[str, TopicIdentity], repair: Repair
    ) -> Stretches:
        """The records of which the sinks have nothing yet."""
        sinks = [topics[name] for name in query.written_topics]
        there = read_back(
            self._settings.bootstrap,
            query=query.name,
            sinks=sinks,
            sinks_from=repair.sinks_from,
            ends=self._cluster.latest(sinks),
            positions={repair.topic_id: {partition: 0 for partition, _, _ in repair.stretches}},
        ).written.get(repair.topic_id, {})
        return joined(
            (partition, offset)
            for partition, first, last in repair.stretches
            for offset in range(first, last + 1)
            if partition not in there or not there[partition].has(offset, 0)
        )

    def _into_lake(self, repair: Repair) -> int:
        query = PlannedQuery(name=repair.query, plan=self._lake, settings=self._settings)
        topics = self._topics(query, repair)
        inputs = TopicInputs(query, QuerySchemas(self._registry), self._spark.newSession(), topics, _MODE)
        context = RunContext(
            query=query.name,
            cluster=self._cluster,
            commits=self._commits,
            start=Commit(at=0, positions={}, sinks_from={}, sinks_to={}),
            on_gap=self._settings.pipeline_on_gap,
            settle_seconds=_SETTLE_SECONDS,
        )
        repaired = LakeRepair(query, inputs, context)
        changed = repaired.without_doubles(repair.doubles) if repair.doubles else 0
        if repair.stretches:
            given = GivenOffsets(inputs, repair.stretches, self._settings.bootstrap)
            changed += repaired.write(built(self._lake.root, given))
        return changed


def joined(places: Iterable[tuple[int, int]]) -> Stretches:
    """Places in order, as stretches."""
    found: list[tuple[int, int, int]] = []
    for partition, offset in places:
        if found and found[-1][0] == partition and found[-1][2] == offset - 1:
            found[-1] = (partition, found[-1][1], offset)
        else:
            found.append((partition, offset, offset))
    return found
