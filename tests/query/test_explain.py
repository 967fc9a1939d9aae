"""What EXPLAIN says of files is what DuckDB does: what is not read may be damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.query.sql import LakeQuery
from tests.query.delta_tables import data_files, events, write_events

KINDS = ("Search", "Message", "View")
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each kind and day, with two users each; and a second table of the same columns."""
    lake = tmp_path_factory.mktemp("explained") / "lake"
    rows = [(kind, day, f"{kind}-{day}-{user}") for kind in KINDS for day in DAYS for user in "ab"]
    write_events(lake, list(rows))
    write_deltalake(lake / "others", events(list(rows[:2])), partition_by=["EVENT_TYPE", "SERVER_DATE"])
    return lake


@pytest.fixture(scope="module")
def query(lake: Path) -> Iterator[LakeQuery]:
    query = LakeQuery(lake)
    yield query
    query.close()


def explained(query: LakeQuery, statement: str) -> dict[str, list[dict[str, Any]]]:
    rows = dict(query.run(statement).rows)
    return {table["table"]: table["scans"] for table in json.loads(str(rows["tables"]))}


@settings(max_examples=15, deadline=None)
@given(
    kinds=st.sets(st.sampled_from(KINDS), min_size=1),
    days=st.sets(st.sampled_from(DAYS), min_size=1),
    runs=st.booleans(),
)
def test_files_skipped_by_partition_are_those_that_no_condition_allows(
    query: LakeQuery, kinds: set[str], days: set[str], runs: bool
) -> None:
    listed = [", ".join(f"'{each}'" for each in sorted(some)) for some in (kinds, days)]
    where = f"EVENT_TYPE IN ({listed[0]}) AND SERVER_DATE IN ({listed[1]})"
    (scan,) = explained(query, f"EXPLAIN {'ANALYZE' if runs else ''} SELECT * FROM events WHERE {where}")[
        "events"
    ]
    left = len(kinds) * len(days)
    assert (scan["files"], scan["files_skipped_by_partition"]) == (9, 9 - left)
    assert scan["files_read" if runs else "files_to_read"] == left


def test_what_is_said_not_to_be_read_may_be_damaged(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_events(lake, [(kind, day, "u") for kind in KINDS for day in DAYS])
    wanted = "EVENT_TYPE=Search/SERVER_DATE=2026-01-02"
    for file in data_files(lake):
        if wanted not in str(file):
            file.write_bytes(b"not Parquet: whoever opens this fails")
    query = LakeQuery(lake)
    try:
        where = "EVENT_TYPE = 'Search' AND SERVER_DATE = '2026-01-02'"
        (scan,) = explained(query, f"EXPLAIN ANALYZE SELECT * FROM events WHERE {where}")["events"]
        assert (scan["files_skipped_by_partition"], scan["files_read"]) == (8, 1)
        with pytest.raises(HeadraceError):
            query.run("EXPLAIN ANALYZE SELECT * FROM events WHERE EVENT_TYPE = 'Search'")
    finally:
        query.close()


def test_groups_of_rows_that_statistics_exclude_are_counted(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_deltalake(lake / "numbers", duckdb.sql("SELECT range AS N FROM range(300000)").to_arrow_table())
    (file,) = data_files(lake)
    duckdb.sql("SELECT range AS N FROM range(300000)").write_parquet(str(file), row_group_size=100_000)
    query = LakeQuery(lake)
    try:
        (scan,) = explained(query, "EXPLAIN ANALYZE SELECT * FROM numbers WHERE N < 50")["numbers"]
        assert (scan["row_groups_read"], scan["row_groups_skipped_by_statistics"]) == (1, 2)
        (limited,) = explained(query, "EXPLAIN ANALYZE SELECT * FROM numbers LIMIT 1")["numbers"]
        assert "row_groups_skipped_by_statistics" not in limited
    finally:
        query.close()
    assert DeltaTable(lake / "numbers").version() == 0


def test_each_scan_belongs_to_its_table(query: LakeQuery) -> None:
    found = explained(
        query,
        "EXPLAIN SELECT count(*) FROM events a JOIN others b USING (USER_ID) "
        "WHERE a.EVENT_TYPE = 'View' "
        "AND a.USER_ID IN (SELECT USER_ID FROM events WHERE SERVER_DATE > '2026-01-02')",
    )
    assert sorted(scan["files_to_read"] for scan in found["events"]) == [3, 3]
    assert [scan["files_to_read"] for scan in found["others"]] == [1]
    assert explained(query, "EXPLAIN SELECT * FROM events WHERE false")["events"] == []


def test_versions_of_one_table_have_scans_of_their_own(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_events(lake, [("Search", "2026-01-01", "u")])
    write_events(lake, [("Search", "2026-01-02", "v")])
    query = LakeQuery(lake)
    try:
        rows = dict(
            query.run("EXPLAIN SELECT * FROM events a JOIN events AS OF VERSION 0 b USING (USER_ID)").rows
        )
        tables = json.loads(str(rows["tables"]))
        read = {table["version"]: [scan["files_to_read"] for scan in table["scans"]] for table in tables}
        assert read == {0: [1], 1: [2]}
    finally:
        query.close()


def test_files_that_a_join_excludes_are_said_apart(query: LakeQuery) -> None:
    (scan,) = explained(
        query,
        "EXPLAIN ANALYZE SELECT count(*) FROM events WHERE EVENT_TYPE = (SELECT min(EVENT_TYPE) FROM others)",
    )["events"]
    assert scan["files_skipped_by_partition"] + scan["files_skipped_while_running"] + scan["files_read"] == 9
    assert scan["files_read"] == 3


def test_the_next_question_is_answered_as_before(query: LakeQuery) -> None:
    before = query.run("SELECT * FROM events ORDER BY ALL").rows
    for form in ("EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN (FORMAT json)", "EXPLAIN (ANALYZE, FORMAT json)"):
        rows = dict(query.run(f"{form} SELECT * FROM events").rows)
        assert "9 files" in str(rows["read"])
        assert "headrace file" not in str(rows)
        assert query.run("SELECT * FROM events ORDER BY ALL").rows == before
