"""A client for Kafka Connect that was written elsewhere, kafka-connect-py, drives the REST API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_connect import KafkaConnect

from tests.lake_connectors import PLAIN_JSON, Connectors
from tests.running_platform import Platform, wait_for


@pytest.fixture
def connectors(platform: Platform) -> Iterator[Connectors]:
    created = Connectors(platform)
    try:
        yield created
    finally:
        created.close()


def test_kafka_connect_py_has_a_connector_from_its_creation_to_its_end(connectors: Connectors) -> None:
    client = KafkaConnect(url=connectors.url.removesuffix("/connectors"))
    assert {"version", "commit", "kafka_cluster_id"} <= client.get_cluster_info().keys()
    classes = {plugin["class"] for plugin in client.list_connector_plugins()}
    assert {"headrace.LakeSinkConnector", "io.confluent.connect.s3.S3SinkConnector"} <= classes
    topic = connectors.topic("client")
    name = f"{topic}-sink"
    config = {"connector.class": "headrace.LakeSinkConnector", "topics": topic, **PLAIN_JSON}
    checked = client.validate_connector_config("LakeSinkConnector", {**config, "name": name})
    assert checked["error_count"] == 0

    assert client.create_connector({"name": name, "config": config})["name"] == name
    connectors.send(topic, [{"n": 1}])
    assert connectors.wait_rows(connectors.table(topic), 1) == [{"n": 1}]
    assert client.get_connector_config(name)["topics"] == topic
    assert client.get_connector(name)["type"] == "sink"
    assert [task["id"]["task"] for task in client.list_connector_tasks(name)] == [0]
    _wait(client, name, "RUNNING")
    assert client.get_connector_task_status(name, 0)["state"] == "RUNNING"
    client.pause_connector(name)
    _wait(client, name, "PAUSED")
    assert name in client.list_connectors(expand="status", state="PAUSED")
    client.resume_connector(name)
    _wait(client, name, "RUNNING")
    client.restart_connector(name, include_tasks=True)
    client.restart_connector_task(name, 0)
    updated = client.update_connector(name, {**config, "flush.size": "500"})
    assert updated["config"]["flush.size"] == "500"
    connectors.send(topic, [{"n": 2}])
    assert connectors.wait_rows(connectors.table(topic), 2) == [{"n": 1}, {"n": 2}]
    client.stop_connector(name)
    _wait(client, name, "STOPPED")
    client.delete_connector(name)
    assert name not in client.list_connectors()


def _wait(client: KafkaConnect, name: str, state: str) -> None:
    wait_for(
        lambda: client.get_connector_status(name)["connector"]["state"] == state,
        f"{name} is {state}",
        seconds=60,
    )
