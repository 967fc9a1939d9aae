"""Which derived topics are synced with each record: statements set it, unless an operator has chosen."""

from __future__ import annotations

import uuid

import pytest

from headrace.client.cluster import Cluster
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session

SYNCED = "1"


@pytest.fixture
def events(service: StatementService, cluster: Cluster) -> str:
    """A stream on a topic that no query writes."""
    name = f"E{uuid.uuid4().hex[:12]}".upper()
    cluster.create_topic(name, partitions=1)
    run(
        service,
        f"CREATE STREAM {name} (k VARCHAR KEY, a INTEGER) WITH (kafka_topic='{name}', value_format='JSON');",
    )
    return name


def run(service: StatementService, text: str) -> list[str]:
    """The warnings of the last statement."""
    answer = service.execute(text, Session(properties={}))[-1]
    return [warning["message"] for warning in answer.get("warnings", ())]


def is_synced(cluster: Cluster, topic: str) -> bool:
    return cluster.topic_config(topic)["flush.messages"] == SYNCED


def test_a_topic_between_two_queries(service: StatementService, cluster: Cluster, events: str) -> None:
    first, second = f"{events}_1", f"{events}_2"
    assert run(service, f"CREATE STREAM {first} AS SELECT * FROM {events};") == []
    assert not is_synced(cluster, first), "nobody reads it yet"
    assert run(service, f"CREATE STREAM {second} AS SELECT * FROM {first};") == []
    assert is_synced(cluster, first)
    assert not is_synced(cluster, events), "no query writes it"
    assert not is_synced(cluster, second), "no query reads it"


def test_a_topic_that_is_read_before_a_query_writes_it(
    service: StatementService, cluster: Cluster, events: str
) -> None:
    other, derived = f"{events}_O", f"{events}_D"
    run(
        service,
        f"CREATE STREAM {other} (k VARCHAR KEY, a INTEGER) "
        f"WITH (kafka_topic='{other}', value_format='JSON', partitions=1);"
        f"CREATE STREAM {derived} AS SELECT * FROM {other};",
    )
    assert not is_synced(cluster, other)
    assert run(service, f"INSERT INTO {other} SELECT * FROM {events};") == []
    assert is_synced(cluster, other)


def test_another_stream_on_the_same_topic(service: StatementService, cluster: Cluster, events: str) -> None:
    first, alias = f"{events}_1", f"{events}_A"
    run(
        service,
        f"CREATE STREAM {first} AS SELECT * FROM {events};"
        f"CREATE STREAM {alias} (k VARCHAR KEY, a INTEGER) "
        f"WITH (kafka_topic='{first}', value_format='JSON');"
        f"CREATE STREAM {events}_2 AS SELECT * FROM {alias};",
    )
    assert is_synced(cluster, first)


def test_a_query_that_reads_what_it_writes(service: StatementService, cluster: Cluster, events: str) -> None:
    alias = f"{events}_A"
    run(
        service,
        f"CREATE STREAM {alias} (k VARCHAR KEY, a INTEGER) "
        f"WITH (kafka_topic='{events}', value_format='JSON');"
        f"INSERT INTO {alias} SELECT k, a + 1 AS a FROM {events} WHERE a < 3;",
    )
    assert is_synced(cluster, events)


def test_dead_letters_that_a_query_reads(service: StatementService, cluster: Cluster, events: str) -> None:
    letters = f"{events}_dlq"
    run(
        service,
        f"CREATE STREAM {events}_L (t VARCHAR) "
        f"WITH (kafka_topic='{letters}', value_format='KAFKA', partitions=1);"
        f"CREATE STREAM {events}_2 AS SELECT * FROM {events}_L;",
    )
    assert is_synced(cluster, letters)


def test_the_topic_of_a_query_with_state(service: StatementService, cluster: Cluster, events: str) -> None:
    """Also if it exists before."""
    counts, others = f"{events}_C", f"{events}_X"
    cluster.create_topic(others, partitions=1, config={"cleanup.policy": "compact"})
    for name in (counts, others):
        run(service, f"CREATE TABLE {name} AS SELECT k, COUNT(*) AS n FROM {events} GROUP BY k EMIT CHANGES;")
        assert is_synced(cluster, name)


def test_what_an_operator_has_set_stays(service: StatementService, cluster: Cluster, events: str) -> None:
    first = f"{events}_1"
    run(service, f"CREATE STREAM {first} AS SELECT * FROM {events};")
    cluster.configure_topic(first, {"flush.messages": "1000"})
    (warning,) = run(service, f"CREATE STREAM {events}_2 AS SELECT * FROM {first};")
    assert warning == (
        f"Topic '{first}' is not synced with each record (it has flush.messages=1000). After a power "
        "failure, what is derived from it may be repeated. flush.messages=1 on that topic prevents it."
    )
    assert cluster.topic_config(first)["flush.messages"] == "1000"
