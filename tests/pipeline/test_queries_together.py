"""Several Spark queries as one: what is told of the one that failed."""

from __future__ import annotations

from typing import cast

from pyspark.sql.streaming.query import StreamingQuery

from headrace.pipeline.spark.running_query import together


class Handle:
    """A query that fails, as Spark's do, if a stop interrupts its batch."""

    def __init__(self, *, failure: str = "") -> None:
        self.failure = failure

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not self.failure

    def exception(self) -> Exception | None:
        return RuntimeError(self.failure) if self.failure else None

    def stop(self) -> None:
        self.failure = self.failure or "interrupted"


def test_the_reason_is_that_of_the_one_that_failed_and_not_of_those_stopped_for_it() -> None:
    first, second = Handle(), Handle()
    both = together([cast(StreamingQuery, each) for each in (first, second)])
    assert both.isActive
    second.failure = "a new schema"
    assert not both.isActive
    assert not first.isActive
    assert str(both.exception()) == "a new schema"
    assert not both.isActive
    assert str(both.exception()) == "a new schema"
