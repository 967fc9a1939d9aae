"""The comparison of `test_kills.py` sees each kind of fault. Needs no platform."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from tests.end_to_end.kills.expectations import (
    Check,
    Found,
    as_choice,
    as_stream,
    as_table,
    checks,
    once_each,
)
from tests.end_to_end.kills.feed import CLOSING, Order, Payment, Sent
from tests.end_to_end.kills.statements import GROUPS, OUTPUTS

ROWS: list[tuple[Any, tuple[int, ...], dict[str, Any]]] = [
    ("a", (0,), {"N": 1}),
    ("a", (60_000,), {"N": 2}),
    ("b", (0,), {"N": 3}),
]
RECORDS = [Found(key=key, window=window, value=value) for key, window, value in ROWS]


def _stream() -> Check:
    return as_stream(ROWS)


def _table() -> Check:
    return as_table({(key, window): value for key, window, value in ROWS})


@pytest.mark.parametrize("make", [_stream, _table])
def test_faults_that_streams_and_tables_must_not_have(make: Callable[[], Check]) -> None:
    check = make()
    assert check(RECORDS) == []
    assert check(RECORDS[1:]) == ['is missing: a (0,) {"N": 1}']
    assert check([*RECORDS, dataclasses.replace(RECORDS[0], key="c")]) == ['is wrong: c (0,) {"N": 1}']
    assert check([*RECORDS, dataclasses.replace(RECORDS[0], window=(1,))]) == ['is wrong: a (1,) {"N": 1}']
    wrong = dataclasses.replace(RECORDS[0], value={"N": 5})
    assert 'is wrong: a (0,) {"N": 5}' in check([*RECORDS, wrong])


def test_a_row_of_a_stream_is_there_once() -> None:
    assert _stream()([*RECORDS, RECORDS[0]]) == [
        'is there too often or too seldom: a (0,) {"N": 1} (2 times instead of 1)'
    ]
    assert _table()([*RECORDS, *RECORDS]) == []


def test_a_table_may_have_been_wrong_before_a_stream_may_not() -> None:
    before = dataclasses.replace(RECORDS[0], value={"N": 0})
    assert _table()([before, *RECORDS]) == []
    assert _stream()([before, *RECORDS]) == ['is wrong: a (0,) {"N": 0}']


def test_a_deleted_row_of_a_table_is_gone() -> None:
    gone = dataclasses.replace(RECORDS[0], value=None)
    assert _table()([*RECORDS, gone]) == ['is missing: a (0,) {"N": 1}']
    other = Found(key="x", window=(), value={"N": 1})
    assert _table()([*RECORDS, other, dataclasses.replace(other, value=None)]) == []


def test_a_row_of_a_table_that_changes_has_one_of_its_values() -> None:
    check = as_choice({0: ("a", "VERSION", {2, 3})})

    def found(version: int, *, key: str = "a", number: int = 0) -> Found:
        return Found(key=key, window=(), value={"NUMBER": number, "VERSION": version})

    assert check([found(3)]) == []
    assert check([found(2), found(3)]) == ["is there too often or too seldom: 0 (2 times instead of 1)"]
    assert check([]) == ["is missing: 0"]
    assert check([found(2), found(1)]) == ['is wrong: a  {"NUMBER": 0, "VERSION": 1}']
    assert check([found(2), found(2, key="b")]) == ['is wrong: b  {"NUMBER": 0, "VERSION": 2}']
    assert check([found(2), found(2, number=1)]) == ['is wrong: a  {"NUMBER": 1, "VERSION": 2}']
    assert check([found(2), Found(key="a", window=(), value=None)]) == ["is wrong: a  null"]


def test_the_lake_has_each_event_once() -> None:
    assert once_each(["a", "b"], {"a": 1, "b": 1}) == []
    assert once_each(["a", "b"], {"a": 1}) == ["is missing: b"]
    assert once_each(["a"], {"a": 1, "b": 1}) == ["is wrong: b"]
    assert once_each(["a"], {"a": 2}) == ["is there too often or too seldom: a (2 times instead of 1)"]


def test_what_is_expected_of_a_few_records() -> None:
    """Worked out by hand: an order with a payment near it, one exactly a gap later, one late and alone."""
    check = checks(_sent())
    assert check.keys() == {output.name for output in OUTPUTS}

    def found(*rows: tuple[Any, tuple[int, ...], dict[str, Any] | None]) -> list[Found]:
        return [Found(key=key, window=window, value=value) for key, window, value in rows]

    minute = ("a", (60_000,), {"N": 3, "TOTAL": 80})
    assert check["COUNTS"](found(("a", (), {"N": 3, "TOTAL": 80}))) == []
    assert check["MINUTES"](found(minute)) == []
    assert check["FINAL_MINUTES"](found(minute)) == []
    assert check["CUSTOMERS_BY_COUNT"](found((3, (), {"CUSTOMERS": 1}), (1, (), {"CUSTOMERS": 1}))) == []
    assert check["CUSTOMER_COUNTS"](found(("a", (), {"N": 3, "VERSION": 4}))) == []
    sessions = (
        ("a", (61_000, 65_000), {"N": 2, "TOTAL": 30}),
        ("a", (100_000, 100_000), {"N": 1, "TOTAL": 50}),
    )
    assert check["SESSIONS"](found(*sessions)) == []
    pair = ("a", (), {"ORDERED": 0, "PAYMENT": 0})
    alone = [("a", (), {"ORDERED": number, "PAYMENT": None}) for number in (1, 2)]
    assert check["PAID"](found(pair)) == []
    assert check["PAID_OR_NOT"](found(pair, *alone)) == []
    assert check["LINES"](found(("a", (), {"NUMBER": 2, "ITEM": "cup"}))) == []
    assert check["OF_CUSTOMER"](
        found(*(("a", (), {"NUMBER": number, "VERSION": 4}) for number in range(3)))
    ) == ["is missing: 3"]
    assert check["OF_CUSTOMER"](found(("a", (), {"NUMBER": 2, "VERSION": 2})))[-1].startswith("is wrong: a")


def test_every_output_is_in_one_group() -> None:
    assert Counter(chain(*GROUPS.values())) == Counter(output.name for output in OUTPUTS)


def _sent() -> Sent:
    places = [(61_000, 10, 1), (65_000, 20, 2), (100_000, 50, 3)]
    orders = [
        Order(
            customer="a", number=number, city="Bern", amount=amount, items=("cup",), time=at, version=version
        )
        for number, (at, amount, version) in enumerate(places)
    ]
    closing = Order(
        customer=f"{CLOSING}0", number=3, city="Bern", amount=1, items=(), time=9_000_000, version=1
    )
    return Sent(
        orders=[*orders, closing],
        payments=[Payment(customer="a", number=0, time=58_000)],
        versions={"a": 4, f"{CLOSING}0": 1},
        countries={"Bern": "Switzerland"},
    )
