"""Files of a table are merged while it is written and read: rows stay, positions stay, nobody waits."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.location import Location
from headrace.lake.merging import Merge, plan_merges
from headrace.lake.partition_dates import Expiry
from headrace.lake.positions import Reached
from headrace.lake.replacing import replace_files
from headrace.lake.sink import Partitioning, S3Storage, TableFormat
from headrace.lake.table_state import TableState
from headrace.pipeline.spark.lake.file_merging import FileMerging
from headrace.pipeline.spark.lake.maintaining import Maintenance
from headrace.pipeline.spark.lake.table_maintenance import MaintainedTable, TableMaintenance
from headrace.pipeline.spark.s3a import use_storage
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.spark.writer_lock import hold_writer_lock, lock_of
from tests.lake.stored_tables import commit_name
from tests.pipeline.lake.written_table import RULES, TOPIC, WrittenTable
from tests.s3_server import S3Server

_HOUR_MS = 3_600_000


def _now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def local(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    return WrittenTable(spark, Location.local(tmp_path / "lake" / "numbers"), tmp_path)


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.long)])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> WrittenTable:
    if request.param == "folder":
        return WrittenTable(spark, Location.local(tmp_path / "lake" / "numbers"), tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    storage = server.new_bucket()
    use_storage(spark, storage)
    return WrittenTable(spark, Location(storage=storage) / "topics/numbers", tmp_path)


def _plan(state: TableState) -> tuple[Merge, ...]:
    return plan_merges(state.partitions(), RULES, now_ms=_now())


def _merging(table: WrittenTable) -> FileMerging:
    return FileMerging(table.spark, table.layout.location, codec="snappy")


def _maintenance(table: WrittenTable, clock_ms: int = 0, **fields: Any) -> TableMaintenance:
    maintained = MaintainedTable(name="numbers", location=table.layout.location, codec="snappy", **fields)
    return TableMaintenance(table.spark, maintained, RULES, clock_ms=lambda: _now() + clock_ms)


def _stats(state: TableState) -> tuple[int, int, int]:
    """Rows, lowest and highest offset, according to the statistics."""
    stats = [json.loads(file.action["stats"]) for file in state.files.values()]
    return (
        sum(each["numRecords"] for each in stats),
        min(each["minValues"]["_TOPIC_OFFSET"] for each in stats),
        max(each["maxValues"]["_TOPIC_OFFSET"] for each in stats),
    )


def test_rows_columns_statistics_and_positions_stay(table: WrittenTable) -> None:
    for _ in range(5):
        table.write()
    before, columns = table.rows(), table.spark.read.format("delta").load(table.layout.location.uri).columns
    state = table.state()
    assert len(state.files) == 10
    merged = _merging(table).merge(state, _plan(state))
    assert (merged.removed, merged.added, merged.rows) == (10, 2, 50)
    assert table.rows() == before
    assert table.spark.read.format("delta").load(table.layout.location.uri).columns == columns
    assert _stats(table.state()) == (50, 0, 49)
    commit = table.log.commit(merged.version or 0)
    assert commit is not None
    assert commit.operation == "OPTIMIZE"
    changes = [action for action in table.log.actions(commit.version) if "commitInfo" not in action]
    assert not any(each["dataChange"] for action in changes for each in action.values())
    # The same run goes on, and so does the next one.
    table.write()
    assert table.log.newest_version() == commit.version + 1
    table.restart()
    assert table.writer.progress.positions == Reached(topic_id=TOPIC.topic_id, offsets={0: 60})
    assert table.bounds == {}, "nothing is looked up"
    table.write()
    assert table.numbers() == list(range(70))
    assert table.log.damage() is None


def test_commits_of_the_writer_in_between(table: WrittenTable) -> None:
    for _ in range(4):
        table.write()
    state = table.state()
    plan = _plan(state)
    table.write()
    merged = _merging(table).merge(state, plan)
    assert merged.version == 6
    assert table.numbers() == list(range(50))
    assert state.files.keys() == table.state().files.keys()


@pytest.mark.long
def test_files_that_somebody_removed_are_not_replaced(local: WrittenTable) -> None:
    for _ in range(4):
        local.write()
    state = local.state()
    plan = _plan(state)
    local.spark.sql(f"DELETE FROM delta.`{local.layout.location.uri}` WHERE NUMBER = 7")
    version = local.log.newest_version()
    stored = {file.name for file in local.log.files.below("")}
    assert _merging(local).merge(state, plan).version is None
    assert local.log.newest_version() == version
    assert {file.name for file in local.log.files.below("")} == stored
    assert local.numbers() == [number for number in range(40) if number != 7]
    local.write()
    assert 7 not in local.numbers()


@pytest.mark.long
def test_a_table_that_was_repaired_meanwhile_is_left_alone(local: WrittenTable) -> None:
    for _ in range(5):
        local.write()
    state = local.state()
    plan = _plan(state)
    local.log.files.delete([commit_name(5)])
    assert _merging(local).merge(state, plan).version is None
    assert local.numbers() == list(range(40))
    maintenance = _maintenance(local)
    assert maintenance.merge() is not None
    assert local.numbers() == list(range(40))


@pytest.mark.long
def test_new_columns_in_between(local: WrittenTable) -> None:
    for _ in range(4):
        local.write()
    state = local.state()
    plan = _plan(state)
    merging = _merging(local)
    local.spark.sql(f"ALTER TABLE delta.`{local.layout.location.uri}` ADD COLUMNS (MORE STRING)")
    assert merging.merge(state, plan).version is None
    state = local.state()
    assert merging.merge(state, _plan(state)).version is not None
    assert local.numbers() == list(range(40))
    assert local.rows()[0]["MORE"] is None


def test_files_that_lack_rows_are_not_committed(local: WrittenTable) -> None:
    for _ in range(4):
        local.write()
    state = local.state()
    (first, *_), version = state.files.values(), local.log.newest_version()
    state.files[first.name] = dataclasses.replace(first, rows=(first.rows or 0) + 1)
    stored = {file.name for file in local.log.files.below("")}
    with pytest.raises(HeadraceError, match="were not merged"):
        _merging(local).merge(state, _plan(state))
    assert local.log.newest_version() == version
    assert {file.name for file in local.log.files.below("")} == stored


def test_a_merge_that_was_killed_leaves_the_table_whole(
    table: WrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are there, but nobody's; they go when they are old."""
    for _ in range(4):
        table.write()
    before = {file.name for file in table.log.files.below("")}

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DeltaLog, "add_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            _maintenance(table).merge()
    left = {file.name for file in table.log.files.below("")} - before
    assert len(left) == 2
    assert table.numbers() == list(range(40))
    table.restart()
    table.write()
    assert _maintenance(table).vacuum(_HOUR_MS) == [], "they might be those of a batch"
    deleted = _maintenance(table, clock_ms=2 * _HOUR_MS).vacuum(_HOUR_MS)
    assert {file.name for file in deleted} == left
    assert table.numbers() == list(range(50))


