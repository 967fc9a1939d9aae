"""Values in Druid's result formats, and how a whole answer can be told from one that was cut off."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.query.druid.results import CHUNK_BYTES, MEDIA_TYPES, Wanted, written
from headrace.query.druid.zones import zone_of

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def value(kind: str, given: object, **wanted: Any) -> object:
    """What a client reads."""
    (row,) = json.loads(b"".join(written(["a"], [kind], [(given,)], Wanted(format="array", **wanted))))
    return row[0]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("TIMESTAMP WITH TIME ZONE", NOON, "2026-07-01T12:00:00.000Z"),
        ("TIMESTAMP", NOON.replace(tzinfo=None, microsecond=123_999), "2026-07-01T12:00:00.123Z"),
        ("TIMESTAMP", datetime(1, 1, 1), "0001-01-01T00:00:00.000Z"),
        ("DATE", date(2026, 7, 1), "2026-07-01T00:00:00.000Z"),
        ("TIMESTAMP", None, None),
        ("DECIMAL(9,3)", Decimal("1.500"), 1.5),
        ("HUGEINT", 2**70, 2**70),
        ("DOUBLE", float("nan"), "NaN"),
        ("DOUBLE", float("-inf"), "-Infinity"),
        ("BOOLEAN", True, True),
        ("BLOB", b"\x00\xff", "AP8="),
        ("VARCHAR", "half \ud800 of a pair", "half ? of a pair"),
        ("VARCHAR[]", ["a", None], '["a",null]'),
        ("TIMESTAMP[]", [NOON], '["2026-07-01T12:00:00.000Z"]'),
        ("STRUCT(a INTEGER)", {"a": 1}, '{"a":1}'),
        ("MAP(VARCHAR, INTEGER)", {"a": 1}, '{"a":1}'),
        ("JSON", '{"a": 1}', '{"a": 1}'),
        ("INTERVAL", timedelta(hours=1), "PT3600S"),
    ],
)
def test_values(kind: str, given: object, expected: object) -> None:
    assert value(kind, given) == expected


def test_times_in_a_zone() -> None:
    berlin = zone_of("Europe/Berlin")
    assert value("TIMESTAMP", NOON, zone=berlin) == "2026-07-01T14:00:00.000+02:00"
    assert value("DATE", date(2026, 1, 1), zone=berlin) == "2026-01-01T00:00:00.000+01:00"
    assert value("TIMESTAMP", NOON, zone=zone_of("-03:30")) == "2026-07-01T08:30:00.000-03:30"


def test_arrays_as_arrays() -> None:
    assert value("INTEGER[]", [1, None], stringify_arrays=False) == [1, None]


def test_names_that_occur_twice() -> None:
    (row,) = json.loads(b"".join(written(["a", "a", "a0"], ["INTEGER"] * 3, [(1, 2, 3)], Wanted())))
    assert row == {"a": 1, "a0": 2, "a00": 3}


@pytest.mark.parametrize("name", MEDIA_TYPES)
def test_a_large_answer_comes_in_chunks(name: str) -> None:
    rows = [(number, "x" * 50) for number in range(5_000)]
    chunks = list(written(["n", "text"], ["BIGINT", "VARCHAR"], iter(rows), Wanted(format=name)))
    assert len(chunks) > 3
    assert max(map(len, chunks)) < CHUNK_BYTES + 200
    whole = b"".join(chunks).decode()
    assert whole.endswith("]\n" if name in ("object", "array") else "\n\n")
    if name in ("object", "array"):
        found = json.loads(whole)
    elif name == "csv":
        found = [[int(number), text] for number, text in csv.reader(io.StringIO(whole[:-1]))]
    else:
        found = [json.loads(line) for line in whole.splitlines()[:-1]]
    assert [tuple(row.values() if isinstance(row, dict) else row) for row in found] == rows


@given(st.lists(st.tuples(st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=5))
@settings(deadline=None)
def test_every_format_carries_the_same_values(rows: list[tuple[str, int | None]]) -> None:
    def answer(name: str) -> str:
        return b"".join(written(["a", "b"], ["VARCHAR", "BIGINT"], rows, Wanted(format=name))).decode()

    expected = [list(row) for row in rows]
    assert json.loads(answer("array")) == expected
    assert [list(row.values()) for row in json.loads(answer("object"))] == expected
    assert [json.loads(line) for line in answer("arrayLines").split("\n")[:-2]] == expected
    lines = csv.reader(io.StringIO(answer("csv")[:-1], newline=""))
    assert [*lines] == [[text, "" if number is None else str(number)] for text, number in rows]
