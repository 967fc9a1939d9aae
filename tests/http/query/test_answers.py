"""Every value that an answer can hold has a JSON form, and CSV and NDJSON say the same."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import pickle
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.query.questions import AnswerSummary
from headrace.query.result_formats import CSV, ENCODERS, JSON, NDJSON, ROWS, unpickled
from headrace.query.result_values import encoded
from headrace.query.sql import LakeQuery, QueryResult

EXPRESSIONS = [
    "1::TINYINT",
    "1::UBIGINT",
    "170141183460469231731687303715884105727::HUGEINT",
    "1.5::DECIMAL(38, 10)",
    "1.5::FLOAT",
    "'NaN'::DOUBLE",
    "true",
    "'x'",
    "'ab'::BLOB",
    "DATE '2026-01-01'",
    "TIME '01:02:03'",
    "TIMESTAMP '2026-01-01 01:02:03'",
    "TIMESTAMPTZ '2026-01-01 01:02:03+02'",
    "TIMESTAMP_NS '2026-01-01 01:02:03.123456789'",
    "INTERVAL '1 month 2 days'",
    "uuid()",
    "'101'::BIT",
    "'x'::ENUM('x', 'y')",
    "[1, NULL]",
    "[[DATE '2026-01-01']]",
    "{'a': 1, 'b': {'c': TIME '01:02:03'}}",
    "MAP {1: 'x'}",
    "MAP {'k': 1.5}",
    "MAP {[1]: 'x'}",
    "array_value(1, 2)",
    "union_value(a := 1)",
    "'{\"a\": 1}'::JSON",
    "NULL",
    "'290000-01-01'::DATE",
    "'infinity'::TIMESTAMP",
    "12345678901234567890123456789012345678901234567890::BIGNUM",
]


def result_as(answer_format: str, result: QueryResult, *cuts: int) -> bytes:
    """The answer, with its rows in parts that end at `cuts`."""
    encoder = ENCODERS[answer_format](result.columns, result.types)
    edges = [0, *sorted(cuts), len(result.rows)]
    parts = [encoder.rows(result.rows[begin:end]) for begin, end in itertools.pairwise(edges)]
    summary = AnswerSummary(rows=len(result.rows), tables=())
    return b"".join([encoder.begin(), *parts, encoder.end(summary)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (2**100, "1267650600228229401496703205376"),
        (1.5, "1.5"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (Decimal("1.50"), "1.50"),
        (Decimal("12345678901234567890123456789.0123456789"), "12345678901234567890123456789.0123456789"),
        (date(2026, 1, 2), '"2026-01-02"'),
        (time(1, 2, 3), '"01:02:03"'),
        (datetime(2026, 1, 2, 3, 4, 5, 678), '"2026-01-02T03:04:05.000678"'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        (timedelta(days=1, seconds=2), '"P1DT2S"'),
        (b"\x00\xff", f'"{base64.b64encode(bytes([0, 255])).decode()}"'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        ("Größe", '"Größe"'),
        ("half \ud800 a pair", '"half ? a pair"'),
        ([1, (2, None)], "[1,[2,null]]"),
        ({"a": float("nan"), 1: [b"x"], date(2026, 1, 1): 1}, '{"a":"NaN","1":["eA=="],"2026-01-01":1}'),
    ],
)
def test_a_value_as_json(value: object, text: str) -> None:
    assert encoded(value).decode() == text


def test_all_types_of_duckdb_can_be_sent(tmp_path: Path) -> None:
    with closing(LakeQuery(tmp_path)) as query:
        result = query.run("SELECT " + ", ".join(EXPRESSIONS))
    answer = json.loads(result_as(JSON, result))
    assert len(answer["rows"][0]) == len(answer["types"]) == len(answer["columns"]) == len(EXPRESSIONS)
    assert answer["rows"][0][2] == 170141183460469231731687303715884105727
    assert answer["rows"][0][12] == "2025-12-31T23:02:03Z"
    assert answer["types"][12] == "TIMESTAMP WITH TIME ZONE"
    assert next(csv.reader(io.StringIO(result_as(CSV, result).decode())))[12] != ""


ROW_LISTS = st.lists(st.tuples(st.text(), st.none() | st.integers(), st.lists(st.floats())))


@given(ROW_LISTS, st.data())
def test_the_formats_say_the_same_however_the_rows_are_cut(
    rows: list[tuple[str, int | None, list[float]]], data: st.DataObject
) -> None:
    result = QueryResult(columns=("a", "b", "a"), types=("VARCHAR", "BIGINT", "DOUBLE[]"), rows=tuple(rows))
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    as_json = json.loads(result_as(JSON, result, *cuts))
    lines = [json.loads(line) for line in result_as(NDJSON, result, *cuts).decode().split("\n")[:-1]]
    assert as_json["columns"] == ["a", "b", "a"]
    assert [[line["a"], line["b"], line["a_2"]] for line in lines] == as_json["rows"]
    header, *fields = list(csv.reader(io.StringIO(result_as(CSV, result, *cuts).decode(), newline="")))
    assert header == ["a", "b", "a"]
    assert [(row[0], row[1] or None) for row in fields] == [
        (row[0], None if row[1] is None else str(row[1])) for row in as_json["rows"]
    ]
    assert [json.loads(row[2]) for row in fields] == [row[2] for row in as_json["rows"]]
    assert encoded(unpickled(result_as(ROWS, result, *cuts))) == encoded(rows)


class Evil:
    def __reduce__(self) -> object:
        return (print, ("owned",))


def test_a_worker_cannot_make_its_parent_run_anything(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pickle.UnpicklingError):
        unpickled(pickle.dumps([(Evil(),)]))
    assert capsys.readouterr().out == ""
