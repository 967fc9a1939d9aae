"""A `QueryPlan` that runs on Spark, for the keeper.

For every plan: the checkpoint belongs to the incarnations of its topics, whose ids are in the folder's name;
records that cannot be read become dead letters, unchanged, with the reason and their coordinates; records
without a key stay in the lane of their source. A plan without state does all that with one sink. A plan with
state loses track of single records, so a second query on the same source finds its dead letters, and its
results carry the batch that they come from (`stateful/`).
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
import time
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
from headrace.pipeline.catalogue.catalogue import StartPositions
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.modes import REAL_TIME, Mode, mode_of
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.runs.synced_topics import keep_synced
from headrace.pipeline.spark.fair_turns import in_pool, interpret_expressions, is_far_off, pool_of, set_pace
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.producers import silence
from headrace.pipeline.spark.query_schemas import QuerySchemas, SchemaRegistry
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.spark.starting import Start
from headrace.pipeline.spark.stateful.generations import KEPT_BATCHES
from headrace.pipeline.spark.stateless_run import RunContext, first_offsets
from headrace.pipeline.spark.steps.notes import EARLIEST, LATEST, write_note
from headrace.pipeline.spark.turns import Turns

logger = logging.getLogger(__name__)

# How long requests of a process that was killed, or of a producer that has given up, may wait in the sockets
# of a log that answers.
_SETTLE_SECONDS: Final = 1.0
# A consumer that has read on in a recreated topic is stopped, and its query restarted, within this time.
_READ_ON_MS: Final = 30_000
# Names the statement to which a folder of checkpoints belongs. Records of older versions have none.
_STATEMENT_NOTE: Final = "statement"
_STATE_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # So many batches a query can go back, if a sink has lost its newest records.
    "spark.sql.streaming.minBatchesToRetain": str(KEPT_BATCHES),
}


class PlanQuery:
    """One query. `free_slots` returns the number of task slots that no other query holds permanently; `pace`
    returns the milliseconds between two micro-batches, which take `turns` unless it is 0; `synced_topics` are
    those of its topics that must not lose a record in a power failure.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: QueryPlan,
        settings: Settings,
        registry: SchemaRegistry,
        *,
        query_id: str,
        commits: CommitLog,
        free_slots: Callable[[], int] | None = None,
        starting_offsets: str = EARLIEST,
        start: StartPositions | None = None,
        pace: Callable[[], int] = lambda: 0,
        turns: Turns | None = None,
        synced_topics: frozenset[str] = frozenset(),
    ) -> None:
        self.query = PlannedQuery(
            name=query_id, plan=plan, settings=settings, starting_offsets=starting_offsets, start=start
        )
        self.name = query_id
        self.source_topics = self.query.source_topics
        self.written_topics = self.query.written_topics
        self._spark = spark
        self._commits = commits
        self._settings = settings
        self._schemas = QuerySchemas(registry)
        self._free_slots = free_slots or (lambda: settings.pipeline_slots)
        self._pace = pace
        self._turns = turns
        self._synced_topics = synced_topics
        self._handle: StreamingQuery | None = None
        # The ids of the topics that its last run wrote.
        self._written: dict[str, str] = {}

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

    def unready(self, topics: Mapping[str, TopicIdentity]) -> str:  # noqa: ARG002 - of the interface
        return ""

    def fall_silent(self) -> None:
        """Wait until what its stopped run has derived is in the log, so that nothing of it follows."""
        if self._handle is None:
            return
        try:
            silence(self._spark, self.name)
        except (HeadraceError, Py4JError) as error:
            logger.warning("Query %s may still write records: %s", self.name, error)

    def forget(self) -> None:
        """Remove its commits and checkpoints; for a stopped query that will not run again."""
        self._commits.forget(self.name)
        try:
            folder = self.query.folder
        except HeadraceError as error:
            logger.warning("No checkpoint is removed: %s", error)
            return
        shutil.rmtree(folder, ignore_errors=True)

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        topics = self._all(topics)
        # Before it reads or writes them.
        for warning in keep_synced(self._commits.cluster, self._synced_topics):
            logger.warning("Query %s: %s", self.name, warning)
        former_error = self._handle.exception() if self._handle is not None else None
        self._schemas.learn(former_error)
        self._forget_former_statement()
        session = self._spark.newSession()
        for name, value in _STATE_SETTINGS.items():
            session.conf.set(name, value)
        pace = self._pace()
        set_pace(session, pace)
        try:
            mode = self.mode(topics)
            # Before anything is read: what former runs have written must all be in the log.
            self._silence_former_runs(session, topics)
            context = RunContext(
                query=self.name,
                cluster=self._commits.cluster,
                commits=self._commits,
                start=self._start_positions(topics),
                on_gap=self._settings.pipeline_on_gap,
                settle_seconds=max(_SETTLE_SECONDS - self._commits.silent_seconds(self.name), 0.0),
                former_error=str(former_error or ""),
            )
            inputs = TopicInputs(
                self.query,
                self._schemas,
                session,
                topics,
                mode,
                starting_offsets=lambda topic: first_offsets(context, topic),
                committed=self._commits.history(self.name).read_until(_wall_clock_ms() - _READ_ON_MS),
            )
            in_turns = pace > 0 and mode.name != REAL_TIME
            if in_turns:
                inputs.most_tasks = 1
                interpret_expressions(session)
            with in_pool(session, pool_of(mode.name)):
                running = Start(
                    self.query,
                    self._schemas,
                    inputs,
                    context,
                    # With a core for each query nobody has to wait.
                    turns=self._turns if in_turns else None,
                ).run()
        except (PySparkException, Py4JError) as error:
            first_line = next(iter(str(error).splitlines()), type(error).__name__)
            raise HeadraceError(
                "pipeline_failed", f"Spark refuses the plan of query {self.name}: {first_line}"
            ) from error
        self._commits.begun(self.name)
        self._handle = running.handle
        self._written = {name: topics[name].topic_id for name in self.written_topics}
        running.unwritten = lambda: self._commits.unwritten(self.name)
        running.outdated = lambda: self._schemas.outdated() or self._other_pace(running, pace)
        return running

    def _forget_former_statement(self) -> None:
        """A query that was terminated may have had the same id: nothing of it counts.

        Raises log_unavailable.
        """
        statement = self.query.start.statement if self.query.start is not None else ""
        note = self.query.folder / _STATEMENT_NOTE
        if statement and not (note.is_file() and note.read_bytes() == statement.encode()):
            shutil.rmtree(self.query.folder, ignore_errors=True)
            write_note(note, statement.encode())
        self._commits.begin(self.name, statement)

    def _silence_former_runs(self, session: SparkSession, topics: Mapping[str, TopicIdentity]) -> None:
        # A producer does not get rid of records for a topic that was deleted.
        was_deleted = any(topics[name].topic_id != topic_id for name, topic_id in self._written.items())
        is_cut_off = True
        try:
            is_cut_off = silence(session, self.name, at_once=was_deleted)
        finally:
            # Also if it fails half-way. It is remembered until a run has begun.
            if is_cut_off:
                self._commits.cut_off(self.name)

    def _other_pace(self, running: RunningQuery, pace: int) -> str:
        """Why the pace that it has does not suit it any longer; empty if it does."""
        if running.mode == REAL_TIME or not is_far_off(pace, self._pace()):
            return ""
        return "restarts with another pace, as more or fewer queries share the machine"

    def _start_positions(self, topics: Mapping[str, TopicIdentity]) -> Commit:
        """Where the query begins: with its statement, or if that does not say, at its first start."""
        start, history = self.query.start, self._commits.history(self.name)
        if start is not None:
            return Commit(at=0, positions=start.sources, sinks_from=start.sinks, sinks_to={})
        if history.start is not None:
            return history.start
        streams = [topics[name] for name in self.query.stream_topics]
        latest = self._commits.cluster.stable(streams) if self.query.starting_offsets == LATEST else {}
        begun = Commit(
            at=0,
            positions={
                topic.topic_id: {place[1]: latest[place] for place in topic.places if place in latest}
                for topic in (streams if latest else ())
            },
            sinks_from={},
            sinks_to={},
        )
        self._commits.replace(self.name, dataclasses.replace(history, start=begun))
        return begun

    def _all(self, topics: Mapping[str, TopicIdentity]) -> Mapping[str, TopicIdentity]:
        """The given topics, and those that the caller did not look up."""
        names = (*self.source_topics, *self.written_topics)
        lacking = [name for name in names if name not in topics]
        found = dict(topics)
        if lacking:
            found |= self._commits.cluster.lookup(lacking)
        gone = [name for name in names if name not in found]
        if gone:
            raise HeadraceError(
                "pipeline_failed",
                f"Query {self.name} needs topics that do not exist: {', '.join(gone)}.",
                remedy="Create them, or drop the query.",
            )
        return found


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
