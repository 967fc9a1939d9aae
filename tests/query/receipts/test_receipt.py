"""Receipts as people write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.query.receipts.receipt import MOST_RECEIPTS, Receipt, parse_receipt, receipts_of, seconds_of

RECEIPTS = st.builds(
    Receipt,
    topic=st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True),
    partition=st.integers(0, 999_999_999),
    offset=st.integers(0, 10**18 - 1),
)


def as_object(receipt: Receipt) -> dict[str, object]:
    return {"topic": receipt.topic, "partition": receipt.partition, "offset": receipt.offset}


@given(st.lists(RECEIPTS, max_size=5, unique=True))
def test_every_way_to_say_the_same(receipts: list[Receipt]) -> None:
    expected = tuple(receipts)
    texts = [str(each) for each in receipts]
    objects = [{"index": at, **as_object(each)} for at, each in enumerate(receipts)]
    answer = {"accepted": objects, "rejected": [], "unknown": []}
    for said in (texts, ",".join(texts), objects, answer, [answer], [*texts, *objects], [texts, answer]):
        assert receipts_of(json.loads(json.dumps(said))) == expected
    assert tuple(parse_receipt(each) for each in texts) == expected


def nested(depth: int) -> object:
    found: object = "events/0/1"
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "given_",
    [
        "events",
        "events/0",
        "events/0/1/2",
        "events/0/-1",
        "events/ 0/1",
        "eve nts/0/1",
        "events/0/٣",
        "events/0/1\n/2",
        {"topic": "events"},
        {"topic": "events", "partition": True, "offset": 1},
        {"topic": "events", "partition": 0, "offset": 1.5},
        {"topic": "a/b", "partition": 0, "offset": 1},
        {"accepted": "events/0/1"},
        7,
        [b"events/0/1"],
        nested(5),
        nested(900),
        [f"events/0/{offset}" for offset in range(MOST_RECEIPTS + 1)],
    ],
)
def test_what_is_no_receipt(given_: object) -> None:
    with pytest.raises(HeadraceError) as raised:
        receipts_of(given_)
    assert raised.value.code == "bad_request"


def test_as_many_as_allowed() -> None:
    most = [f"events/0/{offset}" for offset in range(MOST_RECEIPTS)]
    assert len(receipts_of([*most, *most])) == MOST_RECEIPTS


@pytest.mark.parametrize("given_", ["x", "nan", "inf", -1, 601, "", [], True])
def test_what_is_no_time(given_: object) -> None:
    with pytest.raises(HeadraceError) as raised:
        seconds_of(given_, "timeout")
    assert "`timeout`" in raised.value.message
