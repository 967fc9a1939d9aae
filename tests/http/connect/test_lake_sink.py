"""A lake sink over the REST API: its file is posted as it stands; the pipeline finds the wish in the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.connectors.lake_sink.parsing import is_lake_sink, lake_sink_of
from headrace.connect.state import configs
from headrace.connect.state.logs import compacted_log
from headrace.lake.sink import S3Storage
from headrace.testing import EmbeddedBroker
from tests.connect_process import ConnectProcess, running_connect

FILE = Path(__file__).parents[2] / "acceptance" / "s3-parquet-connector.json"
CLASS = "io.confluent.connect.s3.S3SinkConnector"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def connect(own_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectProcess]:
    with running_connect(tmp_path_factory.mktemp("connect"), own_broker.bootstrap) as process:
        yield process


def test_the_file_is_accepted_as_it_stands_and_the_log_has_the_wish(
    connect: ConnectProcess, own_broker: EmbeddedBroker
) -> None:
    posted = connect.client.post(
        "/connectors/", content=FILE.read_bytes(), headers={"Content-Type": "application/json"}
    )
    assert posted.status_code == 201, posted.text
    assert posted.json()["type"] == "sink"
    # Nothing here runs it; it waits for the pipeline.
    status = connect.ask("GET", "/connectors/s3-parquet-sink/status").json()
    assert status["connector"]["state"] == "UNASSIGNED"
    assert [task["state"] for task in status["tasks"]] == ["UNASSIGNED"]
    log = configs.ConfigLog(compacted_log(own_broker.bootstrap, configs.TOPIC))
    log.start()
    try:
        wish = log.wish("s3-parquet-sink")
    finally:
        log.stop()
    assert wish is not None
    assert is_lake_sink(wish.config)
    sink = lake_sink_of(wish, connect.settings)
    assert sink.partitioning.fields == ("EVENT_TYPE", "SERVER_DATE")
    assert isinstance(sink.storage, S3Storage)


def test_validate_names_every_setting_that_is_not_done(connect: ConnectProcess) -> None:
    config: dict[str, Any] = json.loads(FILE.read_bytes())["config"]
    config |= {
        "name": "n",
        "format.class": "com.example.MyFormat",
        "s3.wan.mode": "true",
    }
    config |= {"transforms": "a", "transforms.a.type": "com.example.Mine"}
    answer = connect.ask("PUT", f"/connector-plugins/{CLASS}/config/validate", config).json()
    wrong = {each["value"]["name"] for each in answer["configs"] if each["value"]["errors"]}
    assert wrong == {"format.class", "s3.wan.mode", "transforms.a.type"}
    assert answer["error_count"] == 3
    refused = connect.client.post("/connectors", json={"name": "n", "config": config})
    assert refused.status_code == 400
    assert "com.example.MyFormat" in refused.json()["message"]


def test_both_classes_are_listed_and_say_their_settings(connect: ConnectProcess) -> None:
    listed = {each["class"]: each["type"] for each in connect.ask("GET", "/connector-plugins").json()}
    assert listed[CLASS] == listed["headrace.LakeSinkConnector"] == "sink"
    settings = connect.ask("GET", "/connector-plugins/LakeSink/config").json()
    assert {"path.format", "json.column", "topics", "value.converter"} <= {each["name"] for each in settings}
