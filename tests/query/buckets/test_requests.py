"""What questions on a table in a bucket ask its server for: only what they need, and nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from headrace.lake.location import Location
from tests.faulty_s3 import FaultyS3
from tests.query.buckets.tables_in_buckets import asking, buckets_at, table_in, write
from tests.s3_server import S3Server

DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]
KINDS = ["ListingView", "Click", "Search"]


@pytest.fixture
def table(s3_server: S3Server, faulty: FaultyS3) -> Location:
    """A file for each day and kind, 100 numbers in each; a second one for each day and `Click`."""
    storage = s3_server.new_bucket()
    for first, day in enumerate(DAYS):
        for second, kind in enumerate([*KINDS, "Click"]):
            low = (first * 4 + second) * 100
            rows = pa.table(
                {
                    "EVENT_TYPE": [kind] * 100,
                    "SERVER_DATE": [day] * 100,
                    "N": range(low, low + 100),
                    "USER": [f"user-{number:05}" for number in range(low, low + 100)],
                }
            )
            write(table_in(storage), rows, partition_by=["EVENT_TYPE", "SERVER_DATE"])
    return table_in(replace(storage, endpoint=faulty.endpoint))


def data_requests(faulty: FaultyS3) -> list[str]:
    """The folders of the data files that were asked for, since the last call; each request counts."""
    found = [path for method, path in faulty.seen if path.endswith(".parquet") and method == "GET"]
    faulty.seen.clear()
    return sorted("/".join(unquote(path).split("/")[-3:-1]) for path in found)


def test_a_type_and_a_date_open_only_their_files(tmp_path: Path, table: Location, faulty: FaultyS3) -> None:
    with asking(tmp_path, table) as query:
        question = "SELECT count(*), sum(N) FROM events WHERE EVENT_TYPE = $1 AND SERVER_DATE = $2"
        assert query.run(question, ["ListingView", DAYS[1]]).rows == ((100, sum(range(400, 500))),)
        assert data_requests(faulty) == [f"EVENT_TYPE=ListingView/SERVER_DATE={DAYS[1]}"]
        # And never again.
        assert query.run(question, ["ListingView", DAYS[1]]).rows[0][0] == 100
        assert data_requests(faulty) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("N BETWEEN 150 AND 180", (31, ["EVENT_TYPE=Click/SERVER_DATE=2026-01-01"])),
        ("EVENT_TYPE = 'Click' AND N >= 1150", (50, ["EVENT_TYPE=Click/SERVER_DATE=2026-01-03"])),
        ("USER = 'user-00450'", (1, ["EVENT_TYPE=ListingView/SERVER_DATE=2026-01-02"])),
        ("N IN (7, 9) OR N < 5", (7, ["EVENT_TYPE=ListingView/SERVER_DATE=2026-01-01"])),
        ("N < 0", (0, [])),
        ("N > 5 AND 1 = 0", (0, [])),
    ],
)
def test_bounds_in_the_log_rule_files_out(
    tmp_path: Path, table: Location, faulty: FaultyS3, condition: str, expected: tuple[int, list[str]]
) -> None:
    rows, files = expected
    with asking(tmp_path, table) as query:
        assert query.run(f"SELECT count(*) FROM events WHERE {condition}").rows == ((rows,),)
        assert data_requests(faulty) == files


def test_following_the_log_lists_nothing(tmp_path: Path, table: Location, faulty: FaultyS3) -> None:
    buckets = buckets_at(tmp_path, table)
    with asking(tmp_path, buckets=buckets) as query:
        assert query.run("SELECT count(*) FROM events").rows == ((1200,),)
        faulty.seen.clear()
        assert query.run("SELECT count(*) FROM events").rows == ((1200,),)
        # Within a second, nothing is asked at all.
        assert len(faulty.seen) <= 3
        faulty.seen.clear()
        buckets.tables.doubt()
        more = pa.table({"EVENT_TYPE": ["Click"], "SERVER_DATE": [DAYS[0]], "N": [5000], "USER": ["x"]})
        write(table, more)
        faulty.seen.clear()
        assert query.run("SELECT count(*) FROM events").rows == ((1201,),)
        logs = [path for _, path in faulty.seen if "_delta_log" in path]
        # Its own commit, the next one (twice: whether it is there, and what it says), and the one after that.
        assert len(logs) <= 4
        listed = [path for method, path in faulty.seen if method == "GET" and path.count("/") <= 2]
        assert listed == []


def test_the_cache_has_a_bound(tmp_path: Path, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    for place in range(6):
        write(table_in(storage), pa.table({"N": range(place * 60_000, (place + 1) * 60_000)}))
    most = 600_000
    buckets = buckets_at(tmp_path, table_in(storage), most_bytes=most)
    with asking(tmp_path, buckets=buckets, threads=1) as query:
        for _ in range(3):
            assert query.run("SELECT count(*), sum(N) FROM events").rows == ((360_000, sum(range(360_000))),)
            kept = sum(file.stat().st_blocks * 512 for file in (tmp_path / "bucket-cache").iterdir())
            assert 0 < buckets.reader.cached_bytes <= most
            assert kept <= 2 * most
    assert not (tmp_path / "bucket-cache").exists()


def test_explain_says_what_is_left_out(tmp_path: Path, table: Location) -> None:
    with asking(tmp_path, table) as query:
        question = "SELECT count(*) FROM events WHERE EVENT_TYPE = 'Click' AND N >= 1150"
        for explain in ("EXPLAIN", "EXPLAIN ANALYZE"):
            explained = dict(query.run(f"{explain} {question}").rows)
            (read,) = json.loads(str(explained["tables"]))
            assert (read["files"], read["files_skipped_by_log"]) == (12, 11)
            (scan,) = read["scans"]
            assert scan["files"] == 1
            assert "11 files skipped by what the log says of them" in str(explained["read"])
        # The views are as before.
        assert query.run(question).rows == ((50,),)
        assert query.run("SELECT count(*) FROM events").rows == ((1200,),)
