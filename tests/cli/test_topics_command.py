"""`headrace topics` on a real log: what is in which partition, and how evenly."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.topics import skew
from headrace.core.errors import HeadraceError
from headrace.testing import EmbeddedBroker
from tests.query.records import create_topic, produce


def ask(broker: EmbeddedBroker, *arguments: str) -> str:
    address = ["--engine", "external", "--bootstrap-servers", broker.bootstrap]
    result = CliRunner().invoke(app, ["topics", *arguments, *address])
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture
def skewed(broker: EmbeddedBroker, topic_name: str) -> str:
    create_topic(broker.bootstrap, topic_name, partitions=4)
    produce(broker.bootstrap, topic_name, [{"value": b"x" * 100, "partition": 2} for _ in range(30)])
    produce(broker.bootstrap, topic_name, [{"value": b"x" * 100, "partition": 0} for _ in range(10)])
    return topic_name


def test_topics_with_offsets_bytes_and_skew(broker: EmbeddedBroker, skewed: str) -> None:
    rows = {row["topic"]: row for row in json.loads(ask(broker, "--json"))}
    row = rows[skewed]
    assert (row["partitions"], row["offsets"], row["skew"]) == (4, 40, 3.0)
    assert row["bytes"] > 4_000


def test_offsets_are_not_called_messages(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic_name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic_name, b"x")
    producer.commit_transaction(30)
    (row,) = json.loads(ask(broker, topic_name, "--json"))
    assert row["offsets"] == 4, "three messages, and the end of the transaction"
    assert "messages" not in row
    assert "messages" not in ask(broker, topic_name)


def test_the_partitions_of_one_topic(broker: EmbeddedBroker, skewed: str) -> None:
    rows = json.loads(ask(broker, skewed, "--json"))
    assert [row["offsets"] for row in rows] == [10, 0, 30, 0]
    assert [row["share"] for row in rows] == [0.25, 0.0, 0.75, 0.0]
    assert rows[2]["bytes"] > rows[0]["bytes"] > rows[1]["bytes"] == 0
    assert "75.0%" in ask(broker, skewed)


def test_a_topic_that_is_not_there_is_named(broker: EmbeddedBroker) -> None:
    with pytest.raises(HeadraceError, match="no topic `nowhere`"):
        ask(broker, "nowhere")


@pytest.mark.parametrize(
    ("amounts", "expected"), [([0, 0], 1.0), ([5, 5], 1.0), ([9, 0, 0], 3.0), ([1], 1.0)]
)
def test_skew_is_the_fullest_in_even_shares(amounts: list[int], expected: float) -> None:
    assert skew(amounts) == expected
