"""SQL over real Delta tables: the newest version is seen, each row once, and nothing else is touched."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.core.errors import HeadraceError
from headrace.query.sql import LakeQuery
from tests.query.delta_tables import (
    commit,
    data_files,
    events,
    write_events,
    write_like_spark,
    write_with_deletion_vector,
)

ODD_NAMES = [
    "ListingView", "Listing View", "a/b", "50%", "50%25", "x=y", "it's", 'say "so"', "Größe", "日本 語",
    "a+b&c", "[x]*?{y}", "a:b#c", "tab\there", "back\\slash", "NULL", "~!@$(),;<>|`^",
]  # fmt: skip


@pytest.fixture
def query(tmp_path: Path) -> Iterator[LakeQuery]:
    query = LakeQuery(tmp_path / "lake")
    yield query
    query.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def failure(query: LakeQuery, sql: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        query.run(sql)
    return caught.value


def test_rows_columns_and_types_of_an_answer(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("ListingView", "2026-01-01", "1"), ("Search", "2026-01-02", "2")])
    result = query.run("SELECT EVENT_TYPE, count(*) AS clicks FROM events GROUP BY ALL ORDER BY 1")
    assert result.columns == ("EVENT_TYPE", "clicks")
    assert result.types == ("VARCHAR", "BIGINT")
    assert result.rows == (("ListingView", 1), ("Search", 1))


def test_names_match_without_case(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("ListingView", "2026-01-01", "1")])
    assert query.run("select User_Id from EVENTS where Event_Type = 'ListingView'").rows == (("1",),)


def test_clicks_today_against_yesterday(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("ListingView", "2026-01-01", "1"), ("ListingView", "2026-01-02", "1")])
    write_events(lake, [("ListingView", "2026-01-02", "2"), ("Search", "2026-01-02", "1")])
    result = query.run(
        "SELECT SERVER_DATE, count(*) FROM events WHERE EVENT_TYPE = 'ListingView' GROUP BY 1 ORDER BY 1 DESC"
    )
    assert result.rows == (("2026-01-02", 2), ("2026-01-01", 1))


def test_a_commit_is_seen_by_the_next_question(lake: Path, query: LakeQuery) -> None:
    for number in range(1, 4):
        write_events(lake, [("Search", "2026-01-01", str(number))])
        assert query.run("SELECT count(*) FROM events").rows == ((number,),)


def test_files_outside_the_snapshot_are_not_seen(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "old")])
    stray = data_files(lake)[0].with_name("stray.parquet")
    write_events(lake, [("Search", "2026-01-01", "new")], mode="overwrite")
    shutil.copy(data_files(lake)[0], stray)
    assert len(data_files(lake)) == 3
    assert query.run("SELECT USER_ID FROM events").rows == (("new",),)


def test_a_table_made_again_is_noticed_also_at_the_same_version(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "old")])
    assert query.run("SELECT USER_ID FROM events").rows == (("old",),)
    shutil.rmtree(lake / "events")
    assert failure(query, "SELECT * FROM events").code == "no_such_table"
    write_events(lake, [("Search", "2026-01-01", "new")])
    assert DeltaTable(lake / "events").version() == 0
    assert query.run("SELECT USER_ID FROM events").rows == (("new",),)
    shutil.rmtree(lake / "events")
    write_events(lake, [("Search", "2026-01-01", "newer")])
    write_events(lake, [("Search", "2026-01-01", "newest")])
    assert query.run("SELECT USER_ID FROM events ORDER BY 1").rows == (("newer",), ("newest",))


@pytest.mark.parametrize("writer", [write_events, write_like_spark])
def test_partition_values_come_back_as_they_were(lake: Path, query: LakeQuery, writer: object) -> None:
    assert callable(writer)
    names = [*ODD_NAMES, None]
    writer(lake, [(name, "2026-01-01", str(number)) for number, name in enumerate(names)])
    rows = query.run("SELECT EVENT_TYPE, SERVER_DATE FROM events ORDER BY USER_ID::INT").rows
    assert rows == tuple((name, "2026-01-01") for name in names)
    for number, name in enumerate(ODD_NAMES):
        literal = name.replace("'", "''")
        assert query.run(f"SELECT USER_ID FROM events WHERE EVENT_TYPE = '{literal}'").rows == (
            (str(number),),
        )
    assert query.run("SELECT USER_ID FROM events WHERE EVENT_TYPE IS NULL").rows == ((str(len(ODD_NAMES)),),)


def test_partition_columns_are_text_also_where_they_look_like_dates(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("7", "2026-01-01", "1")])
    result = query.run("SELECT EVENT_TYPE, SERVER_DATE FROM events")
    assert result.types == ("VARCHAR", "VARCHAR")
    assert result.rows == (("7", "2026-01-01"),)


@pytest.mark.parametrize(
    "condition",
    [
        "EVENT_TYPE = 'Search' AND SERVER_DATE = '2026-01-02'",
        "event_type IN ('Search', 'Nothing') AND server_date BETWEEN '2026-01-02' AND '2026-01-02'",
        "EVENT_TYPE LIKE 'Sea%' AND SERVER_DATE >= '2026-01-02' AND USER_ID = 'wanted'",
        "EVENT_TYPE = (SELECT 'Search') AND SERVER_DATE = '2026-01-02'",
    ],
)
def test_a_question_on_one_type_and_date_opens_only_that_folder(
    lake: Path, query: LakeQuery, condition: str
) -> None:
    write_events(
        lake, [(kind, f"2026-01-0{day}", "other") for kind in ("Search", "Message") for day in (1, 2)]
    )
    write_events(lake, [("Search", "2026-01-02", "wanted")])
    wanted = "EVENT_TYPE=Search/SERVER_DATE=2026-01-02"
    others = [file for file in data_files(lake) if wanted not in str(file)]
    assert len(others) == 3
    for file in others:
        file.write_bytes(b"not Parquet: whoever opens this fails")
    rows = query.run(f"SELECT USER_ID FROM events WHERE {condition} ORDER BY 1").rows
    assert ("wanted",) in rows
    assert failure(query, "SELECT USER_ID FROM events").code == "query_failed"


def test_explain_says_how_many_files_are_read(lake: Path, query: LakeQuery) -> None:
    write_events(
        lake, [(kind, f"2026-01-0{day}", "1") for kind in ("Search", "Message") for day in range(1, 8)]
    )
    where = "EVENT_TYPE = 'Search' AND SERVER_DATE = '2026-01-02'"
    plan = str(query.run(f"EXPLAIN ANALYZE SELECT * FROM events WHERE {where}").rows[0][1])
    assert "Total Files Read: 1\n" in plan
    assert "Scanning Files: 1/15" in plan


def test_a_table_without_files_has_its_columns_and_no_rows(lake: Path, query: LakeQuery) -> None:
    write_like_spark(lake, [])
    result = query.run("SELECT * FROM events")
    assert result.columns == ("EVENT_TYPE", "SERVER_DATE", "USER_ID", "_POSTED_AT")
    assert result.types == ("VARCHAR", "VARCHAR", "VARCHAR", "TIMESTAMP WITH TIME ZONE")
    assert result.rows == ()


def test_without_any_table_the_answer_says_what_to_do(query: LakeQuery) -> None:
    error = failure(query, "SELECT * FROM events")
    assert error.code == "no_such_table"
    assert "No event has reached the lake yet" in error.remedy
    assert query.run("SELECT 1").rows == ((1,),)


def test_every_delta_folder_is_a_table(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "1")])
    write_deltalake(lake / "Users-1", events([(None, None, "1")], NAME=["Ada"]))
    (lake / "no_table").mkdir()
    assert query.run("SHOW TABLES").rows == (("Users-1",), ("events",))
    joined = query.run('SELECT NAME FROM events JOIN "users-1" USING (USER_ID)')
    assert joined.rows == (("Ada",),)


def test_columns_added_later_are_null_in_older_rows(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "1")])
    assert query.run("SELECT USER_ID FROM events").rows == (("1",),)
    later = events([("Search", "2026-01-01", "2")], COLOUR=["red"])
    write_deltalake(lake / "events", later, mode="append", schema_mode="merge")
    assert query.run("SELECT USER_ID, COLOUR FROM events ORDER BY 1").rows == (("1", None), ("2", "red"))
    assert query.run("SELECT USER_ID FROM events WHERE COLOUR = 'red'").rows == (("2",),)


def test_times_with_a_zone_are_in_utc_and_keep_their_order(lake: Path, query: LakeQuery) -> None:
    write_like_spark(lake, [("Search", "2026-01-01", str(number)) for number in range(5)])
    result = query.run("SELECT *, 7 AS _POSTED_AT FROM events ORDER BY USER_ID DESC; -- the newest first;")
    assert result.columns == ("EVENT_TYPE", "SERVER_DATE", "USER_ID", "_POSTED_AT", "_POSTED_AT")
    assert result.types[3] == "TIMESTAMP WITH TIME ZONE"
    assert [row[2] for row in result.rows] == ["4", "3", "2", "1", "0"]
    assert {row[3] for row in result.rows} == {datetime(2026, 1, 1, 10, tzinfo=UTC)}
    nested = query.run("SELECT [TIMESTAMPTZ '2026-01-01 12:00:00+02'] AS at, ';' AS mark").rows
    assert nested == (([datetime(2026, 1, 1, 10)], ";"),)


def test_values_of_many_types(query: LakeQuery) -> None:
    result = query.run(
        "SELECT 1.50, 2::HUGEINT ** 3, 'ab'::BLOB, [1, NULL], {'a': [true]}, MAP {'k': 1}, NULL"
    )
    assert result.rows == ((Decimal("1.50"), 8.0, b"ab", [1, None], {"a": [True]}, {"k": 1}, None),)


def test_a_failing_question_names_line_reason_and_what_there_is(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "1")])
    error = failure(query, "SELECT *\nFROM events WHERE COLOR = 'red'")
    assert error.code == "query_failed"
    assert "COLOR" in error.message
    assert "LINE 2" in error.message
    assert "events (EVENT_TYPE, SERVER_DATE, USER_ID)" in error.remedy
    assert 'Did you mean "events"' in failure(query, "SELECT * FROM event").message
    assert "syntax error" in failure(query, "SELEC 1").message
    assert query.run("SELECT count(*) FROM events").rows == ((1,),)


def test_a_question_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with closing(LakeQuery(tmp_path, time_limit_seconds=0.2)) as query:
        started = time.monotonic()
        error = failure(query, "SELECT count(*) FROM range(1000000000000) t(i) WHERE i % 7 = 3")
        assert time.monotonic() - started < 120
        assert error.code == "query_timed_out"
        assert "stopped after 0.2 s" in error.message
        assert query.run("SELECT 1").rows == ((1,),)


def test_a_question_that_needs_too_much_memory_or_too_many_rows_is_told_so(tmp_path: Path) -> None:
    with closing(LakeQuery(tmp_path, memory_megabytes=64, most_rows=10)) as query:
        assert "64 MB" in failure(query, "SELECT string_agg(i::VARCHAR) FROM range(100000000) t(i)").message
        assert "more than 10 rows" in failure(query, "SELECT * FROM range(11)").message
        assert len(query.run("SELECT * FROM range(10)").rows) == 10


def test_many_threads_ask_while_the_table_grows(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "0")] * 3)

    def ask(_: int) -> int:
        count = query.run("SELECT count(*) FROM events").rows[0][0]
        assert isinstance(count, int)
        return count

    with ThreadPoolExecutor(max_workers=6) as threads:
        answers = [threads.submit(ask, number) for number in range(60)]
        for _ in range(5):
            write_events(lake, [("Search", "2026-01-01", "0")] * 3)
        counts = [answer.result() for answer in answers]
    # Three rows a commit: any other number would be a version that never was.
    assert set(counts) <= {3, 6, 9, 12, 15, 18}
    assert ask(0) == 18


def test_tables_that_their_files_alone_do_not_explain_are_refused(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "1")])
    write_like_spark(lake, [("Search", "2026-01-01", "1")], name="mapped", column_mapping=True)
    write_with_deletion_vector(lake, name="deleted")
    assert "maps column names" in failure(query, "SELECT * FROM mapped").message
    assert "deletion vectors" in failure(query, "SELECT count(*) FROM Deleted").message
    assert query.run("SELECT count(*) FROM events").rows == ((1,),)


def test_a_table_with_a_broken_log_is_named_and_others_answer(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "1")])
    commit(lake, 0, [{"nonsense": {}}], name="broken")
    assert "Delta log cannot be read" in failure(query, "SELECT * FROM broken").message
    assert query.run("SELECT count(*) FROM events").rows == ((1,),)


@pytest.mark.parametrize("folder", ["with blank", "a=b", "[x]*", "100%", "Größe", "it's"])
def test_the_lake_may_stand_in_a_folder_of_any_name(tmp_path: Path, folder: str) -> None:
    write_like_spark(tmp_path / folder, [("Listing View", "2026-01-01", "1"), (None, "2026-01-02", "2")])
    with closing(LakeQuery(tmp_path / folder)) as query:
        result = query.run("SELECT * EXCLUDE (_POSTED_AT) FROM events WHERE EVENT_TYPE = 'Listing View'")
    assert result.columns == ("EVENT_TYPE", "SERVER_DATE", "USER_ID")
    assert result.rows == (("Listing View", "2026-01-01", "1"),)


def test_nothing_is_written_to_the_lake_and_nothing_is_left_behind(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    write_events(lake, [("Search", "2026-01-01", "1")])
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    query = LakeQuery(lake)
    query.run("SELECT * FROM events")
    assert list(temporary.iterdir()) != []
    query.close()
    assert list(temporary.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before
    assert query.run("SELECT count(*) FROM events").rows == ((1,),)
    query.close()
