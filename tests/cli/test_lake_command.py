"""`headrace lake`: what it shows with and without a platform, and what it asks of the pipeline process."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.client.cluster import Cluster
from headrace.connect.state.configs import TOPIC, ConfigLog
from headrace.connect.state.logs import compacted_log
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.lake_orders import LakeOrder, OrderLog
from headrace.testing import EmbeddedBroker
from tests.lake.made_tables import MadeTable
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server


def ask(*arguments: str, given: str | None = None) -> str:
    result = CliRunner().invoke(app, ["lake", *arguments], input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def ask_json(*arguments: str) -> Any:
    return json.loads(ask(*arguments, "--json"))


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    made = MadeTable(tmp_path / "lake" / "events", partition="KIND")
    made.write([0, 1], value="a")
    made.write([2, 3, 4], value="b")
    made.commit("OPTIMIZE", [])
    return made


@pytest.fixture
def folder(table: MadeTable, tmp_path: Path) -> list[str]:
    assert table.log.exists
    return ["--data-dir", str(tmp_path)]


def test_tables_in_the_folder_without_a_platform(folder: list[str]) -> None:
    (found,) = ask_json("tables", *folder)
    assert (found["table"], found["rows"], found["files"], found["partitions"]) == ("events", 5, 2, 2)
    assert (found["version"], found["positions"], found["behind"]) == (3, {"0": 5}, None)
    assert found["connector"] is None
    text = CliRunner().invoke(app, ["lake", "tables", *folder])
    assert "events" in text.stdout
    assert "No platform is running" in text.stderr


def test_one_table_in_full(folder: list[str]) -> None:
    found = ask_json("show", "events", *folder)
    assert found["columns"] == [{"name": "A", "type": "string"}]
    assert found["partition_columns"] == ["KIND"]
    assert [each["values"] for each in found["partitions"]] == [{"KIND": "a"}, {"KIND": "b"}]
    assert [each["rows"] for each in found["partitions"]] == [2, 3]
    assert found["small_files"] == 2
    assert found["topic_id"] == "topic-id"
    text = ask("show", "events", *folder)
    assert "KIND=b" in text
    assert "positions: 0:5" in text


def test_versions(folder: list[str], table: MadeTable) -> None:
    table.commit("RESTORE", [], operationParameters={"version": 1})
    found = ask_json("history", "events", *folder)
    assert [each["version"] for each in found] == [4, 3, 2, 1, 0]
    assert [each["operation"] for each in found] == ["RESTORE", "OPTIMIZE", "WRITE", "WRITE", "CREATE TABLE"]
    assert [each["rows"] for each in found] == [5, 5, 5, 2, 0]
    assert [each["positions"] for each in found] == [None, None, {"0": 5}, {"0": 2}, None]
    assert (found[2]["files_added"], found[2]["rows_added"]) == (1, 3)
    assert found[0]["restored_version"] == 1
    assert found[3]["time"] == "1970-01-01T00:00:01Z"
    assert [each["version"] for each in ask_json("history", "events", "--limit", "2", *folder)] == [4, 3]
    assert "RESTORE of version 1" in ask("history", "events", *folder)
    Path(table.log.commit_file(3)).write_text("{", encoding="utf-8")
    found = ask_json("history", "events", *folder)
    assert found[1]["problem"] == "line 1 is not whole JSON"
    assert [each["rows"] for each in found] == [None, None, 5, 2, 0]


def refused(*arguments: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as error:
        ask(*arguments)
    return error.value


def test_what_is_wrong_is_said_with_a_remedy(folder: list[str], table: MadeTable) -> None:
    missing = refused("show", "nothing", *folder)
    assert (missing.code, "There is no table nothing" in str(missing)) == ("no_such_table", True)
    assert "headrace lake tables" in missing.remedy
    for order in (
        ["optimize", "events"],
        ["vacuum", "events"],
        ["rebuild", "events", "--partition", "KIND=a"],
        ["restore", "events", "--version", "1", "--yes"],
    ):
        absent = refused(*order, *folder)
        assert absent.code == "not_running"
        assert "headrace up" in absent.remedy
    assert "is not a partition" in str(refused("rebuild", "events", "--partition", "COLOR=a", *folder))
    assert "a version or a time" in str(refused("restore", "events", *folder))
    assert "a version or a time" in str(
        refused("restore", "events", "--version", "1", "--time", "x", *folder)
    )
    assert "Add --yes" in str(refused("restore", "events", "--version", "1", "--json", *folder))
    assert "is not a time" in str(refused("restore", "events", "--time", "noon", "--yes", *folder))
    assert "no version of that time" in str(refused("restore", "events", "--time", "1960-01-01", *folder))
    assert refused("restore", "events", "--version", "9", "--yes", *folder).code == "version_not_found"
    Path(table.log.commit_file(3)).write_text("{", encoding="utf-8")
    damaged = refused("show", "events", *folder)
    assert (damaged.code, "headrace lake repair events" in damaged.remedy) == ("lake_damaged", True)
    (listed,) = ask_json("tables", *folder)
    assert listed["problem"] == "line 1 is not whole JSON"
    assert "DAMAGED" in ask("tables", *folder)


def test_a_restore_is_explained_and_asked_for(folder: list[str]) -> None:
    answer = CliRunner().invoke(app, ["lake", "restore", "events", "--version", "1", *folder], input="n\n")
    assert answer.exit_code == 1
    assert "Table events goes back to version 1: 1 files leave it, 0 come back." in answer.stdout


class Pipeline:
    """Answers orders as the pipeline process would, and keeps them."""

    def __init__(self, bootstrap: str, answer: LakeOrder | None = None) -> None:
        self.answer = answer
        self.orders: list[LakeOrder] = []
        self._cluster = Cluster(bootstrap)
        self._log = OrderLog(self._cluster)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Pipeline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._log.close()
        self._cluster.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            order = self._log.begin_next()
            if order is None:
                self._stopping.wait(0.05)
                continue
            self.orders.append(order)
            self._log.write(dataclasses.replace(order, signs=1, message="half of it"))
            if order.kind == "vacuum":
                failed = order.failed("1 hours are less than lake_vacuum_hours. Give --force.")
                self._log.write(dataclasses.replace(failed, result={"error": "bad_request"}))
            else:
                self._log.write(order.done("It is done.", {"rows": 7}))


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def connect(bootstrap: str, name: str, config: dict[str, str]) -> None:
    log = ConfigLog(compacted_log(bootstrap, TOPIC))
    log.start()
    try:
        log.put(name, {"connector.class": "headrace.LakeSinkConnector", **config})
    finally:
        log.stop()


JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def test_orders_go_to_the_pipeline_process(folder: list[str], own_broker: EmbeddedBroker) -> None:
    log = [*folder, "--engine", "external", "--bootstrap-servers", own_broker.bootstrap]
    orphan = refused("optimize", "events", *log)
    assert orphan.code == "connector_not_found"
    assert "POST /connectors" in orphan.remedy
    connect(own_broker.bootstrap, "sink", {"topics": "events", **JSON})
    (found,) = ask_json("tables", *log)
    assert (found["table"], found["connector"], found["topic"]) == ("events", "sink", "events")
    with Pipeline(own_broker.bootstrap) as pipeline:
        assert ask("optimize", "sink.events", *log) == "It is done.\n"
        answer = ask_json("rebuild", "events", "--partition", "kind=b", *log)
        assert answer == {"table": "events", "order": "rebuild", "message": "It is done.", "rows": 7}
        ask("restore", "events", "--time", "1970-01-01T00:00:01.5", "--yes", *log)
        failed = refused("vacuum", "events", "--hours", "1", *log)
    assert (failed.code, "--force" in str(failed)) == ("bad_request", True)
    assert [order.query for order in pipeline.orders] == ["sink.events"] * 4
    optimize, rebuild, restore, vacuum = pipeline.orders
    assert (optimize.table, optimize.partition) == ("events", {})
    assert rebuild.partition == {"KIND": "b"}
    assert (restore.kind, restore.version) == ("restore", 1)
    assert (vacuum.hours, vacuum.is_dry_run, vacuum.is_forced) == (1, False, False)
    assert not OrderLog(Cluster(own_broker.bootstrap)).begin_next(), "answered wishes are removed"


def test_tables_of_the_same_name_and_in_buckets(
    folder: list[str], own_broker: EmbeddedBroker, s3_server: S3Server
) -> None:
    log = [*folder, "--engine", "external", "--bootstrap-servers", own_broker.bootstrap]
    storage = s3_server.new_bucket()
    cluster = Cluster(own_broker.bootstrap)
    cluster.create_topic("events", partitions=1)
    connect(own_broker.bootstrap, "local", {"topics": "events", **JSON})
    bucket = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "s3.bucket.name": storage.bucket,
        "s3.region": storage.region,
        "store.url": storage.endpoint,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "flush.size": "1000",
        "aws.access.key.id": ACCESS_KEY,
        "aws.secret.access.key": SECRET_KEY,
    }
    connect(own_broker.bootstrap, "remote", {"topics": "events", **JSON, **bucket})
    for file in (Path(folder[1]) / "lake" / "events").rglob("*"):
        if file.is_file():
            name = file.relative_to(Path(folder[1]) / "lake")
            s3_server.client.put_object(Bucket=storage.bucket, Key=f"topics/{name}", Body=file.read_bytes())
    several = refused("show", "events", *log)
    assert "2 tables have the name events" in str(several)
    assert "local.events, remote.events" in several.remedy
    output = ask("tables", "--json", *log)
    found = {each["connector"]: each for each in json.loads(output)}
    assert found["remote"]["location"] == f"s3://{storage.bucket}/topics/events"
    assert found["remote"]["rows"] == found["local"]["rows"] == 5
    assert SECRET_KEY not in output
    assert len(ask_json("history", "remote.events", *log)) == 4
    cluster.close()
