"""DescribeCluster, DescribeLogDirs and DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from headrace.wire.records import Record, build_batch
from tests.broker.asking import ask, open_broker

DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER = ALL[35], ALL[60]
DESCRIBE_TOPIC_PARTITIONS = ALL[75]
NOT_ASKED_FOR = -(2**31)


@pytest.mark.parametrize("version", range(3))
def test_cluster(broker: Broker, version: int) -> None:
    reply = ask(broker, DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=False)
    assert (reply.error_code.name, reply.error_message) == ("none", None)
    assert (reply.cluster_id, reply.controller_id) == (broker.cluster_id, 1)
    assert [(each.broker_id, each.host, each.port, each.rack) for each in reply.brokers] == [
        (1, "127.0.0.1", 9092, None)
    ]
    assert getattr(reply.brokers[0], "is_fenced", False) is False
    assert reply.cluster_authorized_operations == NOT_ASKED_FOR
    asked = ask(broker, DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
    assert asked.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            "mismatched_endpoint_type",
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        ),
        (7, "unsupported_endpoint_type", "Unsupported endpoint type 7"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_other_endpoints(broker: Broker, version: int, endpoint_type: int, code: str, message: str) -> None:
    reply = ask(broker, DESCRIBE_CLUSTER, version, endpoint_type=endpoint_type)
    assert (reply.error_code.name, reply.error_message) == (code, message)
    assert (reply.brokers, reply.cluster_id, reply.controller_id) == ((), "", -1)


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_of_partitions(broker: Broker, version: int) -> None:
    topic = broker.create_topic("a", 2, {})
    broker.create_topic("b", 1, {})
    batch = build_batch([Record(offset_delta=0, value=b"v" * 100)])
    topic.partitions[1].append(batch, now_ms=0)
    asked = [{"topic": "a", "partitions": [1, 0, 1, 9]}, {"topic": "nope", "partitions": [0]}]
    reply = ask(broker, DESCRIBE_LOG_DIRS, version, topics=asked)
    assert getattr(reply, "error_code", 0) == 0
    (folder,) = reply.results
    assert (folder.error_code.name, folder.log_dir) == ("none", str(broker.settings.data_dir))
    found = {
        each.name: [
            (part.partition_index, part.partition_size, part.offset_lag, part.is_future_key)
            for part in each.partitions
        ]
        for each in folder.topics
    }
    assert found == {"a": [(0, 0, 0, False), (1, len(batch), 0, False)]}
    if version >= 4:
        assert folder.total_bytes > folder.usable_bytes > 0
    assert getattr(folder, "is_cordoned", False) is False


def test_all_partitions_or_none(broker: Broker) -> None:
    broker.create_topic("a", 2, {})
    broker.create_topic("b", 1, {})
    everything = ask(broker, DESCRIBE_LOG_DIRS, 4, topics=None).results[0]
    assert {each.name: len(each.partitions) for each in everything.topics} == {"a": 2, "b": 1}
    assert ask(broker, DESCRIBE_LOG_DIRS, 4, topics=[]).results[0].topics == ()


def test_a_folder_that_cannot_be_looked_at(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("a", 1, {})

    def fail(_path: Any) -> None:
        raise OSError("gone")

    monkeypatch.setattr("headrace.broker.apis.api_35_describe_log_dirs.os.statvfs", fail)
    (folder,) = ask(broker, DESCRIBE_LOG_DIRS, 4, topics=None).results
    assert (folder.error_code.name, folder.topics, folder.total_bytes) == ("kafka_storage_error", (), -1)


def page(
    broker: Broker, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, str, list[int]]], tuple[str, int] | None]:
    reply = ask(
        broker,
        DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    topics = [
        (each.name, each.error_code.name, [part.partition_index for part in each.partitions])
        for each in reply.topics
    ]
    following = reply.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


def test_topics_with_all_about_them(broker: Broker) -> None:
    made = broker.create_topic("b", 1, {})
    broker.create_topic("a", 2, {})
    reply = ask(
        broker,
        DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in ("b", "nope", "bad name", "a", "b")],
        response_partition_limit=2000,
        cursor=None,
    )
    assert [(each.name, each.error_code.name) for each in reply.topics] == [
        ("a", "none"),
        ("b", "none"),
        ("bad name", "invalid_topic_exception"),
        ("nope", "unknown_topic_or_partition"),
    ]
    assert {each.topic_authorized_operations for each in reply.topics} == {3576}
    assert reply.topics[1].topic_id == made.id
    (partition,) = reply.topics[1].partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, made.partitions[0].leader_epoch)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ((1,), (1,), ())
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "found", "following"),
    [
        (["b", "a"], 2, None, [("a", "none", [0]), ("b", "none", [0])], ("b", 1)),
        (["b", "a"], 1, None, [("a", "none", [0])], ("b", 0)),
        (["b", "a"], 0, None, [("a", "none", [0])], ("b", 0)),
        (["b", "a"], 3, ("b", 1), [("b", "none", [1, 2, 3])], ("b", 4)),
        (["b", "a"], 3, ("b", 99), [("b", "none", [])], None),
        ([], 2, None, [("a", "none", [0]), ("b", "none", [0])], ("b", 1)),
        ([], 2000, ("b", 3), [("b", "none", [3, 4])], None),
        ([], 2000, ("aa", 3), [("b", "none", [0, 1, 2, 3, 4])], None),
        (["b", "a"], 3, ("c", 0), [("b", "invalid_request", []), ("a", "invalid_request", [])], None),
        (["b"], 3, ("b", -1), [("b", "invalid_request", [])], None),
    ],
)
def test_pages(
    broker: Broker,
    *,
    names: list[str],
    limit: int,
    cursor: tuple[str, int] | None,
    found: list[tuple[str, str, list[int]]],
    following: tuple[str, int] | None,
) -> None:
    broker.create_topic("a", 1, {})
    broker.create_topic("b", 5, {})
    assert page(broker, names, limit, cursor) == (found, following)


def test_the_broker_bounds_a_page(start: Callable[..., Broker]) -> None:
    broker = start(configs={"max.request.partition.size.limit": "2"})
    broker.create_topic("a", 5, {})
    assert page(broker, []) == ([("a", "none", [0, 1])], ("a", 2))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.integers(1, 6), max_size=5), limit=st.integers(-1, 9))
def test_pages_together_are_everything(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], limit: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("pages")
    broker = open_broker(folder)
    try:
        expected = []
        for number, count in enumerate(counts):
            broker.create_topic(f"t{number}", count, {})
            expected += [(f"t{number}", index) for index in range(count)]
        found: list[tuple[str, int]] = []
        topics, cursor = page(broker, [], limit)
        while True:
            found += [(name, index) for name, _, indexes in topics for index in indexes]
            if cursor is None:
                break
            topics, cursor = page(broker, [], limit, cursor)
        assert found == expected
    finally:
        broker.logs.close()
