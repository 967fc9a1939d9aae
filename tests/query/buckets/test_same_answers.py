"""A table in a bucket gives the answers of the same table in a folder, for all types and questions."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.query.sql import LakeQuery, QueryResult
from tests.query.buckets.in_process import InProcess
from tests.query.buckets.tables_in_buckets import asking, buckets_at, table_in, upload
from tests.s3_server import S3Server

SCHEMA = pa.schema(
    {
        "KIND": pa.string(),
        "DAY": pa.date32(),
        "N": pa.int64(),
        "SMALL": pa.int16(),
        "TEXT": pa.string(),
        "odd \"name', 1": pa.string(),
        "AT_TIME": pa.timestamp("us", tz="UTC"),
        "LOCAL_TIME_AT": pa.timestamp("us"),
        "PRICE": pa.decimal128(9, 2),
        "LONG_PRICE": pa.decimal128(30, 6),
        "RATIO": pa.float64(),
        "OK": pa.bool_(),
        "BYTES": pa.binary(),
        "TAGS": pa.list_(pa.string()),
        "NESTED": pa.struct({"A": pa.int32(), "B": pa.list_(pa.struct({"C": pa.string()}))}),
        "PAIRS": pa.map_(pa.string(), pa.int64()),
    }
)
KINDS = [None, "a", "b", "A", "a b", "a/b", "a=b", "100%", "ä'ö", "x\\y", "a%20b", "{c}", "*", "?"]
TEXTS = [
    None,
    "",
    "a",
    "aa",
    "b",
    "ä",
    "z" * 80,
    "z" * 80 + "a",
    "it's",
    "two\nlines",
    "(N < 3)",
    "\U0001f600",
]
LONG = Decimal("123456789012345678.000001")
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = [date(2026, 1, 1) + timedelta(days=each) for each in range(4)]


def _moment(number: int) -> datetime:
    # Not whole milliseconds: the bounds in a log are.
    return START + timedelta(microseconds=number * 1_234_567)


def _row(number: int, kind: str | None, day: date | None, text: str | None) -> dict[str, Any]:
    return {
        "KIND": kind,
        "DAY": day,
        "N": number,
        "SMALL": number % 7 if number % 5 else None,
        "TEXT": text,
        "odd \"name', 1": text,
        "AT_TIME": _moment(number),
        "LOCAL_TIME_AT": _moment(number).replace(tzinfo=None),
        "PRICE": Decimal(number) / 4,
        "LONG_PRICE": number * LONG,
        "RATIO": [math.nan, -0.0, 0.0, math.inf, number / 3, None][number % 6],
        "OK": number % 3 == 0,
        "BYTES": bytes([number % 256, 0]),
        "TAGS": [text, None] if number % 4 else None,
        "NESTED": {"A": number, "B": [{"C": text}]} if number % 4 else None,
        "PAIRS": [("p", number)],
    }


ROWS = st.tuples(st.sampled_from(KINDS), st.sampled_from([None, *DAYS]), st.sampled_from(TEXTS))


@dataclass(frozen=True, kw_only=True)
class _Made:
    """Batches of rows. `unknown` are those without statistics; with `later`, the second has a new column."""

    batches: list[list[tuple[Any, Any, Any]]]
    by: list[str]
    later: bool
    unknown: set[int]


TABLES = st.builds(
    _Made,
    batches=st.just([]) | st.lists(st.lists(ROWS, max_size=5), min_size=2, max_size=5),
    by=st.sampled_from([["KIND", "DAY"], ["DAY"], []]),
    later=st.booleans(),
    unknown=st.sets(st.integers(0, 4), max_size=2),
)

NUMBERS = st.integers(-1, 25)
MOMENTS = NUMBERS.map(lambda number: f"'{_moment(number).isoformat()}'::TIMESTAMPTZ")
LOCAL_MOMENTS = NUMBERS.map(lambda number: f"'{_moment(number).replace(tzinfo=None)}'::TIMESTAMP")


def _sql(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def _of(columns: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"])
    column = st.sampled_from(columns)
    return st.one_of(
        st.builds("{} {} {}".format, column, signs, values),
        st.builds("{2} {1} {0}".format, column, signs, values),
        st.builds("{} BETWEEN {} AND {}".format, column, values, values),
        st.builds(
            lambda name, each: f"{name} IN ({', '.join(each)})",
            column,
            st.lists(values, min_size=1, max_size=3),
        ),
        st.builds("{} IS NULL".format, column),
        st.builds("{} IS NOT NULL".format, column),
    )


SIMPLE = st.one_of(
    _of(["N", "SMALL", "PRICE", "LONG_PRICE", "RATIO", "NESTED.A", "N + 1"], NUMBERS.map(str)),
    _of(["PRICE", "RATIO"], NUMBERS.map(lambda number: f"{number / 4}")),
    _of(["LONG_PRICE"], NUMBERS.map(lambda number: str(number * LONG))),
    _of(["TEXT", '"odd ""name\', 1"', "lower(TEXT)"], st.sampled_from(TEXTS).map(_sql)),
    _of(["KIND"], st.sampled_from(KINDS).map(_sql)),
    _of(["DAY", "AT_TIME::DATE"], st.sampled_from(DAYS).map(lambda day: f"'{day}'::DATE")),
    _of(["AT_TIME", "date_trunc('second', AT_TIME)"], MOMENTS),
    _of(["LOCAL_TIME_AT"], LOCAL_MOMENTS),
    st.sampled_from(
        ["TEXT LIKE 'a%'", "starts_with(TEXT, 'z')", "OK", "NOT OK", "AT_TIME < now()", "AT_TIME > now()",
         "DAY > current_date", "TAGS[1] = 'a'", "BYTES > '\\x05'::BLOB"]
    ),
)  # fmt: skip
# What files are ruled out by, more often than a mere choice among everything would have it.
_BOUNDED = {
    "N": NUMBERS.map(str),
    "SMALL": st.integers(-1, 7).map(str),
    "PRICE": NUMBERS.map(lambda number: f"{number / 4}"),
    "AT_TIME": MOMENTS,
    "LOCAL_TIME_AT": LOCAL_MOMENTS,
    "TEXT": st.sampled_from(TEXTS[1:]).map(_sql),
}
BOUNDED = st.one_of(
    st.builds(form.format, st.just(name), st.sampled_from(["=", "<", "<=", ">", ">="]), values)
    for name, values in _BOUNDED.items()
    for form in ("{} {} {}", "({0} {1} {2} OR {0} IS NULL)")
)
CONDITIONS = BOUNDED | st.recursive(
    SIMPLE | BOUNDED,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)
QUESTIONS = (
    "SELECT * FROM {t} WHERE {c} ORDER BY N",
    "SELECT count(*), sum(N), max(AT_TIME), min(TEXT) FROM {t} WHERE {c}",
    "SELECT (SELECT max(N) FROM {t}) AS a, (SELECT count(*) FROM {t}) AS b, count(*) FROM {t} WHERE {c}",
    "WITH x AS (FROM {t} WHERE {c}) SELECT a.N, b.N FROM x a JOIN {t} b USING (KIND) ORDER BY ALL",
    "SELECT a.N, b.N FROM {t} a LEFT JOIN (SELECT * FROM {t} WHERE {c}) b ON a.N = b.N + 1 ORDER BY ALL",
    "SELECT KIND, DAY, count(*) FROM {t} GROUP BY ALL HAVING max(N) > 3 ORDER BY ALL",
    "SELECT N FROM {t} WHERE N NOT IN (SELECT N FROM {t} WHERE {c}) ORDER BY N",
    "SELECT N, row_number() OVER (PARTITION BY KIND ORDER BY N) FROM {t} WHERE {c} ORDER BY N LIMIT 5",
)  # fmt: skip
ASKED = st.tuples(st.just(QUESTIONS[0]) | st.sampled_from(QUESTIONS), CONDITIONS)


def test_whatever_the_types_and_the_question(tmp_path: Path) -> None:
    with closing(InProcess(tmp_path)) as asked:
        _compare(asked, tmp_path / "lake" / "local")


def _compare(asked: InProcess, table: Path) -> None:
    ruled_out = 0

    @hypothesis_settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(tables=TABLES, questions=st.lists(ASKED, min_size=40, max_size=40))
    def same(tables: _Made, questions: list[tuple[str, str]]) -> None:
        nonlocal ruled_out
        files = _write(table, tables)
        asked.look()
        for question, condition in questions:
            in_folder = asked.ask(question.format(t="local", c=condition))
            in_bucket = asked.ask(question.format(t="stored", c=condition))
            ruled_out += len(asked.read) < files
            assert in_bucket == in_folder, question.format(t="stored", c=condition)

    same()
    # Otherwise this shows little.
    assert ruled_out > 20


def test_the_same_with_a_server_between(tmp_path: Path, s3_server: S3Server) -> None:
    stored = table_in(s3_server.new_bucket(), "stored")
    buckets = buckets_at(tmp_path, stored)
    with asking(tmp_path, buckets=buckets) as query:

        @hypothesis_settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
        @given(tables=TABLES, questions=st.lists(ASKED, min_size=8, max_size=8))
        def same(tables: _Made, questions: list[tuple[str, str]]) -> None:
            _write(tmp_path / "lake" / "local", tables)
            upload(tmp_path / "lake" / "local", stored)
            # Within a second, the former table would do.
            buckets.tables.doubt()
            for question, condition in questions:
                in_folder = _outcome(query, question.format(t="local", c=condition))
                in_bucket = _outcome(query, question.format(t="stored", c=condition))
                assert in_bucket == in_folder, question.format(t="stored", c=condition)

        same()


def _write(table: Path, made: _Made) -> int:
    """The number of files."""
    shutil.rmtree(table, ignore_errors=True)
    write_deltalake(table, SCHEMA.empty_table(), partition_by=made.by)
    number = 0
    for place, batch in enumerate(made.batches):
        rows = []
        for kind, day, text in batch:
            number += 1
            rows.append(_row(number, kind, day, text))
        table_of = pa.Table.from_pylist(rows, schema=SCHEMA)
        if made.later and place:
            table_of = table_of.append_column("LATER", pa.array([str(place)] * len(rows), pa.string()))
        write_deltalake(table, table_of, mode="append", schema_mode="merge")
        if place in made.unknown:
            _forget_bounds(table, place + 1)
    return len(DeltaTable(table).file_uris())


def _forget_bounds(table: Path, version: int) -> None:
    """As if the commit had been written by somebody who keeps no statistics."""
    commit = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def _outcome(query: LakeQuery, sql: str) -> Any:
    try:
        result: QueryResult = query.run(sql)
    except Exception as error:  # the same refusals, too
        return type(error), str(error).replace("local", "stored").partition("\n")[0][:80]
    return result.columns, result.types, repr(result.rows)
