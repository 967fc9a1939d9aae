"""A table in a bucket: written by Spark, committed by us, read by everybody."""

from __future__ import annotations

import dataclasses
import json
import time
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pytest
from deltalake import DeltaTable
from pyarrow import dataset, fs
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.lake.coordinates import SourceCoordinates
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Reached
from headrace.lake.repairing import carry_out, plan_repair
from headrace.lake.sink import S3Storage
from headrace.pipeline.spark.s3a import s3a_settings, use_storage
from headrace.pipeline.spark.stateless import value_schema
from headrace.testing import EmbeddedBroker
from tests.example_plans import avro_plan, lake_sink
from tests.faulty_s3 import Failure, FaultyS3
from tests.pipeline.lake_harness import SCHEMA_ID, Lake
from tests.pipeline.records import Record, avro
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

SCHEMA = value_schema(avro_plan("events"))


def event(offset: int, *, kind: str = "View", date: str = "2026-03-14") -> Record:
    names = [field["name"] for field in json.loads(SCHEMA)["fields"]]
    given = {"USER_ID": f"user-{offset}", "EVENT_TYPE": kind, "SERVER_DATE": date}
    source = SourceCoordinates(query="q", topic_id="src", partition=0, offset=offset, ordinal=0)
    return Record(
        value=avro(SCHEMA, dict.fromkeys(names, None) | given, schema_id=SCHEMA_ID),
        offset=offset,
        partition=0,
        headers={"headrace-source": source.as_header(), "headrace-posted-at": b"1773489600000"},
    )


