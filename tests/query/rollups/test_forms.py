"""Which questions a rollup answers and which it must not, and that either way the answer is the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from headrace.lake.delta_log import DeltaLog
from headrace.lake.rollups.maintaining import RollupMaintainer
from headrace.lake.rollups.stored import rollup_folder
from headrace.lake.table_state import TableState
from headrace.query.druid.calls import Context
from headrace.query.druid.tables import DruidTable
from headrace.query.druid.translating import read, translate
from headrace.query.druid.zones import zone_of
from tests.query.rollups.asking import Asker, same
from tests.query.rollups.lakes import TABLE, append, definition, price, row

_START = datetime(2026, 1, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lake")
    rows = [
        row(
            ["a", "b", None][number % 3],
            f"2026-01-{30 + number % 2}",
            None if number == 7 else _START + timedelta(minutes=37 * number),
            local=datetime(2026, 1, 30) + timedelta(minutes=11 * number),
            x=None if number % 5 == 0 else number,
            price=price(number),
            wide=price(7 * number),
            size=number % 4,
            heat=number / 3,
            note=f"n{number}",
            flag=number % 2 == 0,
        )
        for number in range(200)
    ]
    append(lake, rows[:150], partition_by=["day"])
    RollupMaintainer(lake, definition(lake)).step()
    append(lake, rows[150:])
    return lake


@pytest.fixture(scope="module")
def asker(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Asker:
    return Asker(lake, tmp_path_factory.mktemp("temporary"))


ANSWERED = [
    "SELECT count(*) FROM events",
    "SELECT count(*), count(x), sum(x), min(x), max(x), sum(price), sum(wide), min(heat) FROM events",
    "SELECT date_trunc('hour', ts) AS h, kind, count(*) FROM events GROUP BY h, kind ORDER BY ALL",
    "SELECT kind, count(*) FROM events GROUP BY kind HAVING count(*) > 3 ORDER BY 2 DESC, 1 LIMIT 2",
    "SELECT date_trunc('month', ts), year(ts), sum(x) FROM events GROUP BY 1, 2",
    "SELECT week(ts) AS w, strftime(ts, '%Y-%m-%d %H'), count(*) FROM events GROUP BY ALL",
    "SELECT CAST(ts AS DATE) AS d, day, count(*) FROM events WHERE day = '2026-01-30' GROUP BY d, day",
    "SELECT e.kind, count(*) AS n FROM events AS e WHERE e.kind IN ('a', 'b') GROUP BY e.kind",
    "SELECT sum(x) FROM events WHERE ts >= '2026-01-31' AND ts < TIMESTAMP '2026-02-02'",
    "SELECT sum(x) FROM events WHERE ts BETWEEN '2026-01-31' AND '2026-01-31 23:59:59.999999'",
    "SELECT sum(x) FROM events WHERE TIMESTAMPTZ '2026-01-31 05:00:00+00' <= ts AND ts IS NOT NULL",
    "SELECT count(*) FROM events WHERE ts >= date_trunc('day', now()) - INTERVAL 3000 DAY",
    "SELECT count(*) FROM events WHERE ts < current_date",
    "SELECT count(*) FILTER (WHERE kind = 'a') AS a, count(*) FILTER (WHERE kind = 'b') AS b FROM events",
    "SELECT sum(CASE WHEN kind = 'a' THEN 1 ELSE 0 END), sum(CASE WHEN kind = 'a' THEN x END) FROM events",
    "SELECT count(CASE WHEN kind = 'a' THEN x END), max(CASE WHEN kind = 'b' THEN x END) FROM events",
    "SELECT count(DISTINCT kind), min(kind), max(day), approx_count_distinct(kind) FROM events",
    "SELECT DISTINCT kind, day FROM events",
    "SELECT kind, sum(count(*)) OVER (ORDER BY kind) FROM events GROUP BY kind",
    "SELECT time_bucket(INTERVAL '6 hours', ts), count(*) FROM events GROUP BY 1",
    "SELECT time_bucket(INTERVAL 1 MONTH, ts), count(*) FROM events GROUP BY 1",
    "SELECT kind, day, grouping(kind), count(*) FROM events GROUP BY CUBE (kind, day)",
    "WITH c AS (SELECT kind, count(*) AS n FROM events GROUP BY kind) SELECT sum(n), max(n) FROM c",
    "SELECT (SELECT count(*) FROM events WHERE ts < '2026-01-31') AS before, (SELECT count(*) FROM events)",
    "SELECT count(*) FROM events UNION ALL SELECT max(x) FROM events WHERE kind = 'a'",
    "SELECT sum(x) / count(*) AS per_row, sum(price) * 2 FROM events WHERE upper(kind) = 'A' OR kind IS NULL",
    "SELECT count(ts), min(ts), max(note) FROM events WHERE day LIKE '2026%'",
    "SELECT 'all' AS what, count(*) FROM main.events GROUP BY what",
    "SELECT kind FROM events GROUP BY kind ORDER BY sum(x) DESC, count(*)",
    "SELECT kind, count(*) AS c FROM events GROUP BY kind ORDER BY c DESC, events.kind",
    "SELECT DISTINCT ON (kind) kind, day, count(*) AS c FROM events GROUP BY kind, day ORDER BY kind, c, day",
    "SELECT kind, count(*) FROM events GROUP BY kind QUALIFY row_number() OVER (ORDER BY count(*), kind) = 1",
    "SELECT day, count(NULL), count('x') FROM events GROUP BY day",
]
PLAIN = [
    "SELECT * FROM events LIMIT 1",
    "SELECT count(*) FROM events WHERE x > 3",
    "SELECT count(*) FROM events WHERE ts >= '2026-01-31 00:30:00'",
    "SELECT count(*) FROM events WHERE ts > '2026-01-31'",
    "SELECT count(*) FROM events WHERE ts <= '2026-01-31'",
    "SELECT count(*) FROM events WHERE ts = '2026-01-31'",
    "SELECT count(*) FROM events WHERE CAST(ts AS TIMESTAMP) >= TIMESTAMP_NS '2026-01-31 00:00:00.000000001'",
    "SELECT count(*) FROM events WHERE ts >= now() - INTERVAL 1 DAY",
    "SELECT count(*) FROM events WHERE random() < 2",
    "SELECT date_trunc('minute', ts), count(*) FROM events GROUP BY 1",
    "SELECT date_trunc('hour', local), count(*) FROM events GROUP BY 1",
    "SELECT time_bucket(INTERVAL '90 minutes', ts, TIMESTAMPTZ '2026-01-01 00:10:00+00'), count(*) FROM "
    "events GROUP BY 1",
    "SELECT time_bucket(INTERVAL '90 minutes', ts), count(*) FROM events GROUP BY 1",
    "SELECT sum(heat), median(x), stddev(x), string_agg(kind, ','), any_value(note) FROM events",
    "SELECT sum(x + 1) FROM events",
    "SELECT avg(x) FROM events",
    "SELECT count(DISTINCT x) FROM events",
    "SELECT count(*) FROM events TABLESAMPLE 100 PERCENT (system)",
    "SELECT count(*) FROM events AS a JOIN events AS b ON a.note = b.note",
    "SELECT count(*) FROM (SELECT max(x) FROM events WHERE x > 0)",
    "SELECT count(*) FROM (SELECT max(heat) FROM events)",
    "SELECT count(*) FROM (SELECT row_number() OVER () AS n FROM events)",
    "SELECT count(*) FROM (SELECT kind FROM events LIMIT 3)",
    "WITH events AS (SELECT 1 AS kind) SELECT count(*) FROM events",
    "SELECT kind, x FROM events ORDER BY note LIMIT 1",
    "SELECT upper(kind) AS kind, count(*) FROM events GROUP BY ALL",
    # DuckDB groups by `ts` here, too.
    "SELECT year(ts) AS y FROM events GROUP BY ALL HAVING y IS NOT NULL",
    "SELECT (SELECT count(*) FROM events AS i WHERE i.kind = o.kind AND o.x > 0) FROM events AS o LIMIT 0",
    "SELECT count(*) OVER () FROM events LIMIT 0",
    "SELECT kind, sum(x ORDER BY note) FROM events GROUP BY kind",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_answered_by_the_rollup(asker: Asker, sql: str) -> None:
    assert same(asker, sql).rollups == ["R"]


@pytest.mark.parametrize("sql", PLAIN)
def test_answered_plainly(asker: Asker, sql: str) -> None:
    assert same(asker, sql).rollups == []


@pytest.mark.parametrize(
    ("bound", "is_answered"),
    [("2026-01-31", True), (datetime(2026, 1, 31, tzinfo=UTC), True), (datetime(2026, 1, 31, 0, 30), False)],
)
def test_parameters(asker: Asker, bound: object, is_answered: bool) -> None:
    sql = "SELECT kind, count(*) FROM events WHERE ts >= ? AND kind = ? GROUP BY kind"
    answered = same(asker, sql, [bound, "a"])
    assert bool(answered.rollups) == is_answered
    assert len(answered.rows) == 1


def test_explain_shows_it(asker: Asker) -> None:
    for explain in ("EXPLAIN", "explain analyze", "EXPLAIN /* why */"):
        answered = asker.ask(f"{explain} SELECT count(*) FROM events;")
        assert '"rollup": "R"' in str(answered.rows[-1])
        assert "rollup" not in str(asker.ask(f"{explain} SELECT count(*) FROM events", rollups="off").rows)


@pytest.mark.parametrize("column", ["x", "price", "wide"])
def test_averages_that_need_only_be_close(asker: Asker, column: str) -> None:
    sql = (
        f"SELECT kind, avg({column}), avg({column}) FILTER (WHERE kind = 'a') FROM events "
        "GROUP BY kind ORDER BY kind"
    )
    close, plain = asker.ask(sql, rollups="close"), asker.ask(sql, rollups="off")
    assert close.rollups == ["R"]
    assert (close.columns, close.types) == (plain.columns, plain.types)
    for found, expected in zip(close.rows, plain.rows, strict=True):
        assert found[0] == expected[0]
        for one, other in zip(found[1:], expected[1:], strict=True):
            assert one == other or one == pytest.approx(other, rel=1e-14)


DRUID = [
    ("SELECT TIME_FLOOR(__time, 'P1D') AS d, kind, COUNT(*), SUM(x) FROM events GROUP BY 1, 2", True),
    ("SELECT FLOOR(__time TO HOUR), COUNT(*) FROM events GROUP BY 1", True),
    (
        "SELECT DATE_TRUNC('month', __time), COUNT(*) AS n FROM events GROUP BY 1 ORDER BY n DESC LIMIT 5",
        True,
    ),
    ("SELECT TIME_FLOOR(__time, 'P1D', NULL, 'Europe/Berlin'), COUNT(*) FROM events GROUP BY 1", False),
    ("SELECT COUNT(*) FROM events WHERE __time >= TIMESTAMP '2026-01-31 00:00:00'", True),
    ("SELECT COUNT(*) FROM events WHERE __time >= TIMESTAMP '2026-01-31 00:10:00'", False),
    ("SELECT SUM(x) FILTER (WHERE kind = 'a') AS a FROM events", True),
    ("SELECT TIME_EXTRACT(__time, 'HOUR'), COUNT(*) FROM events GROUP BY 1", True),
]


@pytest.mark.parametrize(("statement", "is_answered"), DRUID)
def test_druid(asker: Asker, statement: str, is_answered: bool) -> None:
    table = asker.planner.snapshots()[TABLE]
    known = [DruidTable(name=TABLE, columns=table.columns, time_column="ts")]
    sql = translate(read(statement), known, context=Context(zone=zone_of("UTC"), exact_distinct=True)).sql
    assert bool(same(asker, sql).rollups) == is_answered, sql


def test_the_smallest_that_answers(tmp_path: Path) -> None:
    lake, temporary = tmp_path / "lake", tmp_path / "temporary"
    temporary.mkdir()
    append(lake, [row(f"k{number % 50}", ts=_START + timedelta(hours=number)) for number in range(500)])
    for name, dimensions in (
        ("FINE", ["kind", ("ts", "hour")]),
        ("DAILY", [("ts", "day")]),
        ("KINDS", ["kind"]),
    ):
        RollupMaintainer(lake, definition(lake, name=name, dimensions=dimensions)).step()
    asker = Asker(lake, temporary)
    assert same(asker, "SELECT date_trunc('week', ts), count(*) FROM events GROUP BY 1").rollups == ["DAILY"]
    assert same(asker, "SELECT kind, count(*) FROM events GROUP BY 1").rollups == ["KINDS"]
    assert same(asker, "SELECT kind, hour(ts), count(*) FROM events GROUP BY ALL").rollups == ["FINE"]
    assert len(same(asker, "SELECT count(*) FROM events").rollups) == 1
    with_both = "SELECT count(*) FROM events WHERE kind = 'k1' UNION ALL SELECT count(*) FROM events "
    "WHERE ts < '2026-02-02'"
    assert set(same(asker, with_both).rollups) == {"KINDS", "DAILY"}


def test_a_rollup_that_is_gone_or_damaged_is_no_error(tmp_path: Path) -> None:
    lake, temporary = tmp_path / "lake", tmp_path / "temporary"
    temporary.mkdir()
    append(lake, [row("a", ts=_START)])
    wanted = definition(lake)
    RollupMaintainer(lake, wanted).step()
    asker = Asker(lake, temporary)
    question = "SELECT kind, count(*) FROM events GROUP BY kind"
    assert same(asker, question).rollups == ["R"]
    (file,) = rollup_folder(lake, wanted).glob("*.parquet")
    content = file.read_bytes()
    for damage in (content[: len(content) // 2], b"", content[:40] + bytes(40) + content[80:]):
        file.write_bytes(damage)
        assert same(asker, question).rows == [("a", 1)]
    file.unlink()
    assert same(asker, question).rollups == []
    (rollup_folder(lake, wanted) / "_delta_log" / f"{0:020d}.json").write_text("{}")
    assert same(Asker(lake, temporary), question).rollups == []


def test_removed_rows_make_it_useless_until_it_has_caught_up(tmp_path: Path) -> None:
    lake, temporary = tmp_path / "lake", tmp_path / "temporary"
    temporary.mkdir()
    append(lake, [row("a", ts=_START), row("b", ts=_START)])
    keeper = RollupMaintainer(lake, definition(lake))
    keeper.step()
    asker = Asker(lake, temporary)
    question = "SELECT kind, count(*) FROM events GROUP BY kind"
    DeltaTable(lake / TABLE).delete("kind = 'a'")
    assert same(asker, question).rollups == []
    keeper.step()
    assert same(asker, question).rollups == ["R"]


def test_the_present_moment_is_one(asker: Asker) -> None:
    """Bounds are looked at, and used, at the same moment; nothing of it is left for the next question."""
    now = "SELECT count(*), max(epoch_us(now())) FROM events WHERE ts < date_trunc('second', now())"
    moments = []
    for _ in range(3):
        hourly = asker.ask(
            "SELECT now(), count(*) FROM events WHERE ts < date_trunc('hour', now()) GROUP BY ALL"
        )
        assert hourly.rollups == ["R"]
        moments.append(hourly.rows[0][0])
        # A whole second is the beginning of an hour now and then only.
        asker.ask(now)
        assert same(asker, "SELECT kind, count(*) FROM events GROUP BY kind").rollups == ["R"]
        with pytest.raises(duckdb.Error):
            asker.ask("SELECT CAST(kind AS INTEGER), count(*) FROM events WHERE ts < current_date GROUP BY 1")
    assert len(set(moments)) == 3


def test_nobody_sees_what_is_made_for_it(asker: Asker) -> None:
    both = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM information_schema.tables)"
    before = asker.ask("SHOW ALL TABLES").rows
    assert same(asker, "SELECT count(*) FROM events").rollups
    assert asker.ask("SHOW ALL TABLES").rows == before
    assert same(asker, "SELECT count(*) FROM events").rollups
    assert asker.ask("SELECT view_name FROM duckdb_views() WHERE NOT internal").rows == [(TABLE,)]
    assert same(asker, both).rollups == []


def test_one_that_is_far_behind_is_not_used(tmp_path: Path) -> None:
    lake, temporary = tmp_path / "lake", tmp_path / "temporary"
    temporary.mkdir()
    append(lake, [row("a", ts=_START)])
    RollupMaintainer(lake, definition(lake)).step()
    log = DeltaLog(lake / TABLE)
    state = TableState(log)
    for _ in range(501):
        info = {"operation": "OPTIMIZE", "operationParameters": {}}
        log.add_commit(state.version.number + 1, info, [], after=state.version)
        state.follow()
    assert same(Asker(lake, temporary), "SELECT count(*) FROM events").rollups == []


def test_an_error_is_the_one_of_the_plain_way(asker: Asker) -> None:
    for sql in ("SELECT kind, count(*) FROM events", "SELECT nothing, count(*) FROM events GROUP BY 1",
                "SELECT CAST(kind AS INTEGER), count(*) FROM events GROUP BY 1"):  # fmt: skip
        with pytest.raises(duckdb.Error) as plain:
            asker.ask(sql, rollups="off")
        with pytest.raises(duckdb.Error) as with_rollups:
            asker.ask(sql)
        assert str(with_rollups.value) == str(plain.value)
