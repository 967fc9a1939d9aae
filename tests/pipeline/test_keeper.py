"""What a keeper tells of its query: the mode and why, and Spark's plan once there is one. Starts no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.queries import RunningQuery
from headrace.pipeline.status import QueryStatus, SparkPlan
from headrace.pipeline.topics import TopicDirectory, TopicIdentity

TOPICS = {"in": TopicIdentity(name="in", topic_id="i", partitions=3)}


class Handle:
    """Spark's, as far as a keeper asks it."""

    def __init__(self) -> None:
        self.isActive = True
        self.text = "No physical plan. Waiting for data."
        self._jsq = self

    def explainInternal(self, _extended: bool) -> str:  # noqa: N802 - Spark's name
        return self.text

    def exception(self) -> None:
        return None


class Query:
    name = "CSAS_O_1"
    source_topics = ("in",)
    written_topics = ()

    def __init__(self) -> None:
        self.handle = Handle()

    def make_topics(self, directory: TopicDirectory) -> None: ...

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:  # noqa: ARG002 - of the interface
        self.handle = Handle()
        handle: Any = self.handle
        return RunningQuery(handle, "real-time", nullcontext(), mode_reason="it keeps no state")


def test_mode_and_spark_s_plan_are_told() -> None:
    query, said, plans = Query(), list[QueryStatus](), list[SparkPlan]()
    nothing: Any = None
    keeper = QueryKeeper(
        query, directory=nothing, on_status=said.append, wall_clock_ms=lambda: 1, on_plan=plans.append
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