class Made:
    """Lakes in buckets, for one test."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker, folder: Path, topic: str) -> None:
        self.spark = spark
        self._topic = topic
        self._settings = dataclasses.replace(
            Settings(), data_dir=folder, engine="external", bootstrap_servers=broker.bootstrap
        )

    def lake(self, storage: S3Storage) -> Lake:
        sink = dataclasses.replace(lake_sink(self._settings), storage=storage, topics_dir="topics")
        return Lake(self.spark, self._settings, sink, schema=SCHEMA, dead_letter_topic=self._topic)


@pytest.fixture
def made(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> Made:
    return Made(spark, broker, tmp_path, topic_name)


def _users(lake: Lake) -> list[str]:
    rows = lake.spark.read.format("delta").load(lake.table.location.uri).collect()
    return sorted(row["USER_ID"] for row in rows)


def _options(storage: S3Storage) -> dict[str, str]:
    """For delta-rs."""
    return {
        "AWS_ENDPOINT_URL": storage.endpoint,
        "AWS_REGION": storage.region,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ALLOW_HTTP": "true",
    }


def _arrow(storage: S3Storage) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=storage.region,
        endpoint_override=storage.endpoint.removeprefix("http://"),
        scheme="http",
    )


def test_everybody_reads_the_table(made: Made, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    lake = made.lake(storage)
    lake.write(event(0), event(1, kind="Add To Cart/ü"))
    lake.write(event(2, date="2026-03-15"))
    assert _users(lake) == ["user-0", "user-1", "user-2"]

    table = DeltaTable(f"s3://{storage.bucket}/topics/events", storage_options=_options(storage))
    assert sorted(table.to_pyarrow_table()["USER_ID"].to_pylist()) == _users(lake)

    log = DeltaLog(lake.table.location)
    files = [unquote(action["add"]["path"]) for n in (1, 2) for action in log.actions(n) if "add" in action]
    assert sorted(file.rpartition("/")[0] for file in files) == [
        "EVENT_TYPE=Add To Cart%2Fü/SERVER_DATE=2026-03-14",
        "EVENT_TYPE=View/SERVER_DATE=2026-03-14",
        "EVENT_TYPE=View/SERVER_DATE=2026-03-15",
    ]
    root = f"{storage.bucket}/topics/events"
    arrow = dataset.dataset(
        [f"{root}/{file}" for file in files],
        filesystem=_arrow(storage),
        format="parquet",
        partitioning=dataset.partitioning(flavor="hive"),
        partition_base_dir=root,
    )
    assert sorted(arrow.to_table(columns=["USER_ID"])["USER_ID"].to_pylist()) == _users(lake)
    found = duckdb.sql("SELECT count(*), count(DISTINCT USER_ID) FROM arrow").fetchall()
    assert found == [(3, 3)]
    wanted = dataset.field("EVENT_TYPE") == "View"
    assert len(list(arrow.get_fragments(filter=wanted))) == 2, "one type is one folder"


@pytest.mark.long
def test_a_run_goes_on_and_checkpoints_are_written(
    made: Made, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "CHECKPOINT_INTERVAL", 2)
    lake = made.lake(s3_server.new_bucket())
    for number in range(4):
        lake.write(event(number))
    log = DeltaLog(lake.table.location)
    assert set(log.checkpoints()) == {2, 4}
    assert log.damage() is None
    lake.restart()
    assert lake.writer.progress.positions == Reached(topic_id="avroid", offsets={0: 4})
    lake.write(event(4))
    assert _users(lake) == [f"user-{number}" for number in range(5)]


@pytest.mark.long
def test_a_torn_commit_is_put_aside_and_read_again(made: Made, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    lake = made.lake(storage)
    lake.write(event(0))
    lake.write(event(1))
    location = lake.table.location
    key = DeltaLog(location).commit_file(2).key
    s3_server.client.put_object(Bucket=storage.bucket, Key=key, Body=b"")
    plan = plan_repair("events", location)
    assert plan is not None
    carry_out(plan, location)
    lake.restart()
    assert lake.writer.progress.positions == Reached(topic_id="avroid", offsets={0: 1})
    lake.write(event(1))
    assert _users(lake) == ["user-0", "user-1"]


@pytest.mark.long
def test_the_writer_goes_on_after_optimize_and_vacuum(made: Made, s3_server: S3Server) -> None:
    lake = made.lake(s3_server.new_bucket())
    for number in range(3):
        lake.write(event(number))
    table = f"delta.`{lake.table.location.uri}`"
    lake.spark.sql(f"OPTIMIZE {table}")
    lake.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        lake.spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    finally:
        lake.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    lake.write(event(3))
    assert _users(lake) == [f"user-{number}" for number in range(4)]
    assert DeltaLog(lake.table.location).damage() is None
    files = lake.spark.read.format("delta").load(lake.table.location.uri).inputFiles()
    assert len(files) == 2, "one of before, and a new one"


@pytest.mark.long
def test_buckets_of_several_servers_live_in_one_session(
    made: Made, s3_server: S3Server, faulty: FaultyS3
) -> None:
    one, other = s3_server.new_bucket(), s3_server.new_bucket()
    first, second = made.lake(one), made.lake(dataclasses.replace(other, endpoint=faulty.endpoint))
    first.write(event(0))
    second.write(event(1))
    assert (_users(first), _users(second)) == (["user-0"], ["user-1"])
    assert any(other.bucket in path for _, path in faulty.seen)
    assert not any(one.bucket in path for _, path in faulty.seen)


def test_new_credentials_of_a_bucket_are_used(made: Made, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    wrong = dataclasses.replace(storage, secret_key="wrong-but-secret-nevertheless")
    uri = f"s3a://{storage.bucket}/x"
    made.spark.range(0).write.format("noop").mode("overwrite").save()
    use_storage(made.spark, wrong)
    with pytest.raises(Exception, match=r"(?i)403|forbidden|signature") as refused:
        made.spark.read.text(uri)
    assert wrong.secret_key not in str(refused.value)
    use_storage(made.spark, storage)
    made.spark.range(3).write.parquet(uri)
    assert made.spark.read.parquet(uri).count() == 3


def test_credentials_come_from_the_usual_file(made: Made, s3_server: S3Server, tmp_path: Path) -> None:
    storage = dataclasses.replace(s3_server.new_bucket(), access_key="", secret_key="")
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    jvm = made.spark._jvm
    assert jvm is not None
    # What the environment variable says to a JVM that is not running yet.
    jvm.java.lang.System.setProperty("aws.sharedCredentialsFile", str(file))
    try:
        use_storage(made.spark, storage)
        uri = f"s3a://{storage.bucket}/x"
        made.spark.range(3).write.parquet(uri)
        assert made.spark.read.parquet(uri).count() == 3
    finally:
        jvm.java.lang.System.clearProperty("aws.sharedCredentialsFile")


def test_credentials_are_in_no_setting_of_spark(made: Made, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    assert SECRET_KEY in s3a_settings(storage).values()
    use_storage(made.spark, storage)
    shown = [str(made.spark.sparkContext.getConf().getAll()), str(made.spark.sql("SET -v").collect())]
    assert SECRET_KEY not in "".join(shown)
    assert SECRET_KEY not in repr(storage)
    assert ACCESS_KEY not in repr(storage)


@pytest.mark.parametrize(
    "failure", [Failure.UNAVAILABLE, Failure.DROP, Failure.UNAVAILABLE_AFTER, Failure.DROP_AFTER]
)
def test_a_put_that_fails_is_repeated(
    made: Made, s3_server: S3Server, faulty: FaultyS3, failure: Failure
) -> None:
    lake = made.lake(dataclasses.replace(s3_server.new_bucket(), endpoint=faulty.endpoint))
    lake.write(event(0))
    faulty.fail(failure, method="PUT", path=r"\.parquet$")
    faulty.fail(failure, method="PUT", path=r"2\.json$")
    lake.write(event(1))
    assert faulty.failed == 2
    assert _users(lake) == ["user-0", "user-1"]
    assert DeltaLog(lake.table.location).newest_version() == 2


@pytest.mark.long
def test_a_table_whose_creation_failed_is_created_by_the_next_run(
    made: Made, s3_server: S3Server, faulty: FaultyS3
) -> None:
    storage = dataclasses.replace(s3_server.new_bucket(), endpoint=faulty.endpoint)
    faulty.fail(Failure.UNAVAILABLE, method="PUT", path=r"0\.json$", times=-1)
    with pytest.raises(Exception, match="503"):
        made.lake(storage)
    faulty.heal()
    lake = made.lake(storage)
    lake.write(event(0))
    assert _users(lake) == ["user-0"]


def test_a_folder_with_other_files_is_refused(made: Made, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    s3_server.client.put_object(Bucket=storage.bucket, Key="topics/events/notes.txt", Body=b"mine")
    with pytest.raises(HeadraceError, match="is not empty, and no Delta table"):
        made.lake(storage)


@pytest.mark.long
@pytest.mark.parametrize("times", [1, pytest.param(-1, marks=pytest.mark.long)])
def test_a_checkpoint_that_fails_takes_no_rows_with_it(
    made: Made, s3_server: S3Server, faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    failure = Failure.DROP_AFTER if times == 1 else Failure.UNAVAILABLE
    monkeypatch.setattr(layout, "CHECKPOINT_INTERVAL", 2)
    lake = made.lake(dataclasses.replace(s3_server.new_bucket(), endpoint=faulty.endpoint))
    lake.write(event(0))
    faulty.fail(failure, method="PUT", path=r"checkpoint\.parquet$", times=times)
    with nullcontext() if times == 1 else pytest.raises(Exception, match="503"):
        lake.write(event(1))
    assert faulty.failed > 0
    faulty.heal()
    lake.restart()
    # The commit comes before its checkpoint.
    assert lake.writer.progress.positions == Reached(topic_id="avroid", offsets={0: 2})
    for number in range(2, 4):
        lake.write(event(number))
    assert _users(lake) == [f"user-{number}" for number in range(4)]
    log = DeltaLog(lake.table.location)
    assert set(log.checkpoints()) == ({2, 4} if times == 1 else {4})
    assert log.damage() is None


@pytest.mark.long
def test_a_commit_of_delta_that_overwrites_ours_is_noticed(
    made: Made, s3_server: S3Server, faulty: FaultyS3
) -> None:
    """Delta looks whether there is such a commit, and writes its own then."""
    lake = made.lake(dataclasses.replace(s3_server.new_bucket(), endpoint=faulty.endpoint))
    for number in range(2):
        lake.write(event(number))
    faulty.overtake(r"3\.json$", lambda: lake.write(event(2)) and None)
    lake.spark.sql(f"OPTIMIZE delta.`{lake.table.location.uri}`")
    with pytest.raises(HeadraceError, match="Somebody else changed table"):
        lake.write(event(3))
    lake.restart()
    assert lake.writer.progress.positions == Reached(topic_id="avroid", offsets={0: 2})
    lake.write(event(2), event(3))
    assert _users(lake) == [f"user-{number}" for number in range(4)]


@pytest.mark.long
def test_a_server_that_hangs_is_an_error_in_time(made: Made, s3_server: S3Server, faulty: FaultyS3) -> None:
    storage = dataclasses.replace(s3_server.new_bucket(), endpoint=faulty.endpoint)
    lake = made.lake(storage)
    lake.write(event(0))
    faulty.fail(Failure.HANG, times=-1)
    began = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)time"):
        lake.write(event(1))
    assert time.monotonic() - began < 240
    faulty.heal()
    lake.restart()
    lake.write(event(1))
    assert _users(lake) == ["user-0", "user-1"]
