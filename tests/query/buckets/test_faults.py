"""What becomes of questions if a bucket, its server or a table in it fails."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.core.errors import HeadraceError
from headrace.lake.location import Location
from headrace.lake.sink import S3Storage
from headrace.query.buckets.reading import BucketReader
from headrace.query.sources import TailView
from headrace.query.sql import LakeQuery
from headrace.query.table_snapshot import BucketSnapshot, TableSnapshot
from headrace.query.workers.bucket_reads import BucketReads
from headrace.query.workers.forker_process import forker
from tests.faulty_s3 import Failure, FaultyS3
from tests.query.buckets.tables_in_buckets import (
    MEGABYTE,
    asking,
    buckets_at,
    client_of,
    options,
    table_in,
    write,
)
from tests.query.records import wait_until
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

ROWS = pa.table({"KIND": ["a", "b"], "N": [1, 2]})


@pytest.fixture
def table(s3_server: S3Server, faulty: FaultyS3) -> Location:
    storage = s3_server.new_bucket()
    write(table_in(storage), ROWS, partition_by=["KIND"])
    return table_in(replace(storage, endpoint=faulty.endpoint))


def other_table(folder: Path) -> None:
    write_deltalake(folder / "lake" / "other", ROWS)


def refusal(query: LakeQuery, sql: str = "SELECT count(*) FROM events") -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        query.run(sql)
    assert SECRET_KEY not in f"{raised.value}"
    return raised.value


@pytest.mark.parametrize("failure", [Failure.HANG, Failure.UNAVAILABLE, Failure.DROP])
def test_a_server_that_fails_is_an_error_for_its_tables_only(
    tmp_path: Path, table: Location, faulty: FaultyS3, failure: Failure
) -> None:
    other_table(tmp_path)
    with asking(tmp_path, table) as query, ThreadPoolExecutor(8) as together:
        assert query.run("SELECT count(*) FROM other").rows == ((2,),)
        faulty.fail(failure, times=-1)
        failing = [together.submit(refusal, query) for _ in range(6)]
        for _ in range(5):
            assert query.run("SELECT count(*) FROM other").rows == ((2,),)
        # There are fewer slots than questions that wait.
        assert failure is not Failure.HANG or not any(each.done() for each in failing)
        for each in failing:
            error = each.result()
            assert (error.code, "events" in error.message) == ("bucket_unavailable", True)
            assert error.remedy
        assert ("other",) in query.run("SHOW TABLES").rows
        faulty.heal()
        assert _sooner_or_later(query) == ((2,),)


def _sooner_or_later(query: LakeQuery) -> tuple[tuple[object, ...], ...]:
    deadline = time.monotonic() + 30
    while True:
        try:
            return query.run("SELECT count(*) FROM events").rows
        except HeadraceError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.parametrize("failure", [Failure.HANG, Failure.UNAVAILABLE, Failure.CUT])
def test_data_that_does_not_come(tmp_path: Path, table: Location, faulty: FaultyS3, failure: Failure) -> None:
    other_table(tmp_path)
    with asking(tmp_path, table) as query:
        faulty.fail(failure, path=r"\.parquet$", times=-1)
        error = refusal(query)
        assert error.code == "bucket_unavailable"
        assert query.run("SELECT count(*) FROM other").rows == ((2,),)
        faulty.heal()
        assert _sooner_or_later(query) == ((2,),)


def test_one_failure_of_a_request_is_none(tmp_path: Path, table: Location, faulty: FaultyS3) -> None:
    with asking(tmp_path, table) as query:
        faulty.fail(Failure.UNAVAILABLE, path=r"\.parquet$")
        faulty.fail(Failure.CUT, path=r"\.parquet$")
        assert query.run("SELECT sum(N) FROM events").rows == ((3,),)


def test_keys_that_the_server_refuses(
    tmp_path: Path, table: Location, caplog: pytest.LogCaptureFixture
) -> None:
    assert not table.is_local
    caplog.set_level(logging.DEBUG, logger="headrace")
    wrong = replace(table, storage=replace(table.storage, secret_key="another-secret-that-is-wrong"))
    with asking(tmp_path, wrong) as query:
        error = refusal(query)
    assert error.code == "bucket_unavailable"
    assert "SignatureDoesNotMatch" in error.message
    assert "another-secret" not in f"{error}{caplog.text}"


def test_a_bucket_that_is_gone(tmp_path: Path, s3_server: S3Server) -> None:
    table = table_in(s3_server.storage("there-is-no-such-bucket"))
    with asking(tmp_path, table) as query:
        error = refusal(query)
        assert (error.code, "NoSuchBucket" in error.message) == ("bucket_unavailable", True)


def test_a_table_that_nothing_was_written_to(tmp_path: Path, s3_server: S3Server) -> None:
    other_table(tmp_path)
    with asking(tmp_path, table_in(s3_server.new_bucket())) as query:
        assert refusal(query).code in ("query_failed", "no_such_table")
        assert query.run("SHOW TABLES").rows == (("other",),)


def test_files_that_are_removed_meanwhile(tmp_path: Path, table: Location, s3_server: S3Server) -> None:
    storage = replace(table.storage, endpoint=s3_server.endpoint)
    buckets = buckets_at(tmp_path, table)
    with asking(tmp_path, buckets=buckets) as query:
        assert query.run("SELECT KIND FROM events WHERE KIND = 'a'").rows == (("a",),)
        write(table_in(storage), pa.table({"KIND": ["a", "b"], "N": [10, 20]}), mode="overwrite")
        stored = DeltaTable(f"s3://{storage.bucket}/{table.key}", storage_options=options(storage))
        stored.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        # What is known of the log may be a second old; the files are gone.
        assert query.run("SELECT sum(N) FROM events").rows == ((30,),)


def test_a_file_that_is_missing_for_good(tmp_path: Path, table: Location, s3_server: S3Server) -> None:
    client = client_of(replace(table.storage, endpoint=s3_server.endpoint))
    bucket = table.storage.bucket
    for each in client.list_objects_v2(Bucket=bucket)["Contents"]:
        if "KIND=a" in each["Key"]:
            client.delete_object(Bucket=bucket, Key=each["Key"])
    with asking(tmp_path, table) as query:
        assert "KIND=a" in refusal(query, "SELECT sum(N) FROM events").message
        assert query.run("SELECT sum(N) FROM events WHERE KIND = 'b'").rows == ((2,),)


def test_a_table_that_is_recreated(tmp_path: Path, table: Location, s3_server: S3Server) -> None:
    storage = replace(table.storage, endpoint=s3_server.endpoint)
    client = client_of(storage)
    buckets = buckets_at(tmp_path, table)
    with asking(tmp_path, buckets=buckets) as query:
        assert query.run("SELECT sum(N) FROM events").rows == ((3,),)
        for each in client.list_objects_v2(Bucket=storage.bucket)["Contents"]:
            client.delete_object(Bucket=storage.bucket, Key=each["Key"])
        write(table_in(storage), pa.table({"KIND": [7], "MORE": ["x"]}))
        buckets.tables.doubt()
        assert query.run("SELECT * FROM events").rows == ((7, "x"),)


@pytest.mark.parametrize(
    "statement",
    [
        "FROM 'stored://x/y.parquet'",
        "SELECT * FROM read_parquet('stored://x/y.parquet')",
        "SELECT * FROM read_blob('s3://bucket/topics/events/part-0.parquet')",
        "INSTALL httpfs",
        "COPY events TO 'stored://x/y.parquet'",
        "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    ],
)
def test_nothing_else_can_be_read(tmp_path: Path, table: Location, statement: str) -> None:
    with asking(tmp_path, table) as query:
        assert refusal(query, statement).code == "query_failed"


def test_a_worker_gets_no_credentials(tmp_path: Path, table: Location) -> None:
    buckets = buckets_at(tmp_path, table)
    with asking(tmp_path, buckets=buckets) as query:
        wait_until(lambda: _is_read(query), "the log has been read, on a busy machine too")
        snapshot = buckets.tables.current([])["events"]
    assert SECRET_KEY.encode() not in pickle.dumps(snapshot)
    assert SECRET_KEY not in repr(snapshot)


def test_names(tmp_path: Path, s3_server: S3Server) -> None:
    """The plain name is that of the table in the lake's folder, or of nobody."""
    other_table(tmp_path)
    one, two = s3_server.new_bucket(), s3_server.new_bucket()
    places = [table_in(one, "OTHER"), table_in(one, "twice"), table_in(two, "twice"), table_in(two, "once")]
    for number, place in enumerate(places):
        write(place, pa.table({"N": [number]}))
    with asking(tmp_path, *places) as query:
        assert query.run("SELECT count(*) FROM other").rows == ((2,),)
        assert query.run("SELECT N FROM once").rows == ((3,),)
        for number, place in enumerate(places[:3]):
            assert query.run(f'SELECT N FROM "{place}"').rows == ((number,),)
        refusal(query, "SELECT N FROM twice")
        names = {name for (name,) in query.run("SHOW TABLES").rows}
        assert names == {"other", "once", *(str(place) for place in places[:3])}


