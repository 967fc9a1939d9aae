"""What a keeper tells of its query: the mode and why, and Spark's plan once there is one. Starts no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import QueryStatus, SparkPlan
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.running_query import RunningQuery

TOPICS = {"in": TopicIdentity(name="in", topic_id="i", partitions=3)}


class Handle:
    """Spark's, as far as a keeper asks it."""

    def __init__(self) -> None:
        self.isActive = True
        self.text = "No physical plan. Waiting for data."
        # Of its last batch that ended, and whether it is at work on one.
        self.progress: object | None = None
        self.is_at_work = False
        self._jsq = self

    def lastProgress(self) -> object | None:  # noqa: N802 - Spark's name
        return self.progress

    def status(self) -> Handle:
        return self

    def isTriggerActive(self) -> bool:  # noqa: N802 - Spark's name
        return self.is_at_work

    def explainInternal(self, _extended: bool) -> str:  # noqa: N802 - Spark's name
        return self.text

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.isActive = False


class Query:
    name = "CSAS_O_1"
    source_topics = ("in",)
    written_topics = ()

    def __init__(self) -> None:
        self.handle = Handle()
        self.reason = ""
        self.error: HeadraceError | None = None
        self.no_start: Exception | None = None

    def outdated(self) -> str:
        if self.error is not None:
            raise self.error
        return self.reason

    def make_topics(self, cluster: Cluster) -> None: ...

    def unready(self, topics: Mapping[str, TopicIdentity]) -> str:  # noqa: ARG002 - of the interface
        return ""

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:  # noqa: ARG002 - of the interface
        if self.no_start is not None:
            raise self.no_start
        self.handle = Handle()
        handle: Any = self.handle
        running = RunningQuery(handle, "real-time", mode_reason="it keeps no state")
        running.outdated = self.outdated
        return running


def test_mode_and_spark_s_plan_are_told() -> None:
    query, said, plans = Query(), list[QueryStatus](), list[SparkPlan]()
    nothing: Any = None
    keeper = QueryKeeper(
        query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1, on_plan=plans.append
    )
    keeper.tick(TOPICS, 0.0)
    assert [(status.state, status.mode, status.mode_reason, status.slots) for status in said] == [
        ("RUNNING", "real-time", "it keeps no state", 3)
    ]
    keeper.tick(TOPICS, 0.1)
    assert [plan.text for plan in plans] == [""], "a start takes back what was told of an earlier one"
    query.handle.text = "== Physical Plan ==\nProject"
    keeper.tick(TOPICS, 0.2)
    assert len(plans) == 1, "Spark is asked once a second"
    keeper.tick(TOPICS, 1.2)
    keeper.tick(TOPICS, 2.4)
    assert [plan.text for plan in plans] == ["", "== Physical Plan ==\nProject"]

    query.handle.isActive = False
    keeper.tick(TOPICS, 3.0)
    assert said[-1].slots == 0
    keeper.tick(TOPICS, 10.0)
    assert plans[-1].text == ""


def test_a_query_that_is_outdated_starts_anew() -> None:
    query, said = Query(), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    keeper.tick(TOPICS, 0.0)
    first = query.handle
    keeper.tick(TOPICS, 0.1)
    query.reason = "the registry has it by now"
    keeper.tick(TOPICS, 0.2)
    assert first.isActive, "it is asked every few seconds"
    keeper.tick(TOPICS, 6.0)
    assert not first.isActive
    assert (said[-1].state, said[-1].message) == ("WAITING", "the registry has it by now")
    query.reason = ""
    keeper.tick(TOPICS, 6.1)
    assert (said[-1].state, query.handle.isActive) == ("RUNNING", True)


def test_who_cannot_tell_whether_it_is_outdated_runs_on() -> None:
    query, said = Query(), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    keeper.tick(TOPICS, 0.0)
    query.error = HeadraceError("log_unavailable", "The schema registry does not answer.")
    keeper.tick(TOPICS, 6.0)
    assert query.handle.isActive
    assert [status.state for status in said] == ["RUNNING"]


def test_one_that_fails_again_and_again_is_failing_even_while_it_runs() -> None:
    query, said = Query(), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    now = 0.0
    for failure in range(1, 4):
        keeper.tick(TOPICS, now)
        assert (said[-1].state, said[-1].is_failing) == ("RUNNING", failure > 2)
        query.handle.isActive = False
        keeper.tick(TOPICS, now + 1)
        assert (said[-1].state, said[-1].failures, said[-1].is_failing) == ("FAILED", failure, True)
        now += 100
    keeper.tick(TOPICS, now)
    assert (said[-1].state, said[-1].message) == ("RUNNING", "the query ended by itself")
    keeper.tick(TOPICS, now + 59)
    assert said[-1].is_failing
    keeper.tick(TOPICS, now + 61)
    assert (said[-1].state, said[-1].failures, said[-1].message) == ("RUNNING", 0, "")


