"""A `QueryPlan` that runs on Spark, for the keeper.

For every plan: the checkpoint belongs to the incarnations of its topics, whose ids are in the folder's name;
records that cannot be read become dead letters, unchanged, with the reason and their coordinates; records
without a key stay in the lane of their source. A plan without state does all that with one sink. A plan with
state loses track of single records, so a second query on the same source finds its dead letters, and its
results have no coordinates except those of their own topic. A plan into the lake puts the coordinates into
the rows, and its marks drop rows that the table already has.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_topic_config
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.modes import REAL_TIME, Mode, mode_of
from headrace.pipeline.spark.fair_turns import in_pool, is_far_off, pool_of, set_pace
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake_query import BatchListener
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.query_schemas import QuerySchemas, SchemaRegistry
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.spark.starting import Start
from headrace.pipeline.spark.steps.notes import EARLIEST
from headrace.pipeline.spark.steps.refusals import refuse_what_spark_cannot

_STATE_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class PlanQuery:
    """One query. `free_slots` returns the number of task slots that no other query holds permanently;
    `on_batch` is called after each batch of the lake; `pace` returns the milliseconds between two
    micro-batches.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: QueryPlan,
        settings: Settings,
        registry: SchemaRegistry,
        *,
        query_id: str,
        free_slots: Callable[[], int] | None = None,
        starting_offsets: str = EARLIEST,
        on_batch: BatchListener = lambda _batch, _written: None,
        pace: Callable[[], int] = lambda: 0,
    ) -> None:
        refuse_what_spark_cannot(plan)
        self.query = PlannedQuery(
            name=query_id, plan=plan, settings=settings, starting_offsets=starting_offsets
        )
        self.name = query_id
        self.source_topics = self.query.source_topics
        self.written_topics = self.query.written_topics
        self._spark = spark
        self._settings = settings
        self._schemas = QuerySchemas(registry)
        self._free_slots = free_slots or (lambda: settings.pipeline_slots)
        self._on_batch = on_batch
        self._pace = pace
        self._handle: StreamingQuery | None = None

    def mode(self, topics: Mapping[str, TopicIdentity]) -> Mode:
        return mode_of(
            self.query.plan,
            partitions=topics[self.source_topics[0]].partitions,
            free_slots=self._free_slots(),
            settings=self._settings,
        )

    def make_topics(self, cluster: Cluster) -> None:
        """Create the topics that the query writes."""
        size = derived_topic_config(self._settings)
        sink = self.query.plan.sink
        for topic in self.query.result_topics:
            cluster.create_topic(topic, partitions=sink.partitions, config=size | sink.topic_config)
        for topic in self.query.dead_letter_topics.values():
            cluster.create_topic(topic, partitions=self._settings.default_partitions, config=size)

    def forget(self) -> None:
        """Remove its checkpoints; for a stopped query that will not run again."""
        shutil.rmtree(self.query.folder, ignore_errors=True)

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        topics = self._all(topics)
        self._schemas.learn(self._handle.exception() if self._handle is not None else None)
        session = self._spark.newSession()
        for name, value in _STATE_SETTINGS.items():
            session.conf.set(name, value)
        pace = self._pace()
        set_pace(session, pace)
        try:
            mode = self.mode(topics)
            inputs = TopicInputs(self.query, self._schemas, session, topics, mode)
            with in_pool(session, pool_of(self.query.plan, mode.name)):
                running = Start(self.query, self._schemas, inputs, on_batch=self._on_batch).run()
        except (PySparkException, Py4JError) as error:
            first_line = next(iter(str(error).splitlines()), type(error).__name__)
            raise HeadraceError(
                "pipeline_failed", f"Spark refuses the plan of query {self.name}: {first_line}"
            ) from error
        self._handle = running.handle
        running.outdated = lambda: self._schemas.outdated() or self._other_pace(running, pace)
        return running

    def _other_pace(self, running: RunningQuery, pace: int) -> str:
        """Why the pace that it has does not suit it any longer; empty if it does."""
        if running.mode == REAL_TIME or not is_far_off(pace, self._pace()):
            return ""
        return "restarts with another pace, as more or fewer queries share the machine"

    def _all(self, topics: Mapping[str, TopicIdentity]) -> Mapping[str, TopicIdentity]:
        """The given topics, and those that the caller did not look up."""
        names = (*self.source_topics, *self.written_topics)
        lacking = [name for name in names if name not in topics]
        found = dict(topics)
        if lacking:
            found |= Cluster(self._settings.bootstrap).lookup(lacking)
        gone = [name for name in names if name not in found]
        if gone:
            raise HeadraceError(
                "pipeline_failed",
                f"Query {self.name} needs topics that do not exist: {', '.join(gone)}.",
                remedy="Create them, or drop the query.",
            )
        return found