def test_vacuum_keeps_what_readers_of_older_versions_need(table: WrittenTable) -> None:
    for _ in range(4):
        table.write()
    before = table.log.newest_version()
    assert _maintenance(table).merge() is not None
    assert _maintenance(table).vacuum(_HOUR_MS) == []
    old = table.spark.read.format("delta").option("versionAsOf", before)
    assert old.load(table.layout.location.uri).count() == 40
    later = _maintenance(table, clock_ms=2 * _HOUR_MS)
    assert len(later.vacuum(_HOUR_MS, is_dry_run=True)) == 8
    assert len(later.vacuum(_HOUR_MS)) == 8
    assert later.vacuum(_HOUR_MS) == []
    assert table.numbers() == list(range(40))
    assert table.log.damage() is None


def test_partitions_expire_and_never_come_back(table: WrittenTable) -> None:
    table.write(day="2026-03-13")
    table.write(day="2026-03-14")
    expiry = Expiry(columns=(("DAY", "yyyy-MM-dd"),), days=7)
    noon = 1_774_094_400_000  # 2026-03-21, 12:00 UTC
    maintenance = _maintenance(table, clock_ms=noon - _now(), expiry=expiry)
    assert maintenance.expire() == 10
    assert maintenance.expire() == 0
    assert table.numbers() == list(range(10, 20))
    # The same run goes on; the next one reads nothing again.
    table.write(day="2026-03-21")
    table.restart()
    assert table.writer.progress.positions == Reached(topic_id=TOPIC.topic_id, offsets={0: 30})
    assert table.numbers() == list(range(10, 30))


@pytest.mark.long
def test_tables_with_deletion_vectors_are_left_alone(local: WrittenTable) -> None:
    for _ in range(4):
        local.write()
    uri = local.layout.location.uri
    local.spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    local.spark.sql(f"DELETE FROM delta.`{uri}` WHERE NUMBER = 7")
    maintenance = _maintenance(local)
    assert maintenance.merge() is None
    assert maintenance.vacuum(_HOUR_MS) == []


