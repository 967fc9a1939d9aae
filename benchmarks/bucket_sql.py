"""SQL on a table in a bucket, three ways, and DuckDB on the same files in a folder.

    python -m benchmarks.bucket_sql [--rows 2000000] [--milliseconds 10]

`ranges` is ours: DuckDB's reader over ranges that the query process reads and caches. `arrow` is a
pyarrow dataset with the bounds of the log as its fragments' conditions, registered in DuckDB, over
Arrow's own S3 client. `whole` copies the files that partitions and bounds leave, and lets DuckDB read
the copies. `folder` is ours on the same files in a folder. The server is the one of the tests, behind a
proxy that makes each request wait for some milliseconds, as a network would. `cold` is the first time in
a new process, `again` the median of five more; the requests are those for data files. `ranges` and
`folder` include our way to the worker, and what is looked up first in the log; the other two have read
it before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
from deltalake import DeltaTable, write_deltalake
from tests.faulty_s3 import FaultyS3, faulty_s3
from tests.query.buckets.tables_in_buckets import asking, client_of, options, table_in, upload
from tests.s3_server import running_s3_server

from headrace.java.runtime import find_java
from headrace.lake.location import Location
from headrace.lake.sink import S3Storage

DAYS, KINDS = 15, 4
QUESTIONS = {
    "one type and date": "SELECT count(*), sum(N) FROM events WHERE KIND = 'kind-1' AND DAY = '2026-01-03'",
    "two hours": "SELECT KIND, count(*) FROM events WHERE AT_TIME >= '2026-01-05 10:00:00+00'::TIMESTAMPTZ "
    "AND AT_TIME < '2026-01-05 12:00:00+00'::TIMESTAMPTZ GROUP BY 1",
    "one column of all": "SELECT sum(N) FROM events",
    "users of all": "SELECT count(DISTINCT USER) FROM events",
    "by day and type": "SELECT DAY, KIND, count(*), sum(N) FROM events GROUP BY ALL ORDER BY ALL",
}


def make(folder: Path, rows: int) -> None:
    each = rows // (DAYS * KINDS)
    database = duckdb.connect()
    for day in range(DAYS):
        for kind in range(KINDS):
            table = database.execute(
                f"""SELECT 'kind-{kind}' AS KIND, '2026-01-{day + 1:02}' AS DAY,
                'user-' || (hash(i * 31 + {day * KINDS + kind}) % 50000) AS USER,
                (hash(i) % 100000) / 100 AS PRICE, i AS N, md5(i::VARCHAR) AS NOTE,
                '2026-01-{day + 1:02} 00:00:00+00'::TIMESTAMPTZ
                    + to_microseconds(i * 86400000000 // {each}) AS AT_TIME
                FROM range({each}) t(i)"""
            ).to_arrow_table()
            write_deltalake(folder, table, mode="append", partition_by=["KIND", "DAY"])


def ranges(folder: Path, table: Location, ask: Callable[[Callable[[str], Any]], Any]) -> Any:
    with asking(folder, table) as query:
        query.run("SELECT 1")
        return ask(lambda sql: query.run(sql).rows)


def arrow(_folder: Path, table: Location, ask: Callable[[Callable[[str], Any]], Any]) -> Any:
    storage = table.storage
    assert isinstance(storage, S3Storage)
    host = storage.endpoint.partition("://")[2]
    server = pyarrow.fs.S3FileSystem(
        access_key=storage.access_key, secret_key=storage.secret_key, region=storage.region,
        scheme="http", endpoint_override=host,
    )  # fmt: skip
    delta = DeltaTable(f"s3://{storage.bucket}/{table.key}", storage_options=options(storage))
    database = duckdb.connect(config={"threads": 2})
    database.execute("SET TimeZone = 'UTC'")
    schema = pa.schema(delta.schema().to_arrow())
    actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    format_ = pyarrow.dataset.ParquetFileFormat()
    fragments = []
    for each in actions:
        condition = pyarrow.dataset.field("KIND") == each["partition.KIND"]
        condition &= pyarrow.dataset.field("DAY") == each["partition.DAY"]
        condition &= pyarrow.dataset.field("AT_TIME") >= pa.scalar(
            each["min.AT_TIME"], schema.field("AT_TIME").type
        )
        condition &= pyarrow.dataset.field("AT_TIME") <= pa.scalar(
            each["max.AT_TIME"], schema.field("AT_TIME").type
        )
        path = f"{storage.bucket}/{table.key}/{each['path']}"
        fragments.append(format_.make_fragment(path, server, partition_expression=condition))
    events = pyarrow.dataset.FileSystemDataset(fragments, schema, format_, server)
    database.register("events", events)
    return ask(lambda sql: database.execute(sql).fetchall())


def whole(folder: Path, table: Location, ask: Callable[[Callable[[str], Any]], Any]) -> Any:
    """The best case: what can be left out is known without looking."""
    storage = table.storage
    assert isinstance(storage, S3Storage)
    client = client_of(storage)
    delta = DeltaTable(f"s3://{storage.bucket}/{table.key}", storage_options=options(storage))
    actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    database = duckdb.connect(config={"threads": 2})
    database.execute("SET TimeZone = 'UTC'")

    def _copy(path: str) -> None:
        copy = folder / "copies" / path
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            answer = client.get_object(Bucket=storage.bucket, Key=f"{table.key}/{path}")
            copy.write_bytes(answer["Body"].read())

    def run(sql: str) -> Any:
        needed = [each for each in actions if _needs(sql, each)]
        with ThreadPoolExecutor(8) as together:
            list(together.map(lambda each: _copy(each["path"]), needed))
        files = [str(folder / "copies" / each["path"]) for each in needed]
        view = f"SELECT * FROM read_parquet({files}, hive_partitioning = true, hive_types_autocast = false)"
        return database.execute(f"WITH events AS ({view}) {sql}").fetchall()

    return ask(run)


def _needs(sql: str, action: dict[str, Any]) -> bool:
    if "kind-1" in sql:
        return bool(action["partition.KIND"] == "kind-1" and action["partition.DAY"] == "2026-01-03")
    return "2026-01-05" not in sql or action["partition.DAY"] == "2026-01-05"


def in_folder(folder: Path, _table: Location, ask: Callable[[Callable[[str], Any]], Any]) -> Any:
    with asking(folder) as query:
        query.run("SELECT 1")
        return ask(lambda sql: query.run(sql).rows)


WAYS = {"ranges": ranges, "arrow": arrow, "whole": whole, "folder": in_folder}


def timed(way: str, folder: Path, table: Location, sql: str, answers: Any) -> None:
    """In a process of its own."""

    def ask(run: Callable[[str], Any]) -> dict[str, Any]:
        begun = time.perf_counter()
        rows = run(sql)
        cold = time.perf_counter() - begun
        answers.send("cold")
        answers.recv()
        again = []
        for _ in range(5):
            begun = time.perf_counter()
            run(sql)
            again.append(time.perf_counter() - begun)
        return {"cold": cold, "again": statistics.median(again), "rows": repr(sorted(map(tuple, rows)))}

    own = Path(tempfile.mkdtemp(dir=folder))
    if way == "folder":
        (own / "lake").symlink_to(folder / "lake")
    found = WAYS[way](own, table, ask)
    # `ranges` and `folder` have a worker, which has ended here.
    who = resource.RUSAGE_CHILDREN if way in ("ranges", "folder") else resource.RUSAGE_SELF
    found["megabytes"] = max(found.pop("worker", 0), resource.getrusage(who).ru_maxrss // 1024)
    answers.send(found)
    shutil.rmtree(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--milliseconds", type=float, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bucket-sql-") as folder:
        run(Path(folder), given.rows, given.milliseconds)


def run(folder: Path, rows: int, milliseconds: float) -> None:
    make(folder / "lake" / "events", rows)
    size = sum(file.stat().st_size for file in (folder / "lake").rglob("*.parquet"))
    print(f"{rows} rows in {DAYS * KINDS} files, {size / 1e6:.0f} MB; {milliseconds:g} ms for each request")
    with running_s3_server(folder / "s3", find_java()) as server:
        storage = server.new_bucket()
        upload(folder / "lake" / "events", table_in(storage))
        with faulty_s3(server.endpoint) as proxy:
            # For each request that comes.
            proxy.arrived = lambda *_: time.sleep(milliseconds / 1000)  # type: ignore[method-assign]
            table = table_in(replace(storage, endpoint=proxy.endpoint))
            for name, sql in QUESTIONS.items():
                ask_all(folder, table, proxy, name, sql)


def ask_all(folder: Path, table: Location, proxy: FaultyS3, name: str, sql: str) -> None:
    answers = set()
    for way in WAYS:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=timed, args=(way, folder, table, sql, theirs)
        )
        process.start()
        proxy.seen.clear()
        assert ours.recv() == "cold"
        requests = sum(path.endswith(".parquet") for _, path in proxy.seen)
        ours.send("again")
        found = ours.recv()
        process.join()
        answers.add(found["rows"])
        print(
            f"{name:18} {way:7} cold {found['cold'] * 1000:7.0f} ms, {requests:4} requests"
            f"   again {found['again'] * 1000:6.0f} ms   {found['megabytes']:5} MB",
            flush=True,
        )
    if len(answers) != 1:
        print("  the answers differ:", *sorted(answers), sep="\n    ")


if __name__ == "__main__":
    main()
