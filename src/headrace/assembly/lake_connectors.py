"""Runs the connectors that belong to the pipeline process: each topic of a sink into its table.

`reconcile` is called repeatedly and never waits: it compares the wanted connectors
(`connect/state/configs.py`) with the running ones, and starts, stops or replaces queries. `report` writes
what became of them, in the form of Kafka Connect's statuses. The rules are those in `connect/plugins.py`.

Queries are started and stopped in the background (`pipeline/spark/background.py`), because a storage may not
answer: PAUSED and STOPPED are told when the last run has ended.

Invariants: a query for each topic of a connector, with a keeper of its own; no two of them write the same
table, also not while one of them is being stopped; a connector that cannot be read is FAILED with the reason
and affects no other. What a deleted connector has written stays. Never changes a configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.assembly.sinks import topics_of
from headrace.client.cluster import Cluster
from headrace.connect.state.configs import ConfigLog, ConnectorWish
from headrace.connect.state.statuses import State, Status, StatusLog
from headrace.core.errors import HeadraceError
from headrace.lake.sink import LakeSink
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.sink_tables import query_id
from headrace.pipeline.spark.background import Background, KeyedLane
from headrace.pipeline.spark.keeper import PlanListener, QueryKeeper, StatusListener
from headrace.pipeline.spark.lake.table_query import TableQuery

logger = logging.getLogger(__name__)

# How often a sink with a regular expression looks for new topics.
_LOOK_SECONDS: Final = 5.0
_TASK: Final = 0
# A repair or an order waits so long for the end of the query's run.
_STOP_SECONDS: Final = 30.0

# Makes the query of a topic.
QueryMaker = Callable[[LakeSink, str], TableQuery]


@dataclass(slots=True)
class _Running:
    """One connector. `problem` says why it cannot run; `refused` why single topics cannot."""

    wish: ConnectorWish
    sink: LakeSink | None = None
    problem: str = ""
    queries: dict[str, TableQuery] = field(default_factory=dict)
    keepers: dict[str, QueryKeeper] = field(default_factory=dict)
    newest: dict[str, QueryStatus] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    looked: float | None = None


class LakeConnectors:
    """Belongs to the thread of the pipeline process's loop."""

    def __init__(
        self,
        *,
        configs: ConfigLog,
        statuses: StatusLog,
        runs_here: Callable[[Mapping[str, str]], bool],
        sink_of: Callable[[ConnectorWish], LakeSink],
        make_query: QueryMaker,
        cluster: Cluster,
        background: Background,
        worker_id: str,
        on_status: StatusListener,
        on_plan: PlanListener,
        on_gone: Callable[[str], None],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        """`sink_of` raises HeadraceError for a configuration that cannot be run. `on_gone` is called with the
        id of a query that never comes back.
        """
        self._configs = configs
        self._statuses = statuses
        self._runs_here = runs_here
        self._sink_of = sink_of
        self._make_query = make_query
        self._cluster = cluster
        self._background = background
        self._worker_id = worker_id
        self._on_status = on_status
        self._on_plan = on_plan
        self._on_gone = on_gone
        self._wall_clock_ms = wall_clock_ms
        self._running: dict[str, _Running] = {}
        # Queries that must not run now.
        self._held: set[str] = set()
        # What was written last: the connector's status, and that of its task.
        self._told: dict[str, tuple[Status, Status | None]] = {}

    @property
    def keepers(self) -> tuple[QueryKeeper, ...]:
        return tuple(keeper for each in self._running.values() for keeper in each.keepers.values())

    @property
    def queries(self) -> tuple[TableQuery, ...]:
        """Of all topics that were found, also of connectors that are paused or stopped."""
        return tuple(query for each in self._running.values() for query in each.queries.values())

    def query_ids(self) -> frozenset[str]:
        """Of all connectors, also of those that are paused or stopped: what is kept of them stays."""
        sinks = [running.sink for running in self._running.values() if running.sink is not None]
        return frozenset(
            query_id(sink.name, topic) for sink in sinks for topic in topics_of(sink, self._cluster)
        )

    def stopped(self, query: str) -> TableQuery | None:
        """The query of that id, whose run is stopped until the next tick; None if there is no such query.

        Raises pipeline_failed if the run does not end in time.
        """
        for running in self._running.values():
            for topic, each in running.queries.items():
                if each.name == query:
                    if topic in running.keepers:
                        running.keepers[topic].stop()
                    self.wait_for_end(each)
                    return each
        return None

    def wait_for_end(self, query: TableQuery) -> None:
        """Until no run of this query, or of its table, is being stopped; from any thread.

        Raises pipeline_failed if the run does not end in time.
        """
        if not self._lane(query).wait(_STOP_SECONDS):
            raise HeadraceError(
                "pipeline_failed",
                f"The run of query {query.name} does not end: it waits for {query.location}.",
                remedy="Try again when its storage answers.",
            )

    def hold(self, query: str) -> None:
        """Stop the run of this query, and start no other until it is released. `wait_for_end` tells when it
        has ended.
        """
        self._held.add(query)
        for running in self._running.values():
            for topic, keeper in list(running.keepers.items()):
                if keeper.name == query:
                    running.keepers.pop(topic).stop()
                    running.newest.pop(topic, None)

    def release(self, query: str) -> None:
        self._held.discard(query)
        for running in self._running.values():
            # Those with an expression look for topics only now and then.
            running.looked = None

    def new_query(self, query: str) -> TableQuery:
        """Another object for the query of that id, which no keeper has, whatever the connector's target state
        is. Raises connector_not_found, and connector_failed if its configuration cannot be run.
        """
        for running in self._running.values():
            sink = running.sink
            topics = topics_of(sink, self._cluster) if sink is not None else ()
            for topic in topics:
                if sink is not None and query_id(sink.name, topic) == query:
                    return self._make_query(sink, topic)
        for name, running in self._running.items():
            if running.problem and query.startswith(f"{name}."):
                raise HeadraceError(
                    "connector_failed",
                    f"Connector {name} cannot be run: {running.problem}",
                    remedy="Change its configuration.",
                )
        raise HeadraceError(
            "connector_not_found",
            f"No connector of the pipeline process has the query {query}.",
            remedy="Its connector was deleted, or its topic. `headrace lake tables` lists the tables.",
        )

    def reconcile(self, now: float) -> None:
        """Have a keeper for each topic of each wanted connector, and no others. `now` is monotonic."""
        wishes = {name: wish for name, wish in self._configs.wishes().items() if self._runs_here(wish.config)}
        for name, running in list(self._running.items()):
            wish = wishes.get(name)
            if wish is None:
                self._forget(running)
                del self._running[name]
                self._told.pop(name, None)
            elif _versions(wish) != _versions(running.wish):
                _stop(running)
                gone = running
                del self._running[name]
                # It may have been deleted and created again, and its status with it.
                self._told.pop(name, None)
                self._begin(wish)
                self._forget_topics(gone, self._running[name])
            elif wish.target != running.wish.target:
                running.wish = wish
        for name, wish in wishes.items():
            if name not in self._running:
                self._begin(wish)
        for running in self._running.values():
            if running.wish.target != "STARTED":
                _stop(running)
            elif running.sink is not None:
                self._follow_topics(running, now)

    def report(self) -> None:
        """Write what became of the connectors since it was last asked. Raises log_unavailable."""
        for name, running in self._running.items():
            if running.wish.target != "STARTED" and self._is_ending(running):
                continue
            connector, task = self._states(running)
            if self._told.get(name) == (connector, task) and self._statuses.connector(name) is not None:
                continue
            self._statuses.put_connector(name, connector)
            if task is not None:
                self._statuses.put_task(name, _TASK, task)
            else:
                for number in self._statuses.tasks(name):
                    self._statuses.remove_task(name, number)
            self._told[name] = (connector, task)

    def stop(self) -> None:
        for running in self._running.values():
            _stop(running)

    def _begin(self, wish: ConnectorWish) -> None:
        running = _Running(wish=wish)
        self._running[wish.name] = running
        try:
            running.sink = self._sink_of(wish)
        except HeadraceError as error:
            running.problem = str(error)
            logger.error("Connector %s cannot run: %s", wish.name, error)

    def _follow_topics(self, running: _Running, now: float) -> None:
        sink = running.sink
        assert sink is not None
        if not sink.topics and running.looked is not None and now < running.looked + _LOOK_SECONDS:
            return
        running.looked = now
        topics = topics_of(sink, self._cluster)
        for topic in topics:
            if topic not in running.keepers and query_id(sink.name, topic) not in self._held:
                self._add(running, sink, topic)
        for topic in [known for known in running.keepers if known not in topics]:
            # A topic that was deleted; its table stays.
            running.keepers.pop(topic).stop()

    def _add(self, running: _Running, sink: LakeSink, topic: str) -> None:
        try:
            query = running.queries.get(topic) or self._make_query(sink, topic)
            taken = self._writer_of(query, running)
            if taken:
                raise HeadraceError(
                    "lake_unsupported",
                    f"Connector {sink.name} cannot write topic {topic} to {query.location}: {taken} does.",
                    remedy="Give one of them another folder (topics.dir), or another name of the table "
                    "(the transformation RegexRouter).",
                )
        except HeadraceError as error:
            if topic not in running.refused:
                logger.error("%s", error)
            running.refused[topic] = str(error)
            return
        running.refused.pop(topic, None)
        running.queries[topic] = query

        def heard(status: QueryStatus) -> None:
            running.newest[topic] = status
            self._on_status(replace(status, source=topic, table=str(query.location)))

        running.keepers[topic] = QueryKeeper(
            query,
            cluster=self._cluster,
            on_status=heard,
            wall_clock_ms=self._wall_clock_ms,
            on_plan=self._on_plan,
            lane=self._lane(query),
        )

    def _lane(self, query: TableQuery) -> KeyedLane:
        """A run waits for what is left of another of the same query, or of the same table."""
        return self._background.lane(f"query {query.name}", f"table {query.location}")

    def _is_ending(self, running: _Running) -> bool:
        return any(self._lane(query).is_busy for query in running.queries.values())

    def _writer_of(self, query: TableQuery, mine: _Running) -> str:
        """Who else writes the table; empty if nobody does."""
        for running in self._running.values():
            for topic, other in running.queries.items():
                if other is not query and other.location == query.location:
                    return (
                        f"its topic {topic}"
                        if running is mine
                        else f"connector {running.wish.name}, topic {topic},"
                    )
        return ""

    def _states(self, running: _Running) -> tuple[Status, Status | None]:
        target = running.wish.target
        if target == "STOPPED":
            return self._status("STOPPED"), None
        if running.problem:
            failed = self._status("FAILED", running.problem)
            return failed, failed
        if target == "PAUSED":
            return self._status("PAUSED"), self._status("PAUSED")
        failing = [f"{topic}: {reason}" for topic, reason in running.refused.items()]
        failing += [
            f"{topic}: {status.message}" for topic, status in running.newest.items() if status.is_failing
        ]
        task = self._status("FAILED", "\n".join(failing)) if failing else self._status("RUNNING")
        return self._status("RUNNING"), task

    def _status(self, state: State, trace: str | None = None) -> Status:
        return Status(state=state, worker_id=self._worker_id, trace=trace)

    def _forget(self, running: _Running) -> None:
        _stop(running)
        for query in running.queries.values():
            self._lane(query).later(query.forget)
            self._on_gone(query.name)

    def _forget_topics(self, before: _Running, after: _Running) -> None:
        """What the former configuration ran and the new one does not."""
        wanted = after.sink
        for topic, query in before.queries.items():
            if wanted is not None and wanted.topics and topic not in wanted.topics:
                self._lane(query).later(query.forget)
                self._on_gone(query.name)


def _versions(wish: ConnectorWish) -> tuple[int, int]:
    return wish.config_version, wish.restart.version


def _stop(running: _Running) -> None:
    for keeper in running.keepers.values():
        keeper.stop()
    running.keepers.clear()
    running.newest.clear()
