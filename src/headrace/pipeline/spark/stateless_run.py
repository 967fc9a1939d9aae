"""One run of a Spark query without state: where it begins, what it leaves out, and what it commits.

The main query of a plan without state is one, and so is each query that only writes dead letters. Spark's
checkpoint is new for each run and of no use afterwards: the commits in the log say where to go on
(`runs/resuming.py`), and the sinks say what the runs before have already written.

Order: the former runs are silent, the commits are read, then the ends of the sinks, then the sinks. Nothing
may be written before that.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit, History, Offsets
from headrace.pipeline.runs.identities import Written
from headrace.pipeline.runs.reading_back import read_back
from headrace.pipeline.runs.recording import Recording, ends_of_records
from headrace.pipeline.runs.resuming import Resumption, TopicNow, resume, resumed_history
from headrace.pipeline.runs.witnesses import has_records
from headrace.pipeline.spark.running_query import finished_batch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What the runs of a query share.

    `settle_seconds` is how long to look out for records of former runs that may still be on their way to the
    log.
    """

    query: str
    cluster: Cluster
    commits: CommitLog
    start: Commit
    on_gap: str
    settle_seconds: float
    former_error: str = ""


class StatelessRun:
    """Made before the query is planned, since its positions and its filter are part of the plan."""

    def __init__(
        self,
        context: RunContext,
        key: str,
        *,
        source: TopicIdentity,
        sinks: Sequence[TopicIdentity],
        dead_letters: TopicIdentity,
        is_table: bool = False,
    ) -> None:
        """`sinks` has the topic of the dead letters, too. `is_table`: the rows are the changes of a table.

        Raises log_unavailable.
        """
        self._context = context
        self._key = key
        self._source = source
        self._sinks = tuple(sinks)
        self._dead_letters = dead_letters
        cluster, commits = context.cluster, context.commits
        history = commits.history(key)
        self._resumption = self._resumed()
        refuse_gaps(context, self._resumption.gaps)
        kept = resumed_history(history, self._resumption, now=_wall_clock_ms())
        if kept != history:
            commits.replace(key, kept)
        self.gaps = kept.gaps
        self._ends = self._sink_ends()
        self._read_back = read_back(
            cluster.bootstrap,
            query=context.query,
            sinks=self._sinks,
            sinks_from=self._resumption.sinks_from,
            ends={
                (sink.name, partition): end
                for sink in self._sinks
                for partition, end in self._ends[sink.topic_id].items()
            },
            positions=self._resumption.positions,
            quiet_seconds=context.settle_seconds,
            with_order=is_table,
        )
        self._is_table = is_table
        self._say_what_was_found()

    @property
    def positions(self) -> Offsets:
        """Where it begins to read its source."""
        return self._resumption.positions

    @property
    def starting_offsets(self) -> str:
        """For Spark's Kafka source."""
        return json.dumps({self._source.name: self._resumption.positions[self._source.topic_id]})

    @property
    def written(self) -> Mapping[int, Written]:
        """What to leave out, by source partition.

        The rows of a table overwrite each other, so their order matters: behind the first row that is
        missing, or that stands behind a newer one, all are written again.
        """
        found = self._read_back.written.get(self._source.topic_id, {})
        if not self._is_table:
            return found
        positions = self._resumption.positions[self._source.topic_id]
        orders = self._read_back.orders.get(self._source.topic_id, {})
        return {
            number: each.unbroken_from(positions[number], orders[number].in_order_below())
            for number, each in found.items()
        }

    def recording(self, handle: StreamingQuery) -> Recording:
        """Records the commits of the run, which `handle` is."""
        ids = {self._source.name: self._source.topic_id}
        return Recording(
            self._key,
            self._context.commits,
            resumption=self._resumption,
            read_back=self._read_back,
            finished=lambda: finished_batch(handle, ids),
            ends=lambda: ends_of_records(self._sink_ends(), self._ends, self._read_back),
            wall_clock_ms=_wall_clock_ms,
        )

    def _resumed(self) -> Resumption:
        cluster = self._context.cluster
        source, *sinks = _now(self._context, (self._source, *self._sinks), starting_empty=self._dead_letters)
        return resume(
            self._context.commits.history(self._key),
            self._context.start,
            sources=[source],
            sinks=sinks,
            has_records=lambda offsets: has_records(cluster.bootstrap, self._sinks, offsets),
            now=_wall_clock_ms(),
        )

    def _sink_ends(self) -> dict[str, dict[int, int]]:
        latest = self._context.cluster.latest(self._sinks)
        return {
            sink.topic_id: {place[1]: latest[place] for place in sink.places if place in latest}
            for sink in self._sinks
        }

    def _say_what_was_found(self) -> None:
        count = sum(
            stretch.last - stretch.first + 1
            for of_topic in self._read_back.written.values()
            for each in of_topic.values()
            for stretch in each.stretches
        )
        if count:
            logger.info("%s leaves out up to %d records that earlier runs have derived", self._key, count)


def refuse_gaps(context: RunContext, gaps: Sequence[Gap]) -> None:
    """Stop at records that have expired unread, if the setting says so."""
    for gap in gaps:
        text = (
            f"Query {context.query} has not read offsets {gap.first} to {gap.end - 1} of partition "
            f"{gap.partition} of topic {gap.topic}: they have expired."
        )
        if context.on_gap == "stop":
            raise HeadraceError(
                "pipeline_failed",
                text,
                remedy="To go on without them, set pipeline_on_gap to continue and restart the pipeline.",
            )
        logger.warning("%s It goes on without them.", text)


def kept_gaps(context: RunContext, gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
    """These and those that were noticed before: a gap stays known after the query has gone on behind it.

    For a query whose commits are elsewhere. Raises log_unavailable.
    """
    history = context.commits.history(context.query)
    kept = history.with_gaps(gaps)
    if kept != history:
        context.commits.replace(context.query, kept)
    return kept.gaps


def first_offsets(context: RunContext, topic: TopicIdentity) -> str:
    """Where a query begins to read a topic if it has no checkpoint yet, for Spark's Kafka source."""
    return json.dumps({topic.name: beginning(context, context.start, [topic]).positions[topic.topic_id]})


def beginning(context: RunContext, start: Commit, topics: Sequence[TopicIdentity]) -> Resumption:
    """Where a query that began at `start` begins to read topics without any commit, and what has expired."""
    return resume(
        History(),
        start,
        sources=_now(context, topics),
        sinks=[],
        has_records=lambda _: True,
        now=_wall_clock_ms(),
    )


def _now(
    context: RunContext, topics: Sequence[TopicIdentity], starting_empty: TopicIdentity | None = None
) -> list[TopicNow]:
    stretches = context.cluster.stretches(topics)
    gone = [topic.name for topic in topics if topic.name not in stretches]
    if gone:
        raise HeadraceError(
            "pipeline_failed", f"Query {context.query}: topic {gone[0]} was deleted while the query started."
        )
    return [
        TopicNow(
            name=topic.name,
            topic_id=topic.topic_id,
            stretches=stretches[topic.name],
            starts_empty=topic == starting_empty,
        )
        for topic in topics
    ]


def new_checkpoint(folder: Path, part: str) -> Path:
    """An empty folder for the checkpoint of one run; those of former runs are deleted."""
    prefix = f"run{part or '-main'}-"
    if folder.is_dir():
        for former in folder.iterdir():
            if former.name.startswith(prefix):
                shutil.rmtree(former, ignore_errors=True)
    return folder / f"{prefix}{uuid.uuid4().hex[:12]}"


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