@pytest.mark.long
def test_a_checkpoint_although_the_version_is_one_of_maintenance(local: WrittenTable) -> None:
    """Version 100 is a merge, so the writer's next commit makes the checkpoint."""
    local.write()
    add = json.dumps({"add": dict(next(iter(local.state().files.values())).action)})
    for version in range(2, 100):
        local.log.add_commit(version, {"operation": "OPTIMIZE"}, [add])
    local.write()
    assert local.log.newest_version() == 100
    assert max(local.log.checkpoints()) == 100
    for version in range(101, 201):
        local.log.add_commit(version, {"operation": "OPTIMIZE"}, [add])
    local.write()
    assert max(local.log.checkpoints()) == 201
    state = local.state()
    assert state.version.number == 201
    assert {file.rows for file in state.files.values()} == {5}
    assert local.numbers() == list(range(30))


def test_a_reader_in_a_loop_sees_every_row_once(table: WrittenTable) -> None:
    """While batches are written and files merged in two threads."""
    for _ in range(3):
        table.write()
    storage = table.layout.location.storage
    if isinstance(storage, S3Storage):
        where = f"s3://{storage.bucket}/topics/numbers"
        options = {
            "AWS_ENDPOINT_URL": storage.endpoint,
            "AWS_REGION": storage.region,
            "AWS_ACCESS_KEY_ID": storage.access_key,
            "AWS_SECRET_ACCESS_KEY": storage.secret_key,
            "AWS_ALLOW_HTTP": "true",
        }
    else:
        where, options = table.layout.location.uri, {}
    done = threading.Event()
    problems: list[str] = []
    merged: list[int] = []
    reads = 0

    def merge() -> None:
        maintenance = _maintenance(table)
        try:
            while not done.is_set():
                result = maintenance.merge()
                if result is not None and result.version is not None:
                    merged.append(result.version)
                done.wait(0.01)
        except Exception as error:
            problems.append(f"merging failed: {error!r}")

    def read() -> None:
        nonlocal reads
        least = 30
        try:
            while not done.is_set():
                rows = DeltaTable(where, storage_options=options).to_pyarrow_table(columns=["NUMBER"])
                numbers = sorted(rows["NUMBER"].to_pylist())
                if numbers != list(range(len(numbers))) or len(numbers) < least or len(numbers) % 10:
                    problems.append(f"{len(numbers)} rows after {least}: {numbers}")
                least = len(numbers)
                reads += 1
        except Exception as error:
            problems.append(f"reading failed: {error!r}")

    threads = [threading.Thread(target=each) for each in (merge, read)]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + 120
        while not problems and (len(merged) < 3 or reads < 10) and time.monotonic() < deadline:
            table.write()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert problems == []
    assert len(merged) >= 3
    assert reads >= 10
    assert table.numbers() == list(range(table.next))
    assert table.log.damage() is None


def test_the_thread_merges_tables_that_this_process_writes(local: WrittenTable) -> None:
    settings = dataclasses.replace(local.settings, lake_merge_files=4)
    for _ in range(6):
        local.write()
    sink = SimpleNamespace(codec="zstd", partitioning=Partitioning(), table_format=TableFormat.DELTA)
    written = cast(Any, SimpleNamespace(location=local.layout.location, sink=sink))
    version = local.log.newest_version()
    maintenance = Maintenance(local.spark, settings, turns=Turns(1))
    maintenance.tell([written])
    maintenance.look()
    assert local.log.newest_version() == version, "somebody else may write it"
    hold_writer_lock(local.spark, lock_of(local.layout.location, data_dir=settings.data_dir))
    maintenance.look()
    assert local.log.newest_version() == version + 1
    assert all(".zstd." in file for file in local.state().files)
    assert local.numbers() == list(range(60))


def test_a_commit_of_nothing_is_refused_if_the_files_are_gone(local: WrittenTable) -> None:
    local.write()
    state, stale = local.state(), local.state()
    old = list(state.files.values())
    arguments: dict[str, Any] = {
        "old": old,
        "definition": state.definition,
        "operation": "DELETE",
        "parameters": {},
        "changes_data": True,
    }
    assert replace_files(local.log, state, **arguments) == 2
    assert replace_files(local.log, stale, **arguments) is None
    assert local.numbers() == []