def test_one_whose_long_batch_fails_again_and_again_is_failing() -> None:
    """Each of its runs lasts longer than a minute, but none gets anything done."""
    query, said = Query(), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    now = 0.0
    for failure in range(1, 4):
        keeper.tick(TOPICS, now)
        query.handle.is_at_work = True
        keeper.tick(TOPICS, now + 70)
        assert (said[-1].state, said[-1].failures) == ("RUNNING", failure - 1)
        query.handle.isActive = False
        keeper.tick(TOPICS, now + 80)
        now += 100
    keeper.tick(TOPICS, now)
    query.handle.is_at_work = True
    keeper.tick(TOPICS, now + 70)
    assert (said[-1].state, said[-1].is_failing) == ("RUNNING", True)
    query.handle.progress = object()
    keeper.tick(TOPICS, now + 71)
    assert (said[-1].state, said[-1].failures) == ("RUNNING", 0)


def test_whatever_happens_when_a_query_starts_ends_no_other() -> None:
    query, said = Query(), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    query.no_start = FileExistsError(17, "File exists")
    keeper.tick(TOPICS, 0.0)
    assert (said[-1].state, said[-1].failures) == ("FAILED", 1)
    assert "File exists" in said[-1].message
    query.no_start = None
    keeper.tick(TOPICS, 100.0)
    assert said[-1].state == "RUNNING"


class Recording:
    """Looks every two seconds, as those of `runs/recording.py` do."""

    def __init__(self) -> None:
        self.error: HeadraceError | None = None
        self.due = 0.0
        self.looks = 0

    def note(self, now: float) -> bool:
        if now < self.due:
            return False
        self.due = now + 2.0
        self.looks += 1
        if self.error is not None:
            raise self.error
        return True


def test_a_query_whose_commits_fail_runs_on_and_says_so() -> None:
    first, second = Recording(), Recording()

    class Recorded(Query):
        def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:  # noqa: ARG002 - of the interface
            handle: Any = self.handle
            return RunningQuery(handle, "real-time", remark="r", recordings=[first, second])

    query, said = Recorded(), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    keeper.tick(TOPICS, 0.0)
    first.error = HeadraceError("log_unavailable", "Topic `out` has no leader.")
    for now in (0.2, 0.4, 3.0, 3.2):
        keeper.tick(TOPICS, now)
    assert second.looks == 2, "one that fails does not keep others from committing"
    assert [(status.state, status.message) for status in said] == [
        ("RUNNING", "r"),
        ("RUNNING", f"Its commits cannot be written: {first.error}"),
    ]
    assert [status.uncommitted for status in said] == ["", str(first.error)]
    first.error = None
    for now in (4.0, 6.0, 6.2):
        keeper.tick(TOPICS, now)
    assert [(status.message, status.uncommitted) for status in said[2:]] == [("r", "")]
    assert query.handle.isActive


def test_a_log_that_does_not_make_one_query_s_topics_ends_no_other() -> None:
    class Making(Query):
        written_topics = ("out",)

        def make_topics(self, cluster: Cluster) -> None:  # noqa: ARG002 - of the interface
            raise HeadraceError("log_unavailable", "No answer about `out`.")

    said, nothing = list[QueryStatus](), None
    cluster: Any = nothing
    keeper = QueryKeeper(Making(), cluster=cluster, on_status=said.append, wall_clock_ms=lambda: 1)
    keeper.tick(TOPICS, 0.0)
    assert (said[-1].state, said[-1].message) == ("FAILED", "No answer about `out`.")


def test_a_query_waits_until_it_is_ready() -> None:
    class Unready(Query):
        why = "no schema yet"

        def unready(self, topics: Mapping[str, TopicIdentity]) -> str:
            assert "in" in topics
            return self.why

    query = Unready()
    said: list[QueryStatus] = []
    nowhere: Any = None
    keeper = QueryKeeper(query, cluster=nowhere, on_status=said.append, wall_clock_ms=lambda: 1)
    topics = {"in": TopicIdentity(name="in", topic_id="id", partitions=1)}
    keeper.tick(topics, 0.0)
    assert [(status.state, status.message) for status in said] == [("WAITING", "no schema yet")]
    query.why = ""
    # It is not asked at each tick.
    keeper.tick(topics, 0.5)
    assert keeper.running is None
    keeper.tick(topics, 1.0)
    assert keeper.running is not None
