"""Tables at versions and at times: `AS OF`, in all its spellings, over real Delta tables."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.core.errors import HeadraceError
from headrace.query.planning import Planner
from headrace.query.questions import Question, QuestionLimits
from headrace.query.result_formats import JSON
from headrace.query.sources import TailView
from headrace.query.sql import LakeQuery
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.workers.answering import Answering
from headrace.query.workers.parts import Output
from tests.query.delta_tables import data_files, events, write_events


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def query(lake: Path) -> Iterator[LakeQuery]:
    query = LakeQuery(lake)
    yield query
    query.close()


def failure(query: LakeQuery, sql: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        query.run(sql)
    return caught.value


def write_versions(lake: Path, number: int) -> None:
    """Version n has the users 0 to n."""
    for version in range(number):
        write_events(lake, [("Search", "2026-01-01", str(version))])


SPELLINGS = [
    "events AS OF VERSION 1",
    "events VERSION AS OF 1",
    "events FOR VERSION AS OF 1",
    "events FOR SYSTEM_VERSION AS OF 1",
    "events AT (VERSION => 1)",
    "EVENTS as /* a comment */ of version 1",
    '"events@v1" AS events',
    "main.events AS OF VERSION 1",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_old_version_in_every_spelling(lake: Path, query: LakeQuery, spelling: str) -> None:
    write_versions(lake, 4)
    sql = f"SELECT events.USER_ID FROM {spelling} WHERE events.USER_ID <> '9' ORDER BY 1"
    assert query.run(sql).rows == (("0",), ("1",))
    assert query.run("SELECT count(*) FROM events").rows == ((4,),)


def test_two_versions_of_one_table_and_the_newest_in_one_question(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 5)
    sql = (
        "SELECT count(*), (SELECT count(*) FROM events) FROM events AS OF VERSION 3 new "
        "ANTI JOIN events old AT (VERSION => 1) ON new.USER_ID = old.USER_ID"
    )
    assert query.run(sql).rows == ((2, 5),)


def test_a_time_means_the_newest_version_committed_until_then(lake: Path, query: LakeQuery) -> None:
    moments: list[str] = []
    for version in range(3):
        write_events(lake, [("Search", "2026-01-01", str(version))])
        # Commits state milliseconds.
        time.sleep(0.005)
        moments.append(datetime.now(UTC).isoformat(sep=" "))
        time.sleep(0.005)
    for version, moment in enumerate(moments):
        for spelling in ("AS OF TIMESTAMP", "TIMESTAMP AS OF", "FOR SYSTEM_TIME AS OF TIMESTAMP"):
            found = query.run(f"SELECT max(USER_ID) FROM events {spelling} '{moment}' e").rows
            assert found == ((str(version),),)
    before = datetime.now(UTC) - timedelta(days=1)
    error = failure(query, f"SELECT * FROM events AS OF TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}'")
    assert error.code == "version_not_found"
    assert "The oldest version that can be read is 0, the newest is 2." in error.remedy
    later = datetime.now(UTC) + timedelta(days=1)
    error = failure(query, f"SELECT * FROM events AS OF TIMESTAMP '{later:%Y-%m-%d %H:%M:%S}'")
    assert "has not come yet" in error.message


def test_a_version_has_the_columns_that_the_table_had_then(lake: Path, query: LakeQuery) -> None:
    write_events(lake, [("Search", "2026-01-01", "1")])
    write_deltalake(
        lake / "events",
        events([("Search", "2026-01-01", "2")], VIEWS=["7"]),
        mode="append",
        schema_mode="merge",
    )
    assert "VIEWS" not in query.run("SELECT * FROM events AS OF VERSION 0").columns
    # The file of version 0 lacks the column.
    assert query.run("SELECT VIEWS FROM events AS OF VERSION 1 ORDER BY 1").rows == (("7",), (None,))


def test_a_version_that_never_was(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 3)
    error = failure(query, "SELECT * FROM events AS OF VERSION 3")
    assert (error.code, error.http_status) == ("version_not_found", 404)
    assert "no version 3 yet" in error.message
    assert error.remedy == "The oldest version that can be read is 0, the newest is 2."


def test_a_version_whose_files_were_vacuumed(lake: Path, query: LakeQuery) -> None:
    for version in range(4):
        write_events(lake, [("Search", "2026-01-01", str(version))], mode="overwrite")
    oldest = sorted(data_files(lake), key=lambda file: file.stat().st_mtime_ns)
    for file in oldest[:2]:
        file.unlink()
    error = failure(query, "SELECT count(*) FROM events AS OF VERSION 1")
    assert error.code == "version_not_found"
    assert "vacuumed" in error.message
    assert error.remedy == "The oldest version that can be read is 2, the newest is 3."
    assert query.run("SELECT USER_ID FROM events AS OF VERSION 2").rows == (("2",),)


def test_a_version_that_was_read_before_its_files_were_vacuumed(lake: Path, query: LakeQuery) -> None:
    for version in range(2):
        write_events(lake, [("Search", "2026-01-01", str(version))], mode="overwrite")
    assert query.run("SELECT USER_ID FROM events AS OF VERSION 0").rows == (("0",),)
    min(data_files(lake), key=lambda file: file.stat().st_mtime_ns).unlink()
    assert "vacuumed" in failure(query, "SELECT USER_ID FROM events AS OF VERSION 0").message


def test_a_version_that_the_log_has_forgotten(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 6)
    table = DeltaTable(lake / "events", version=3)
    table.create_checkpoint()
    for version in range(3):
        (lake / "events" / "_delta_log" / f"{version:020d}.json").unlink()
    error = failure(query, "SELECT * FROM events AS OF VERSION 2")
    assert "not in its log any more" in error.message
    assert error.remedy == "The oldest version that can be read is 3, the newest is 5."
    assert query.run("SELECT count(*) FROM events AS OF VERSION 4").rows == ((5,),)


def test_a_table_that_was_recreated_has_only_its_own_versions(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 3)
    assert query.run("SELECT count(*) FROM events AS OF VERSION 0").rows == ((1,),)
    shutil.rmtree(lake / "events")
    write_events(lake, [("Search", "2026-01-01", "new")])
    write_events(lake, [("Search", "2026-01-01", "newer")])
    assert query.run("SELECT USER_ID FROM events AS OF VERSION 0").rows == (("new",),)


def test_an_old_version_leaves_nothing_behind(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 2)
    query.run("SELECT * FROM events AS OF VERSION 0")
    assert query.run("SHOW TABLES").rows == (("events",),)
    assert query.run("SELECT table_name FROM information_schema.tables").rows == (("events",),)


def test_explain_and_the_summary_say_the_version(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 3)
    rows = query.run("EXPLAIN SELECT * FROM events AS OF VERSION 1").rows
    assert '"version": 1' in str(rows[-1])
    assert '"as_of": "version 1"' in str(rows[-1])


@pytest.mark.parametrize(
    "clause",
    ["AS OF VERSION $1", "AS OF VERSION 1 + 1", "AS OF TIMESTAMP now()", "AT (VERSION => (SELECT 1))"],
)
def test_only_constants_name_a_version(lake: Path, query: LakeQuery, clause: str) -> None:
    write_versions(lake, 2)
    assert failure(query, f"SELECT * FROM events {clause}").code in ("bad_request", "query_failed")


def test_a_text_that_is_no_time(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 1)
    error = failure(query, "SELECT * FROM events AS OF TIMESTAMP 'yesterday'")
    assert error.code == "bad_request"
    assert "`yesterday` is neither a version nor a time" in error.message


def test_a_name_of_a_version_reaches_no_file(lake: Path, query: LakeQuery) -> None:
    write_versions(lake, 1)
    for name in ("events@/etc/passwd", "events@../x.parquet", "other@v1", "events@v1/../x"):
        assert failure(query, f'SELECT * FROM "{name}"').code in ("bad_request", "query_failed")


class NamedTails:
    """A tail that says it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:  # noqa: ARG002
        self.asked.append(snapshot.name)
        return TailView(chunks=(), starts={}, reached={})


