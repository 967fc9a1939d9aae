"""Keeps queries running: starts each query once its sources exist, and restarts it when it fails or when its
topics change.

`tick` is called repeatedly with the current topics; it never sleeps. A query is stopped at once when the id
of one of its topics changes, because records of a new incarnation must not be mistaken for those of the old
one. Spark plans a query when it has records, so the plan is reported some time after the start.

Starts and stops are given to the query's lane (`background.py`), which may take its time; the lane carries
them out in order, so that a run begins when the one before it has ended. A query that has failed stays FAILED
while its next start is under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import LONGEST_PLAN, Gap, QueryState, QueryStatus, SparkPlan
from headrace.pipeline.spark.background import Inline, Job, Lane
from headrace.pipeline.spark.restarts import restart_reason
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.spark.short_errors import first_line

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_HEALTHY_AFTER: Final = 60.0
# How often to ask a query without records for Spark's plan.
_PLAN_PAUSE: Final = 1.0
# How often to ask a query that waits for more than topics.
_READY_PAUSE: Final = 1.0
# How often to ask a running query whether it is outdated.
_OUTDATED_PAUSE: Final = 5.0

StatusListener = Callable[[QueryStatus], None]
PlanListener = Callable[[SparkPlan], None]


class Query(Protocol):
    """Can be started on Spark once its topics exist (`plan_query.py`)."""

    @property
    def name(self) -> str: ...

    @property
    def source_topics(self) -> tuple[str, ...]: ...

    @property
    def written_topics(self) -> tuple[str, ...]: ...

    def make_topics(self, cluster: Cluster) -> None:
        """Create the topics that it writes."""
        ...

    def unready(self, topics: Mapping[str, TopicIdentity]) -> str:
        """Why it cannot start yet although its topics exist; empty if it can."""
        ...

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        """Start it with the current topics."""
        ...


class QueryKeeper:
    """Keeps one query running."""

    def __init__(
        self,
        query: Query,
        *,
        cluster: Cluster,
        on_status: StatusListener,
        wall_clock_ms: Callable[[], int],
        on_plan: PlanListener = lambda _: None,
        lane: Lane | None = None,
    ) -> None:
        """Without a lane, starts and stops are done when `tick` and `stop` return."""
        self._query = query
        self._lane = lane or Inline()
        self._cluster = cluster
        self._on_status = on_status
        self._on_plan = on_plan
        self._wall_clock_ms = wall_clock_ms
        self._running: RunningQuery | None = None
        self._starting: Job[RunningQuery] | None = None
        # Of its run, or of the start that is under way.
        self._topics: Mapping[str, TopicIdentity] = {}
        self._mode = ""
        self._mode_reason = ""
        # When to ask for Spark's plan next; None once it was reported.
        self._plan_due: float | None = None
        self._outdated_due = 0.0
        self._gaps: tuple[Gap, ...] = ()
        self._state: QueryState | None = None
        self._pause = _FIRST_PAUSE
        self._failures = 0
        self._last_failure = ""
        self._commit_problem = ""
        self._not_before = 0.0
        self._started_at = 0.0

    @property
    def name(self) -> str:
        return self._query.name

    @property
    def topic_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._query.source_topics, *self._query.written_topics)))

    @property
    def state(self) -> QueryState | None:
        return self._state

    @property
    def running(self) -> RunningQuery | None:
        """Its current run, if there is one."""
        return self._running

    @property
    def source_topics(self) -> tuple[str, ...]:
        return self._query.source_topics

    @property
    def mode(self) -> str:
        return self._mode

    @property
    def slots_held(self) -> int:
        """Task slots that it occupies while it runs: one for each partition in real-time mode."""
        if self._running is None or self._mode != "real-time":
            return 0
        return sum(self._topics[name].partitions for name in self._query.source_topics)

    def tick(self, topics: Mapping[str, TopicIdentity], now: float) -> None:
        """Start, restart or stop the query as needed. `topics` are those of `topic_names` that exist; `now`
        is monotonic.
        """
        mine = {name: topics[name] for name in self.topic_names if name in topics}
        if self._running is not None:
            if mine != self._topics:
                self._halt()
                self._say("WAITING", "a topic of this query was deleted, recreated or given more partitions")
            elif not self._running.handle.isActive:
                self._ended(str(self._running.handle.exception() or "the query ended by itself"), now)
            else:
                if self._failures and self._is_well(self._running, now):
                    self._pause = _FIRST_PAUSE
                    self._failures = 0
                    self._say("RUNNING", "", repeat=True)
                self._record(self._running, now)
                self._look_for_plan(self._running, now)
                self._start_anew_if_outdated(self._running, now)
            return
        if self._starting is not None:
            self._take_up(self._starting, mine, now)
            return
        if now < self._not_before:
            return
        missing = [name for name in self._query.source_topics if name not in mine]
        if missing:
            self._say("WAITING", f"topic {missing[0]} does not exist yet")
        elif len(mine) < len(self.topic_names):
            self._make_topics(now)
        else:
            self._start(mine, now)

    def stop(self) -> None:
        """The lane may still be at it when this returns."""
        self._halt()
        self._say("STOPPED", "")

    def _make_topics(self, now: float) -> None:
        try:
            self._query.make_topics(self._cluster)
        except HeadraceError as error:
            # The log refuses this query's topics, or does not answer for them; other queries go on.
            self._failed(str(error), now)

    def _start(self, topics: Mapping[str, TopicIdentity], now: float) -> None:
        try:
            if unready := self._query.unready(topics):
                self._not_before = now + _READY_PAUSE
                self._say("WAITING", unready)
                return
        except Exception as error:
            self._cannot_start(error, now)
            return
        self._topics = topics
        self._starting = self._lane.start(lambda: self._query.start(topics))
        self._take_up(self._starting, topics, now)

    def _take_up(self, job: Job[RunningQuery], topics: Mapping[str, TopicIdentity], now: float) -> None:
        """Have what was started, if it is by now."""
        if topics != self._topics:
            self._halt()
            return
        if not job.is_done:
            return
        self._starting = None
        try:
            self._running = job.result()
        except Exception as error:
            self._cannot_start(error, now)
            return
        self._mode, self._mode_reason = self._running.mode, self._running.mode_reason
        self._started_at = now
        self._gaps = self._running.gaps
        self._commit_problem = ""
        self._say("RUNNING", self._remark(self._running))
        # The plan of an earlier start is obsolete.
        self._tell_plan("")
        self._plan_due = now

    def _cannot_start(self, error: Exception, now: float) -> None:
        if isinstance(error, HeadraceError):
            self._failed(str(error), now)
            return
        # What one query meets when it starts, such as a folder it cannot use, must not end the others.
        logger.error("Query %s cannot be started.", self._query.name, exc_info=error)
        self._failed(f"It cannot be started: {error!r}", now)

    def _record(self, running: RunningQuery, now: float) -> None:
        """Commit what has finished. If the log does not answer, the query runs on and is asked again."""
        problem = running.record(now)
        if problem == self._commit_problem:
            return
        self._commit_problem = problem
        if problem:
            logger.warning("The commits of query %s cannot be written: %s", self._query.name, problem)
            problem = f"Its commits cannot be written: {problem}"
        self._say("RUNNING", problem or self._remark(running), repeat=True)

    def _remark(self, running: RunningQuery) -> str:
        # What failed again and again may well fail again: only after a while it is known to run.
        return self._last_failure if self._failures > 1 else running.remark

    def _is_well(self, running: RunningQuery, now: float) -> bool:
        """Whether it does not end as it did before. A batch that fails at its end may take long."""
        return now - self._started_at > _HEALTHY_AFTER and running.has_proved_itself()

    def _start_anew_if_outdated(self, running: RunningQuery, now: float) -> None:
        if now < self._outdated_due:
            return
        self._outdated_due = now + _OUTDATED_PAUSE
        try:
            reason = running.outdated()
        except HeadraceError as error:
            # It keeps running, and will be asked again.
            logger.warning("Query %s may be outdated: %s", self._query.name, error)
            return
        if reason:
            self._halt()
            self._say("WAITING", reason)

    def _look_for_plan(self, running: RunningQuery, now: float) -> None:
        if self._plan_due is None or now < self._plan_due:
            return
        self._plan_due = now + _PLAN_PAUSE
        text = running.spark_plan()
        if text:
            self._plan_due = None
            self._tell_plan(text)

    def _tell_plan(self, text: str) -> None:
        self._on_plan(SparkPlan(query=self._query.name, text=text[:LONGEST_PLAN], at=self._wall_clock_ms()))

    def _ended(self, reason: str, now: float) -> None:
        restart = restart_reason(reason)
        if not restart:
            self._failed(reason, now)
            return
        # Not a failure: the next start knows what this one did not, and continues where it stopped.
        self._running = None
        self._say("WAITING", restart)

    def _failed(self, reason: str, now: float) -> None:
        self._running = None
        self._not_before = now + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self._failures += 1
        logger.error("Query %s failed and will restart: %s", self._query.name, reason)
        self._last_failure = first_line(reason)
        self._say("FAILED", self._last_failure, repeat=True)

    def _halt(self) -> None:
        if self._starting is not None:
            self._starting.give_up(RunningQuery.stop)
            self._starting = None
        if self._running is not None:
            running, self._running = self._running, None
            self._lane.later(running.stop)

    def _say(self, state: QueryState, message: str, *, repeat: bool = False) -> None:
        if state == self._state and not repeat:
            return
        self._state = state
        logger.info("Query %s is %s %s", self._query.name, state, message)
        self._on_status(
            QueryStatus(
                query=self._query.name,
                state=state,
                mode=self._mode,
                message=message,
                at=self._wall_clock_ms(),
                mode_reason=self._mode_reason,
                slots=self.slots_held,
                failures=self._failures,
                uncommitted=self._commit_problem if state == "RUNNING" else "",
                gaps=self._gaps,
            )
        )
