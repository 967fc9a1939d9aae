"""A trickle into the lake: how many files a table has, how long its log takes to read, and count(*), after
thousands of small commits, while small files are merged and deleted in the background's way.

Each commit adds a few rows to each of six partitions, in files that DuckDB writes, and sets the clock forward
by ten seconds, so that thousands of commits take minutes instead of a day; the commits, merges, checkpoints
and the vacuum are the real ones. Meanwhile a reader in a loop checks that each version that it finds has
every row of whole commits once, and no fewer than the version before; anything else ends the benchmark.

After every 500 commits the figures are taken, and at the end those of a table that Spark wrote in one go with
the same rows: count(*) as the platform answers it, and as DuckDB does on the bare list of files. The goal:
nothing grows from the 1,000th commit on, and the platform's count(*) takes at most twice as long as on the
other table.

    python benchmarks/lake_trickle.py [--commits 3000] [--rows 20] [--off]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from side_by_side.background import Background

from headrace.core import settings as configured
from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java
from headrace.lake.delta_log import DeltaLog
from headrace.lake.layout import CHECKPOINT_INTERVAL, TableColumn, TableLayout
from headrace.lake.location import Location
from headrace.lake.merging import MergeRules
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.table_maintenance import MaintainedTable, TableMaintenance
from headrace.pipeline.spark.session import create_session
from headrace.query.sql import LakeQuery

KINDS: Final = tuple("abcdef")
REPEATS: Final = 15
# What one commit sets the clock forward by, how long removed files stay, and how often they are looked for.
STEP_MS: Final = 10_000
RETENTION_MS: Final = 60 * 60 * 1000
VACUUM_COMMITS: Final = 250
_SELECT: Final = """SELECT 'user-' || id AS "USER", id AS NUMBER, 'q' AS _QUERY, 's' AS _SOURCE_TOPIC_ID,
    0::INTEGER AS _SOURCE_PARTITION, id::BIGINT AS _SOURCE_OFFSET, 0::INTEGER AS _SOURCE_ORDINAL,
    0::INTEGER AS _TOPIC_PARTITION, id::BIGINT AS _TOPIC_OFFSET,
    TIMESTAMPTZ '2026-03-14 00:00:00Z' AS _POSTED_AT
    FROM range({first}, {end}) AS numbers(id)"""


def _layout(location: Location) -> TableLayout:
    columns = (TableColumn("KIND", "STRING"), TableColumn("USER", "STRING"), TableColumn("NUMBER", "BIGINT"))
    return TableLayout(name="t", location=location, value_columns=columns, partition_columns=("KIND",))


def _best(action: Callable[[], object]) -> float:
    """Milliseconds, the median of some."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        action()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _figures(table: Path, query: LakeQuery) -> dict[str, float]:
    files = DeltaTable(str(table)).file_uris()
    database = duckdb.connect()
    return {
        "files": len(files),
        "log ms": _best(lambda: DeltaTable(str(table)).version()),
        "count(*) ms": _best(lambda: query.run(f"SELECT count(*) FROM {table.name}")),
        "of bare files ms": _best(
            lambda: database.execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchone()
        ),
    }


class Reader(Background):
    """Reads the table over and over again, except while it is `held`."""

    def __init__(self, table: Path, rows_of_a_commit: int) -> None:
        super().__init__()
        self._table = table
        self._rows = rows_of_a_commit
        self.reads = 0
        self.problem = ""
        self.held = threading.Lock()

    def _run(self) -> None:
        least = 0
        while not self._stopping.is_set() and not self.problem:
            with self.held:
                try:
                    least = self._read(least)
                except Exception as error:
                    self.problem = f"read {self.reads + 1} failed: {error!r}"
            self.reads += 1

    def _read(self, least: int) -> int:
        table = DeltaTable(str(self._table))
        with duckdb.connect() as database:
            rows, distinct, newest = database.execute(
                "SELECT count(*), count(DISTINCT NUMBER), coalesce(max(NUMBER), -1) FROM read_parquet(?)",
                [table.file_uris()],
            ).fetchall()[0]
        if not (rows == distinct == newest + 1 and rows >= least and rows % self._rows == 0):
            self.problem = f"version {table.version()} has {rows} rows, {distinct} of them different"
        return int(rows)