def test_an_old_version_has_no_tail_and_freshness_lake_leaves_it_out(lake: Path) -> None:
    write_versions(lake, 2)
    tails = NamedTails()
    query = LakeQuery(lake, tails=tails)
    try:
        query.run("SELECT * FROM events AS OF VERSION 0")
        assert tails.asked == []
        query.run("SELECT * FROM events WITH (freshness = lake)")
        assert tails.asked == []
        query.run("SELECT * FROM events JOIN events AS OF VERSION 0 o USING (USER_ID)")
        query.run("SELECT 'x' FROM events WITH (freshness = 'live');")
        assert tails.asked == ["events", "events"]
        error = failure(query, "SELECT * FROM events WITH (freshness = soon)")
        assert (error.code, error.message) == ("bad_request", "There is no freshness `soon`.")
    finally:
        query.close()


def test_a_planner_gives_a_table_at_a_version(lake: Path) -> None:
    """As whoever needs a table at a version with the tail behind it, such as a rollup."""
    write_versions(lake, 3)
    planner = Planner(lake)
    found = planner.table_at(planner.snapshots()["events"], 1)
    assert (found.name, found.version, len(found.files)) == ("events", 1, 2)


def test_many_versions_leave_nothing_in_a_worker(lake: Path, tmp_path: Path) -> None:
    write_versions(lake, 12)
    planner = Planner(lake)
    temporary = tmp_path / "worker"
    temporary.mkdir()
    answering = Answering(lake, QuestionLimits(threads=1), temporary)
    for version in range(11):
        sql = f"SELECT count(*) FROM events AS OF VERSION {version}"
        question = Question(sql=sql, answer_format=JSON)
        parts: list[bytes | bytearray] = []
        answering.answer(
            question,
            ["events"],
            lambda named, question=question: planner.plan(question, planner.snapshots(), named, ()),
            Output(columns=lambda *_: None, data=parts.append),
        )
        assert json.loads(b"".join(parts))["rows"] == [[version + 1]]
        views = answering.connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal")
        assert views.fetchone() == (1,)
        assert len(list(temporary.iterdir())) == 1


def test_after_a_repair_versions_are_those_that_were_written_anew(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for user in ("first", "damaged", "later"):
        write_events(lake, [("Search", "2026-01-01", user)])
    query = LakeQuery(lake)
    try:
        users = "SELECT USER_ID FROM events{} ORDER BY 1"
        assert query.run(users.format("")).rows == (("damaged",), ("first",), ("later",))
        assert query.run(users.format(" AS OF VERSION 1")).rows == (("damaged",), ("first",))
        for version in (1, 2):
            (lake / "events" / "_delta_log" / f"{version:020}.json").rename(tmp_path / f"{version}.json")
        for user in ("anew", "again"):
            write_events(lake, [("Search", "2026-01-01", user)])
        assert query.run(users.format("")).rows == (("again",), ("anew",), ("first",))
        assert query.run(users.format(" AS OF VERSION 1")).rows == (("anew",), ("first",))
    finally:
        query.close()