def test_a_tail_that_waits_for_the_bucket(tmp_path: Path, table: Location) -> None:
    class Waiting:
        def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:
            assert wait_seconds > 0
            if snapshot.name == "events":
                released.wait(60)
            return TailView(chunks=(), starts={}, reached={})

    other_table(tmp_path)
    released = threading.Event()
    with asking(tmp_path, table, tails=Waiting()) as query, ThreadPoolExecutor(4) as together:
        try:
            waiting = [together.submit(refusal, query) for _ in range(2)]
            assert query.run("SELECT count(*) FROM other").rows == ((2,),)
            assert {each.result().code for each in waiting} == {"bucket_unavailable"}
        finally:
            released.set()


def test_a_worker_reads_nothing_but_its_tables(tmp_path: Path, table: Location) -> None:
    """Whatever a worker asks for, that a hostile question may have harmed."""
    client_of(table.storage).put_object(Bucket=table.storage.bucket, Key="topics/secret", Body=b"secret")
    buckets = buckets_at(tmp_path, table)
    with asking(tmp_path, buckets=buckets) as query:
        query.run("SELECT count(*) FROM events")
        snapshot = buckets.tables.current([])["events"]
    assert isinstance(snapshot, BucketSnapshot)

    async def answers() -> list[dict[str, object]]:
        reader = BucketReader(tmp_path / "cache", most_bytes=MEGABYTE)
        await reader.start()
        found: list[dict[str, object]] = []
        reads = BucketReads(reader, lambda payload: found.append(json.loads(payload)))
        file, size = snapshot.files[0], snapshot.stored.sizes[0] if snapshot.stored else 0
        requests = [
            {"number": 1, "file": file, "start": 0, "end": size},
            {"number": 2, "file": f"{file}/../../secret", "start": 0, "end": 6},
            {"number": 3, "file": "s3://bucket/topics/secret", "start": 0, "end": 6},
            {"number": 4, "file": file, "start": -5, "end": size},
            {"number": 5, "file": file, "start": 0, "end": size + 1},
            {"number": 6, "file": file},
            {"number": 7, "file": file, "start": 0, "end": size, "ahead": ["stored://x", 7, None]},
        ]
        try:
            # Of a question that names other tables.
            reads.asked(json.dumps(requests[0]).encode())
            await _until(lambda: len(found) == 1)
            reads.admit([snapshot])
            for request in requests:
                reads.asked(json.dumps(request).encode())
            reads.asked(b"no JSON")
            await _until(lambda: len(found) == len(requests) + 2)
        finally:
            reads.close()
            await reader.stop()
        return found

    first, *others = asyncio.run(answers())
    assert "failure" in first
    given = {each["number"] for each in others if "path" in each}
    assert given == {1, 7}
    assert all("failure" in each for each in others if each["number"] not in given)