class Trickle:
    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        self.now_ms = time.time_ns() // 1_000_000
        self.layout = _layout(Location.local(folder))
        self.files = DeltaFiles(spark, self.layout)
        self.log = DeltaLog(self.layout.location)
        self.folder, self.rows, self.next, self.last = folder, rows, 0, 0
        self.database = duckdb.connect()
        for kind in KINDS:
            (folder / f"KIND={kind}").mkdir(exist_ok=True)

    def commit(self) -> None:
        self.now_ms += STEP_MS
        adds = []
        for kind in KINDS:
            first, self.next = self.next, self.next + self.rows
            name = f"KIND={kind}/{uuid.uuid4()}.parquet"
            select = _SELECT.format(first=first, end=self.next)
            self.database.execute(f"COPY ({select}) TO '{self.folder / name}' (FORMAT parquet)")
            os.utime(self.folder / name, (self.now_ms / 1000, self.now_ms / 1000))
            stat = (self.folder / name).stat()
            add = {
                "path": name,
                "partitionValues": {"KIND": kind},
                "size": stat.st_size,
                "modificationTime": stat.st_mtime_ns // 1_000_000,
                "dataChange": True,
                "stats": json.dumps({"numRecords": self.rows}),
            }
            adds.append(json.dumps({"add": add}))
        last, version = self.last, self.log.newest_version() + 1
        self.log.add_commit(version, {"operation": "WRITE", "timestamp": self.now_ms}, adds)
        self.last = version
        if version // CHECKPOINT_INTERVAL > last // CHECKPOINT_INTERVAL:
            self.files.checkpoint()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=3_000)
    parser.add_argument("--rows", type=int, default=20, help="of a file")
    parser.add_argument("--off", action="store_true", help="without merging")
    arguments = parser.parse_args()
    settings = Settings()
    cache = configured.load({}, environ=os.environ, folder=Path("/")).cache_dir
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = Settings(data_dir=folder, spark_ui_port=0)
        spark = create_session(own, java_home=find_java().home, jars=Artifacts(cache).spark_jars())
        trickle = Trickle(spark, folder / "trickle", arguments.rows)
        target = settings.lake_file_megabytes * 1024 * 1024
        rules = MergeRules(target_bytes=target, least_files=settings.lake_merge_files, most_bytes=target)
        maintained = MaintainedTable(name="t", location=trickle.layout.location, codec="snappy")
        maintenance = TableMaintenance(spark, maintained, rules, clock_ms=lambda: trickle.now_ms)
        query = LakeQuery(folder)
        rewritten, merging_seconds, merges, deleted = 0, 0.0, 0, 0
        trickle.commit()
        with Reader(trickle.folder, arguments.rows * len(KINDS)) as reader:
            for number in range(2, arguments.commits + 1):
                trickle.commit()
                if number % 5 == 0 and not arguments.off:
                    began = time.perf_counter()
                    while (merged := maintenance.merge()) is not None:
                        rewritten += merged.rows
                        merges += 1
                    merging_seconds += time.perf_counter() - began
                if number % VACUUM_COMMITS == 0 and not arguments.off:
                    deleted += len(maintenance.vacuum(RETENTION_MS))
                if number % 500 == 0:
                    with reader.held:
                        _print(number, _figures(trickle.folder, query))
                if reader.problem:
                    raise SystemExit(reader.problem)
        print(f"{reader.reads} reads; {deleted} files deleted")
        times = rewritten / trickle.next
        print(f"{merges} merges in {merging_seconds:.1f} s; a row was rewritten {times:.1f} times")
        whole = _layout(Location.local(folder / "whole"))
        DeltaFiles(spark, whole)
        source = spark.read.format("delta").load(trickle.layout.location.uri)
        assert source.count() == source.select("NUMBER").distinct().count() == trickle.next
        source.repartition(1).write.format("delta").mode("append").save(whole.location.uri)
        # The later of the two is faster by what has become warm: so each once more.
        for _ in range(2):
            _print(arguments.commits, _figures(trickle.folder, query))
            _print("in one go", _figures(folder / "whole", query))
        query.close()
        spark.stop()


def _print(what: object, figures: dict[str, float]) -> None:
    print(what, {name: round(figure, 2) for name, figure in figures.items()}, flush=True)


if __name__ == "__main__":
    main()
