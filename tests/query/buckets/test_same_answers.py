"""A table in a bucket gives the answers of the same table in a folder, whatever its types and the question."""

from __future__ import annotations

import math
import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.query.sql import LakeQuery, QueryResult
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
        "AT": pa.timestamp("us", tz="UTC"),
        "LOCAL_AT": pa.timestamp("us"),
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
        "AT": _moment(number),
        "LOCAL_AT": _moment(number).replace(tzinfo=None),
        "PRICE": Decimal(number) / 4,
        "LONG_PRICE": Decimal(number) * Decimal("123456789012345678.000001"),
        "RATIO": [math.nan, -0.0, 0.0, math.inf, number / 3, None][number % 6],
        "OK": number % 3 == 0,
        "BYTES": bytes([number % 256, 0]),
        "TAGS": [text, None] if number % 4 else None,
        "NESTED": {"A": number, "B": [{"C": text}]} if number % 4 else None,
        "PAIRS": [("p", number)],
    }


BATCHES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from([None, *DAYS]), st.sampled_from(TEXTS)), max_size=6
    ),
    max_size=4,
)

NUMBERS = st.integers(-1, 25)
MOMENTS = NUMBERS.map(lambda number: f"TIMESTAMPTZ '{_moment(number).isoformat()}'")


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
    _of(["LONG_PRICE"], NUMBERS.map(lambda number: str(Decimal(number) * Decimal("123456789012345678.000001")))),
    _of(["TEXT", '"odd ""name\', 1"', "lower(TEXT)"], st.sampled_from(TEXTS).map(_sql)),
    _of(["KIND"], st.sampled_from(KINDS).map(_sql)),
    _of(["DAY", "AT::DATE"], st.sampled_from(DAYS).map(lambda day: f"DATE '{day}'")),
    _of(["AT", "date_trunc('second', AT)"], MOMENTS),
    _of(["LOCAL_AT"], NUMBERS.map(lambda number: f"TIMESTAMP '{_moment(number).replace(tzinfo=None)}'")),
    st.sampled_from(
        ["TEXT LIKE 'a%'", "starts_with(TEXT, 'z')", "OK", "NOT OK", "AT < now()", "AT > now()", "DAY > current_date",
         "TAGS[1] = 'a'", "BYTES > '\\x05'::BLOB"]
    ),
)  # fmt: skip
CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)
QUESTIONS = (
    "SELECT * FROM {t} WHERE {c} ORDER BY N",
    "SELECT count(*), sum(N), max(AT), min(TEXT) FROM {t} WHERE {c}",
    "SELECT (SELECT max(N) FROM {t}) AS a, (SELECT count(*) FROM {t}) AS b, count(*) FROM {t} WHERE {c}",
    "WITH x AS (SELECT N, KIND FROM {t} WHERE {c}) SELECT a.N, b.N FROM x a JOIN {t} b ON a.KIND = b.KIND ORDER BY ALL",
    "SELECT a.N, b.N FROM {t} a LEFT JOIN (SELECT * FROM {t} WHERE {c}) b ON a.N = b.N + 1 ORDER BY ALL",
    "SELECT KIND, DAY, count(*) FROM {t} GROUP BY ALL HAVING max(N) > 3 ORDER BY ALL",
    "SELECT N FROM {t} WHERE N NOT IN (SELECT N FROM {t} WHERE {c}) ORDER BY N",
    "SELECT N, row_number() OVER (PARTITION BY KIND ORDER BY N) FROM {t} WHERE {c} ORDER BY N LIMIT 5",
)  # fmt: skip


def test_whatever_the_types_and_the_question(tmp_path: Path, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    stored = table_in(storage, "stored")
    local = tmp_path / "lake" / "local"
    buckets = buckets_at(tmp_path, stored)
    with asking(tmp_path, buckets=buckets) as query:

        @hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            batches=BATCHES,
            conditions=st.lists(CONDITIONS, min_size=6, max_size=6),
            later=st.booleans(),
            data=st.data(),
        )
        def same(batches: list[Any], conditions: list[str], later: bool, data: st.DataObject) -> None:
            shutil.rmtree(local, ignore_errors=True)
            by = data.draw(st.sampled_from([["KIND", "DAY"], ["DAY"], []]))
            _write(local, batches, by, later=later)
            upload(local, stored)
            # Within a second, the former table would do.
            buckets.tables.doubt()
            for condition in conditions:
                question = data.draw(st.sampled_from(QUESTIONS))
                in_folder = _outcome(query, question.format(t="local", c=condition))
                in_bucket = _outcome(query, question.format(t="stored", c=condition))
                assert in_bucket == in_folder, question.format(t="stored", c=condition)

        same()


def _write(table: Path, batches: list[Any], by: list[str], *, later: bool) -> None:
    write_deltalake(table, SCHEMA.empty_table(), partition_by=by)
    number = 0
    for place, batch in enumerate(batches):
        rows = []
        for kind, day, text in batch:
            number += 1
            rows.append(_row(number, kind, day, text))
        table_of = pa.Table.from_pylist(rows, schema=SCHEMA)
        if later and place:
            table_of = table_of.append_column("LATER", pa.array([str(place)] * len(rows), pa.string()))
        write_deltalake(table, table_of, mode="append", schema_mode="merge")


def _outcome(query: LakeQuery, sql: str) -> Any:
    try:
        result: QueryResult = query.run(sql)
    except Exception as error:  # the same refusals, too
        return type(error), str(error).replace("local", "stored").partition("\n")[0][:80]
    return result.columns, result.types, repr(result.rows)