def _is_read(query: LakeQuery) -> bool:
    try:
        query.run("SELECT count(*) FROM events")
    except HeadraceError as error:
        if error.code != "bucket_unavailable":
            raise
        return False
    return True


async def _until(is_there: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not is_there():
            await asyncio.sleep(0.01)


def test_workers_have_none_of_the_variables_of_the_query_process(
    tmp_path: Path, table: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials may come from the environment: the query process has them, its workers have not."""
    assert isinstance(table.storage, S3Storage)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    without = replace(table, storage=replace(table.storage, access_key="", secret_key=""))
    forker().close()
    with asking(tmp_path, without) as query:
        assert query.run("SELECT count(*) FROM events").rows == ((2,),)
        children = [each for each in psutil.Process().children(recursive=True) if _is_ours(each)]
        assert children
        assert not any("AWS_SECRET_ACCESS_KEY" in each.environ() for each in children)


def _is_ours(process: psutil.Process) -> bool:
    return any("headrace.query.workers.forker" in part for part in process.cmdline())


def test_a_table_as_it_was(tmp_path: Path, table: Location, s3_server: S3Server) -> None:
    storage = replace(table.storage, endpoint=s3_server.endpoint)
    write(table_in(storage), pa.table({"KIND": ["a"], "N": [10]}))
    write(table_in(storage), pa.table({"KIND": ["c"], "N": [100]}), mode="overwrite")
    with asking(tmp_path, table) as query:
        assert query.run("SELECT sum(N) FROM events").rows == ((100,),)
        assert query.run("SELECT sum(N) FROM events AS OF VERSION 1").rows == ((13,),)
        assert query.run("SELECT sum(N) FROM events AS OF VERSION 1 WHERE KIND = 'a'").rows == ((11,),)
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert query.run(f"SELECT sum(N) FROM events AS OF TIMESTAMP '{at}'").rows == ((100,),)
        assert refusal(query, "SELECT sum(N) FROM events AS OF VERSION 9").code == "version_not_found"
        stored = DeltaTable(f"s3://{storage.bucket}/{table.key}", storage_options=options(storage))
        stored.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        # What was asked for before is in the cache, and as good as ever.
        assert query.run("SELECT sum(N) FROM events AS OF VERSION 1").rows == ((13,),)
    with asking(tmp_path / "another", table) as query:
        assert "not in its bucket any more" in refusal(query, "SELECT * FROM events AS OF VERSION 0").message
