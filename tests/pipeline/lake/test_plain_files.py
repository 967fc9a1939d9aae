"""Plain files: what each format has, how the files are named, and that everybody reads them."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest
from pyarrow import dataset, parquet
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.plain_log import PLAIN_FOLDER, STAGING, PlainLog
from headrace.lake.sink import FileFormat, Partitioning, PlainStyle, S3Storage
from headrace.lake.storage.opening import files_at
from headrace.lake.storage.table_files import Publication
from headrace.lake.types import Field, Simple, Struct
from tests.pipeline.lake.plain_lake import COLUMNS, MadeTopic, PlainLake, plain_sink
from tests.pipeline.records import Record
from tests.s3_server import S3Server

FORMATS = [FileFormat.PARQUET, FileFormat.AVRO, FileFormat.JSON]


def order(offset: int, *, partition: int = 0, kind: str | None = "view") -> Record:
    value = {"id": 10 * offset + partition, "kind": kind, "at": f"2026-03-14T10:00:00.{offset:06d}Z"}
    return Record(value=json.dumps(value).encode(), offset=offset, partition=partition)


def derived(offset: int) -> Record:
    """As a statement writes it."""
    return dataclasses.replace(order(offset), headers={"headrace-source": b"q/source/0/1/0"})


def stored(lake: PlainLake) -> list[int]:
    """The ids in all files that a reader finds, in a folder or a bucket."""
    files = [file.name for file in lake.log.files.below("") if file.name.endswith(".parquet")]
    tables = [parquet.read_table(io.BytesIO(lake.log.files.read(name))) for name in files]
    return sorted(each for table in tables for each in table["id"].to_pylist())


def names(lake: PlainLake) -> list[str]:
    """The files of the table, without its log."""
    folder = lake.location.path
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith(PLAIN_FOLDER))


def records(path: Path) -> list[dict[str, Any]]:
    if path.name.endswith(".parquet"):
        return dataset.dataset(path).to_table().to_pylist()
    if path.name.endswith(".avro"):
        with path.open("rb") as content:
            return list(fastavro.reader(content))
    text = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_is_named_by_its_partition_and_first_offset(
    spark: SparkSession, tmp_path: Path, file_format: FileFormat
) -> None:
    lake = PlainLake(spark, plain_sink(tmp_path / "lake", file_format), tmp_path)
    assert lake.write([order(0), order(1), order(7, partition=1)]).rows == 3
    lake.restart()
    assert lake.write([order(2)]).rows == 1
    ending = file_format.value
    expected = [
        f"partition=0/orders+0+0000000000.{ending}",
        f"partition=0/orders+0+0000000002.{ending}",
        f"partition=1/orders+1+0000000007.{ending}",
    ]
    assert names(lake) == expected
    found = [records(lake.location.path / name) for name in expected]
    assert [[row["id"] for row in rows] for rows in found] == [[0, 10], [20], [71]]
    assert {tuple(row) for rows in found for row in rows} == {("id", "kind", "at")}
    assert "10:00:00.000001" in str(found[0][1]["at"])
    assert not list((tmp_path / "lake" / "topics" / STAGING / "orders").iterdir())


def test_files_have_at_most_as_many_rows_as_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    sink = dataclasses.replace(
        plain_sink(tmp_path, FileFormat.JSON, codec="gzip", flush_size=3),
        plain_style=PlainStyle(delimiter="-", offset_digits=3),
    )
    lake = PlainLake(spark, sink, tmp_path)
    assert lake.write([order(offset) for offset in range(7)]).rows == 7
    # A hole: nobody knows the first offset of the second file.
    lake.write([order(offset) for offset in (7, 8, 10, 11)])
    assert names(lake) == [
        "partition=0/orders-0-000.json.gz",
        "partition=0/orders-0-003.json.gz",
        "partition=0/orders-0-006.json.gz",
        "partition=0/orders-0-007.json.gz",
        "partition=0/orders-0-007_00001.json.gz",
    ]
    found = [[row["id"] // 10 for row in records(lake.location.path / name)] for name in names(lake)]
    assert found == [[0, 1, 2], [3, 4, 5], [6], [7, 8, 10], [11]]
    log = PlainLog(lake.location)
    rows = [json.loads(each["add"]["stats"])["numRecords"] for each in log.actions(1) if "add" in each]
    assert sorted(rows) == [1, 3, 3]


def test_bytes_are_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    values = [bytes(range(256)), b"", b"\xff\xfe", "ü\n".encode()]
    sink = dataclasses.replace(
        plain_sink(tmp_path, FileFormat.BYTES),
        plain_style=PlainStyle(bytes_ending=".raw", bytes_separator="|\r\n"),
    )
    lake = PlainLake(spark, sink, tmp_path)
    lake.write([Record(value=value, offset=number) for number, value in enumerate(values)])
    (name,) = names(lake)
    assert name == "partition=0/orders+0+0000000000.raw"
    assert (lake.location.path / name).read_bytes() == b"".join(value + b"|\r\n" for value in values)


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_in_folders_of_fields_mix_partitions(
    spark: SparkSession, tmp_path: Path, file_format: FileFormat
) -> None:
    sink = dataclasses.replace(plain_sink(tmp_path, file_format), partitioning=Partitioning(fields=("kind",)))
    lake = PlainLake(spark, sink, tmp_path)
    lake.write([order(0), order(1, partition=1), order(1, kind="a/b"), order(2, kind=None)])
    lake.write([order(3), order(4, kind="new")])
    ending = file_format.value
    nothing = "kind=__HIVE_DEFAULT_PARTITION__"
    assert names(lake) == sorted(
        [
            f"{nothing}/orders+v0000000001+00000.{ending}",
            f"kind=a%2Fb/orders+v0000000001+00001.{ending}",
            f"kind=view/orders+v0000000001+00002.{ending}",
            f"kind=view/orders+v0000000002+00000.{ending}",
            f"kind=new/orders+v0000000002+00001.{ending}",
        ]
    )
    (name,) = (name for name in names(lake) if name.startswith("kind=view/orders+v0000000001"))
    mixed = records(lake.location.path / name)
    assert sorted(row["id"] for row in mixed) == [0, 11]
    # Parquet has it in the folder only, as Hive's readers expect; others read single files.
    assert ("kind" in mixed[0]) == (file_format is not FileFormat.PARQUET)


def test_everybody_reads_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    sink = dataclasses.replace(
        plain_sink(tmp_path, FileFormat.PARQUET, codec="zstd"), partitioning=Partitioning(fields=("kind",))
    )
    lake = PlainLake(spark, sink, tmp_path)
    lake.write([order(0), order(1, kind="buy")])
    lake.write([order(2)])
    folder = lake.location.path
    expected = [(0, "view"), (10, "buy"), (20, "view")]
    by_arrow = dataset.dataset(folder, partitioning="hive").to_table(columns=["id", "kind"]).to_pylist()
    assert sorted((row["id"], row["kind"]) for row in by_arrow) == expected
    assert (
        str(dataset.dataset(folder, partitioning="hive").schema.field("at").type) == "timestamp[us, tz=UTC]"
    )
    query = f"SELECT id, kind FROM read_parquet('{folder}/**/*.parquet') ORDER BY id"
    assert duckdb.sql(query).fetchall() == expected
    by_spark = spark.read.parquet(str(folder)).select("id", "kind").collect()
    assert sorted(tuple(row) for row in by_spark) == expected
    # With the log: exactly the files of a version.
    files = duckdb.sql(
        f"SELECT add.path FROM read_ndjson_auto('{folder}/{PLAIN_FOLDER}/*.commit') WHERE add IS NOT NULL"
    ).fetchall()
    assert sorted(path for (path,) in files) == names(lake)


def test_a_new_partition_of_the_topic_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    lake = PlainLake(spark, plain_sink(tmp_path, FileFormat.JSON), tmp_path)
    with pytest.raises(HeadraceError, match="has got more partitions"):
        lake.write([order(0), order(0, partition=2)])
    assert names(lake) == []


def test_new_columns_are_in_new_files(spark: SparkSession, tmp_path: Path) -> None:
    sink = plain_sink(tmp_path, FileFormat.AVRO)
    lake = PlainLake(spark, sink, tmp_path, columns=Struct(fields=COLUMNS.fields[:2]))
    lake.write([order(0)])
    more = PlainLake(spark, sink, tmp_path)
    assert more.progress.positions.offsets[0] == 1
    more.write([order(1)])
    found = [records(more.location.path / name) for name in names(more)]
    assert [list(row) for rows in found for row in rows] == [["id", "kind"], ["id", "kind", "at"]]


def test_other_formats_and_folders_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = plain_sink(tmp_path, FileFormat.JSON)
    PlainLake(spark, sink, tmp_path).write([order(0)])
    with pytest.raises(HeadraceError, match="has json files, the connector asks for avro"):
        PlainLake(spark, dataclasses.replace(sink, file_format=FileFormat.AVRO), tmp_path)
    by_kind = dataclasses.replace(sink, partitioning=Partitioning(fields=("kind",)))
    with pytest.raises(HeadraceError, match="partitioned by partition, the connector asks for kind"):
        PlainLake(spark, by_kind, tmp_path)


def test_names_that_avro_does_not_have_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    columns = Struct(fields=(Field(name="a-b", type=Simple.STRING),))
    with pytest.raises(HeadraceError, match="Avro files cannot have the field 'a-b'"):
        PlainLake(spark, plain_sink(tmp_path, FileFormat.AVRO), tmp_path, columns=columns)


def test_a_topic_that_came_back_shorter_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = PlainLake(spark, plain_sink(tmp_path, FileFormat.JSON), tmp_path)
    lake.write([order(0), order(1)])
    lake.write([order(2), order(3)])
    # The last record is gone, so that the run reads from the commit before.
    lake.restart(MadeTopic(ends={0: 3}))
    assert lake.progress.positions.offsets[0] == 2
    written = lake.write([order(2), order(9)])
    assert (written.rows, written.repeated) == (1, 0)
    lake.restart(MadeTopic(ends={0: 10}))
    found = [row["id"] for name in names(lake) for row in records(lake.location.path / name)]
    assert sorted(found) == [0, 10, 20, 30, 90]


def test_derived_records_are_refused_where_nothing_can_decide(spark: SparkSession, tmp_path: Path) -> None:
    lake = PlainLake(spark, plain_sink(tmp_path, FileFormat.JSON), tmp_path)
    lake.write([order(0), derived(1)])
    lake.restart(MadeTopic(topic_id="another"))
    assert lake.progress.positions.offsets == {0: 0, 1: 0}
    # Somebody's own record is another one, whatever its offset is.
    assert lake.write([order(0)]).rows == 1
    with pytest.raises(HeadraceError, match="derived by a statement") as raised:
        lake.write([order(1), derived(2)])
    assert "table.format=delta" in raised.value.remedy
    lake.restart(MadeTopic(topic_id="another"))
    with pytest.raises(HeadraceError, match="derived by a statement"):
        lake.write([derived(1)])
    assert lake.write([order(1)]).rows == 1
    # The names of the former topic's files are taken.
    assert names(lake) == [
        "partition=0/orders+0+0000000000.json",
        "partition=0/orders+0+0000000000_v0000000002.json",
        "partition=0/orders+0+0000000001_v0000000003.json",
    ]


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | S3Storage:
    if request.param == "folder":
        return tmp_path / "lake"
    server: S3Server = request.getfixturevalue("s3_server")
    return server.new_bucket()


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_what_was_committed_is_published_by_the_next_run(
    spark: SparkSession,
    tmp_path: Path,
    place: Path | S3Storage,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run ends between the commit and the names of its files, or behind the first name."""
    lake = PlainLake(spark, plain_sink(place, FileFormat.PARQUET, codec="snappy"), tmp_path)
    lake.write([order(0), order(0, partition=1)])
    kind = type(lake.log.files)
    publish = kind.publish

    def crash(files: Any, wanted: Iterable[Publication]) -> None:
        if moment == "behind":
            publish(files, list(wanted)[:1])
        raise OSError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(kind, "publish", crash)
        with pytest.raises(OSError, match="power"):
            lake.write([order(1), order(1, partition=1)])
    assert stored(lake) == [0, 1] if moment == "before" else [0, 1, 10]
    lake.restart()
    assert lake.progress.positions.offsets == {0: 2, 1: 2}
    assert stored(lake) == [0, 1, 10, 11]
    lake.write([order(2)])
    assert stored(lake) == [0, 1, 10, 11, 20]
    beside = files_at(lake.location.parent)
    assert list(beside.below(f"{STAGING}/orders")) == []
    assert {file.name for file in beside.below("orders") if PLAIN_FOLDER not in file.name} == {
        "orders/partition=0/orders+0+0000000000.snappy.parquet",
        "orders/partition=0/orders+0+0000000001.snappy.parquet",
        "orders/partition=0/orders+0+0000000002.snappy.parquet",
        "orders/partition=1/orders+1+0000000000.snappy.parquet",
        "orders/partition=1/orders+1+0000000001.snappy.parquet",
    }


def test_a_name_that_somebody_else_has_ends_the_run_without_a_commit(
    spark: SparkSession, tmp_path: Path, place: Path | S3Storage
) -> None:
    lake = PlainLake(spark, plain_sink(place, FileFormat.JSON), tmp_path)
    lake.log.files.make_folder("partition=0")
    lake.log.files.replace("partition=0/orders+0+0000000000.json", b"theirs")
    with pytest.raises(HeadraceError, match=r"orders\+0\+0000000000.json: there is one"):
        lake.write([order(0)])
    assert lake.log.newest_version() == 0
