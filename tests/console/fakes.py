"""Services that answer from memory, with the values of `headrace.query`: the console sees no difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from headrace.core.errors import HeadraceError
from headrace.core.histogram import Percentiles
from headrace.http.query.app import QueryServices
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.query.flow import FlowNames, FlowSnapshot
from headrace.query.sql import QueryResult
from headrace.query.topics import Message, PartitionDescription, TopicDescription

SCRIPT = "<script>alert('gotcha')</script>"


def topic(name: str, *latest: int) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(partition=number, earliest=0, latest=offset)
        for number, offset in enumerate(latest)
    )
    return TopicDescription(name=name, topic_id="3Zk0c9mDQ8uJ1x5vX0qg5A", partitions=partitions)


def message(value: object, *, offset: int = 0, **changes: Any) -> Message:
    plain = Message(
        partition=0,
        offset=offset,
        timestamp_ms=1_700_000_000_123,
        key="user-1",
        value=value,
        headers={},
        format="json",
    )
    return replace(plain, **changes)


class FakeServices:
    """Set what the services are to answer; `services` is what the console is given."""

    def __init__(self) -> None:
        self.flow = FlowSnapshot(
            accepted=1200,
            avro=1150,
            dead_letters=30,
            lake=1100,
            avro_latency=Percentiles(p50=3.2, p90=9.1, p99=48.0, count=1150),
            latency=Percentiles(p50=650.0, p90=1130.0, p99=1840.0, count=1100),
            queries=(
                QueryStatus(
                    query="events_to_avro",
                    state="RUNNING",
                    mode="real-time",
                    message="",
                    at=1_700_000_000_000,
                    batch=3,
                    rows=1150,
                ),
            ),
        )
        self.topics = [topic("events", 700, 500), topic("events_avro", 1150), topic("_schemas", 1)]
        self.messages: dict[str, list[Message]] = {}
        self.answer = QueryResult(columns=("n",), types=("BIGINT",), rows=((1,),))
        self.failure: Exception | None = None
        self.reads_of_messages = 0

    def make_empty(self) -> None:
        """As on a platform that has just started."""
        nothing = Percentiles(p50=None, p90=None, p99=None, count=0)
        self.flow = FlowSnapshot(
            accepted=0, avro=0, dead_letters=0, lake=0, avro_latency=nothing, latency=nothing, queries=()
        )
        self.topics = []

    def change_queries(self, **changes: Any) -> None:
        queries = tuple(replace(query, **changes) for query in self.flow.queries)
        self.flow = replace(self.flow, queries=queries)

    @property
    def services(self) -> QueryServices:
        return QueryServices(
            sql=cast(Any, _Sql(self)), topics=cast(Any, _Topics(self)), flow=cast(Any, _Flow(self))
        )


class _Flow:
    names = FlowNames(events="events", avro="events_avro", dead_letters="events_dlq")

    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def snapshot(self) -> FlowSnapshot:
        return self._fake.flow


class _Topics:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def topics(self) -> list[TopicDescription]:
        if self._fake.failure is not None:
            raise self._fake.failure
        return self._fake.topics

    def newest(self, topic: str, limit: int) -> list[Message]:
        self._fake.reads_of_messages += 1
        return self._fake.messages.get(topic, [])[:limit]


class _Sql:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def run(self, sql: str) -> QueryResult:
        if "missing" in sql:
            raise HeadraceError("query_failed", f"There is no table in: {sql}", remedy="Ask for `events`.")
        return self._fake.answer
