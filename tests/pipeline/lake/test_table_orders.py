"""Orders for a table that a real query writes: merge its files, vacuum it, restore a version, rebuild a
partition. Rows are those of the topic afterwards, each once.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from headrace.connect.connectors.lake_sink.parsing import lake_sink_of
from headrace.connect.state.configs import ConnectorWish
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.sink import S3Storage
from headrace.lake.table_state import TableState
from headrace.lake.versions import versions_of
from headrace.pipeline.catalogue.lake_orders import Kind, LakeOrder
from headrace.pipeline.spark.lake import topic_values
from headrace.pipeline.spark.lake.table_orders import TableOrders
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.lake.topic_values import TopicValues
from headrace.pipeline.spark.turns import Turns
from headrace.testing import EmbeddedBroker
from tests.pipeline.plans.harness import SECONDS, Plans
from tests.s3_server import S3Server

CONFIG = {
    "connector.class": "headrace.LakeSinkConnector",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "kind",
    "errors.tolerance": "all",
}


class Numbers:
    """A topic of numbers, each even or odd, and the table of its sink, partitioned by that."""

    def __init__(self, plans: Plans, storage: S3Storage | None = None) -> None:
        self.plans = plans
        self.topic = plans.topic("numbers", partitions=2)
        settings = dataclasses.replace(plans.settings, lake_interval_ms=100)
        wish = ConnectorWish(name="sink", config={**CONFIG, "topics": self.topic}, config_version=1)
        sink = lake_sink_of(wish, settings)
        self.sink = sink if storage is None else dataclasses.replace(sink, storage=storage, topics_dir="t")
        self.orders = TableOrders(plans.spark, settings, cluster=plans.cluster)
        self.settings = settings
        query = self.query()
        query.make_topics(plans.cluster)
        self.location = query.location
        self.log = DeltaLog(query.location)
        self.sent = 0

    def query(self) -> TableQuery:
        values = TopicValues(
            self.sink, self.topic, cluster=self.plans.cluster, registry_at=lambda _: self.plans.registry
        )
        return TableQuery(
            self.plans.spark,
            self.sink,
            self.topic,
            self.settings,
            commits=self.plans.commits,
            turns=Turns(1),
            values=values,
        )

    def send(self, count: int, **more: Any) -> None:
        for number in range(self.sent, self.sent + count):
            value = {"n": number, "kind": ("even", "odd")[number % 2], **more}
            self.plans.cluster.produce(self.topic, str(number).encode(), json.dumps(value).encode())
        self.sent += count

    @contextmanager
    def running(self) -> Iterator[None]:
        query = self.query()
        topics = self.plans.cluster.lookup([self.topic, *query.written_topics])
        assert query.unready(topics) == ""
        run = query.start(topics)
        try:
            yield
        finally:
            run.stop()

    def wait(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while (found := self.counted()) != count:
            assert found < count, f"{found} rows instead of {count}"
            assert time.monotonic() < deadline, f"{found} rows"
            time.sleep(0.1)

    def counted(self) -> int:
        try:
            return sum(file.rows or 0 for file in TableState(self.log).files.values())
        except FileNotFoundError:
            return 0

    def write(self, *counts: int, **more: Any) -> None:
        """Each count is a commit, about."""
        present = self.counted()
        self.send(counts[0], **more)
        with self.running():
            self.wait(present := present + counts[0])
            for count in counts[1:]:
                self.send(count, **more)
                self.wait(present := present + count)

    def order(self, kind: Kind, **fields: Any) -> LakeOrder:
        order = LakeOrder(id="o", query="q", table="numbers", kind=kind, attempts=1, **fields)
        return self.orders.carry_out(order, self.query())

    def rows(self) -> list[Any]:
        frame = self.plans.spark.read.format("delta").load(self.location.uri)
        return sorted(frame.collect(), key=lambda row: int(row["n"]))

    def numbers(self) -> list[int]:
        return [row["n"] for row in self.rows()]

    def sql(self, statement: str) -> None:
        self.plans.spark.sql(statement.format(f"delta.`{self.location.uri}`"))

    def newest(self) -> int:
        return self.log.newest_version()

    def expire(self) -> None:
        """Everything that the topic has."""
        ends = self.plans.cluster.end_offsets(self.topic)
        places = [TopicPartition(self.topic, number, end) for number, end in ends.items()]
        admin = AdminClient({"bootstrap.servers": self.plans.bootstrap})
        for future in admin.delete_records(places).values():
            future.result(30)


@pytest.fixture
def plans(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Plans:
    return Plans(spark=spark, bootstrap=broker.bootstrap, folder=tmp_path)


@pytest.fixture
def table(plans: Plans) -> Numbers:
    return Numbers(plans)


@pytest.mark.long
def test_small_files_are_merged_and_vacuumed(table: Numbers) -> None:
    table.write(10, 10, 10)
    before = table.rows()
    files = len(TableState(table.log).files)
    assert files >= 6
    with pytest.raises(HeadraceError, match="has no partition kind=neither") as error:
        table.order("optimize", partition={"kind": "neither"})
    assert "kind=even" in error.value.remedy
    first = table.order("optimize", partition={"kind": "odd"})
    assert first.state == "DONE"
    assert first.result["files_added"] == 1
    second = table.order("optimize")
    assert (second.result["files_added"], second.result["files"]) == (1, 2)
    assert "nothing to merge" in table.order("optimize").message
    assert table.rows() == before

    with pytest.raises(HeadraceError, match="no longer be read or restored") as refused:
        table.order("vacuum", hours=1)
    assert "--force" in refused.value.remedy
    with pytest.raises(HeadraceError, match="Delta's log forgets"):
        table.order("vacuum", hours=169, is_forced=True)
    assert table.order("vacuum").result["files_deleted"] == 0
    dry = table.order("vacuum", hours=0, is_forced=True, is_dry_run=True)
    assert dry.result["files_deleted"] == files
    version = table.newest()
    assert table.order("vacuum", hours=0, is_forced=True).result["files"] == dry.result["files"]
    assert table.rows() == before
    assert table.log.damage() is None
    with pytest.raises(HeadraceError, match=r"were vacuumed or damaged, among them .*\.parquet"):
        table.order("restore", version=1)
    assert table.newest() == version
    # The table goes on.
    table.write(5)
    assert table.numbers() == list(range(35))


@pytest.mark.long
def test_a_version_is_restored_and_later_rows_come_back(table: Numbers) -> None:
    table.write(10)
    table.sql("DELETE FROM {} WHERE n = 3")
    restored = table.newest()
    table.write(10)
    table.sql("DELETE FROM {} WHERE n = 14")
    table.sql("ALTER TABLE {} ADD COLUMNS (LATER STRING)")
    answer = table.order("restore", version=restored)
    assert answer.state == "DONE"
    assert "Later rows come back from topic" in answer.message
    assert "(DELETE), are as before" in answer.message
    assert sum(each["end"] - each["first"] for each in answer.result["read_again"]) == 10
    assert [each["operation"] for each in answer.result["deletions_undone"]] == ["DELETE"]
    assert table.numbers() == [number for number in range(10) if number != 3]
    assert "LATER" not in table.rows()[0]
    assert table.log.damage() is None
    newest = versions_of(table.log, most=1)[0]
    assert (newest.operation, newest.restored, newest.rows) == ("RESTORE", restored, 9)
    assert newest.progress is not None
    assert sum(newest.progress.positions.offsets.values()) == 10
    # What was deleted before that version stays away, what was deleted after it comes back.
    with table.running():
        table.wait(19)
    assert table.numbers() == [number for number in range(20) if number != 3]
    # A process that ended before it could answer finds what it did.
    order = LakeOrder(id="o", query="q", table="numbers", kind="restore", version=restored, attempts=2)
    assert table.orders.carry_out(order, table.query()).result["new_version"] == newest.version
    assert len(table.numbers()) == 19


@pytest.mark.long
def test_what_expired_is_said_and_stays_away(table: Numbers) -> None:
    table.write(10)
    first = table.newest()
    table.write(10)
    before = table.newest()
    table.expire()
    stopping = dataclasses.replace(table.settings, pipeline_on_gap="stop")
    order = LakeOrder(id="o", query="q", table="numbers", kind="restore", version=first)
    with pytest.raises(HeadraceError, match="pipeline_on_gap is stop"):
        TableOrders(table.plans.spark, stopping, cluster=table.plans.cluster).carry_out(order, table.query())
    answer = table.order("restore", version=first)
    assert "Nothing is read again" in answer.message
    assert sum(each["end"] - each["first"] for each in answer.result["expired"]) == 10
    assert f"a restore of version {before}" in answer.message
    table.write(4)
    assert table.numbers() == [*range(10), *range(20, 24)]
    assert table.order("restore", version=before).state == "DONE"
    with table.running():
        table.wait(24)
    assert table.numbers() == list(range(24))


@pytest.mark.long
def test_a_partition_is_read_again_from_the_topic(table: Numbers) -> None:
    table.write(10, 10, note="good")
    whole = table.rows()
    # One row is deleted on purpose, others are spoiled; so are rows of another partition.
    table.sql("DELETE FROM {} WHERE n = 4")
    table.sql("UPDATE {} SET note = 'spoiled' WHERE n IN (2, 3, 6)")
    version = table.newest()
    answer = table.order("rebuild", partition={"kind": "even"})
    assert (answer.result["rows"], answer.result["version"]) == (9, version + 1)
    expected = [row for row in whole if row["n"] not in (3, 4)]
    assert [row for row in table.rows() if row["n"] != 3] == expected, "with coordinates and places"
    assert [row["note"] for row in table.rows() if row["n"] == 3] == ["spoiled"]
    assert table.log.damage() is None
    # Positions are as they were, so nothing is read again.
    table.write(4, note="later")
    assert table.numbers() == [number for number in range(24) if number != 4]

    with pytest.raises(HeadraceError, match="has no partition kind=neither"):
        table.order("rebuild", partition={"kind": "neither"})
    # A damaged file is replaced, if the log still has as many rows as the table counted.
    odd = next(file for file in TableState(table.log).files.values() if "kind=odd" in file.name)
    damaged = table.location.path / odd.name
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert table.order("rebuild", partition={"kind": "odd"}).result["rows"] == 12
    assert {row["note"] for row in table.rows() if row["n"] < 20} == {"good"}
    assert table.numbers() == [number for number in range(24) if number != 4]
    # There, a row that was deleted would come back: the files do not say which one it was.
    even = next(file for file in TableState(table.log).files.values() if "kind=even" in file.name)
    content = (table.location.path / even.name).read_bytes()
    (table.location.path / even.name).write_bytes(content[:100])
    newest = table.newest()
    with pytest.raises(HeadraceError, match="it has 11 rows, but 12 come out of the topic"):
        table.order("rebuild", partition={"kind": "even"})
    (table.location.path / even.name).write_bytes(content)
    table.expire()
    with pytest.raises(HeadraceError, match=r"all records of topic .* have expired"):
        table.order("rebuild", partition={"kind": "even"})
    table.send(2)
    with pytest.raises(
        HeadraceError, match=r"the record of its row at offset \d+ of partition 0 has expired"
    ):
        table.order("rebuild", partition={"kind": "even"})
    assert table.newest() == newest
    assert table.numbers() == [number for number in range(24) if number != 4]


@pytest.mark.long
def test_a_rebuild_knows_fields_that_only_old_records_have(
    table: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of JSON are found in the newest records, which need not have all."""
    table.write(4, old="x")
    table.write(4)
    monkeypatch.setattr(topic_values, "_SAMPLE", 1)
    assert table.order("rebuild", partition={"kind": "odd"}).result["rows"] == 4
    assert [row["old"] for row in table.rows()] == ["x"] * 4 + [None] * 4


@pytest.mark.long
def test_orders_in_a_bucket(plans: Plans, s3_server: S3Server) -> None:
    table = Numbers(plans, s3_server.new_bucket())
    table.write(6)
    restored = table.newest()
    table.write(6)
    assert table.order("optimize").result["files_added"] == 2
    assert table.order("rebuild", partition={"kind": "even"}).result["rows"] == 6
    assert table.order("vacuum", is_dry_run=True).result["files_deleted"] == 0
    table.order("restore", version=restored)
    assert table.numbers() == list(range(6))
    with table.running():
        table.wait(12)
    assert table.numbers() == list(range(12))


def test_a_table_that_does_not_exist_yet(table: Numbers) -> None:
    kinds: tuple[tuple[Kind, dict[str, Any]], ...] = (
        ("optimize", {}),
        ("vacuum", {}),
        ("restore", {"version": 0}),
        ("rebuild", {"partition": {"kind": "even"}}),
    )
    for kind, fields in kinds:
        with pytest.raises(HeadraceError, match="There is no table numbers") as error:
            table.order(kind, **fields)
        assert error.value.code == "no_such_table"
