"""Which events are good, what is said of the bad ones, and under which key an event is written."""

from __future__ import annotations

import pytest

from headrace.core.errors import HeadraceError
from headrace.http.events.examination import MAX_DEPTH, MAX_NAME_BYTES, MAX_NUMBER_BYTES, event_key

LIMIT = 1_048_576


def key(event: bytes) -> bytes | None:
    return event_key(event, max_event_bytes=LIMIT)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (b'{"User_ID":"u1"}', b"u1"),
        (b'{"user_id":"u1"}', b"u1"),
        (b'{"x":1,"USER_ID":"u1"}', b"u1"),
        (b'{"user_id":"other","User_ID":"exact"}', b"exact"),
        (b'{"User_ID":"a","User_ID":"b"}', b"b"),
        (b'{"User_ID":"\\u00e4\\ud83d\\ude00\\n"}', "ä😀\n".encode()),
        ('{"User_ID":"ä"}'.encode(), "ä".encode()),
        (b'{"User_ID":""}', b""),
        (b'{"User_ID":42}', b"42"),
        (b'{"User_ID":-1.50e+3}', b"-1.50e+3"),
        (b'{"User_ID":123456789012345678901234567890}', b"123456789012345678901234567890"),
        (b'{"User_ID":true}', b"true"),
        (b'{"User_ID":{"a": 1}}', b'{"a": 1}'),
        (b'{"User_ID":null}', None),
        (b'{"User_Id_2":"u"}', None),
        (b'{"payload":{"User_ID":"inner"}}', None),
        (b"{}", None),
    ],
)
def test_the_key_is_the_user_id(event: bytes, expected: bytes | None) -> None:
    assert key(event) == expected


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b"", "byte 0"),
        (b"[]", "this is an array"),
        (b'"text"', "this is a string"),
        (b"12", "this is a number"),
        (b"-1", "this is a number"),
        (b"null", "this is null"),
        (b"true", "this is true"),
        (b"false", "this is false"),
        (b'{"a":1', "byte 6"),
        (b'{"a":1}{', "byte 7"),
        ('{"ä":x}'.encode(), "byte 6"),
        (b"{'a':1}", "byte 1"),
        (b'{"a":01}', "byte 6"),
        (b'{"a":"\n"}', "byte 6"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":[-Infinity]}', "-Infinity is not JSON"),
        (b'{"a":"\xff"}', "not valid UTF-8 at byte 6"),
        (b'{"\xff":1}', "not valid UTF-8 at byte 2"),
        (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8"),
        (b'{"a":"\\ud800"}', "half of a surrogate pair"),
        (b'{"a":"\\ud800\\u0041"}', "half of a surrogate pair"),
        (b'{"\\udfff":1}', "half of a surrogate pair"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"a":' + b"[" * 100_000, "nested deeper"),
    ],
)
def test_a_bad_event_is_refused_with_the_reason(event: bytes, reason: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        key(event)
    assert caught.value.code == "bad_event"
    assert reason in caught.value.message
    assert caught.value.remedy


def nested(depth: int) -> bytes:
    """An event of that depth, the outermost object included."""
    return b'{"a":' + b"[" * (depth - 1) + b'"]{"' + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (nested(MAX_DEPTH + 1), "nested deeper than 500"),
        (b'{"a":' + b"1" * (MAX_NUMBER_BYTES + 1) + b"}", "number of more than 1000"),
        (b'{"a":[0.' + b"1" * MAX_NUMBER_BYTES + b"]}", "number of more than 1000"),
        (b'{"a":{"' + b"n" * MAX_NAME_BYTES + b'" : 1}}', "field name"),
    ],
)
def test_what_the_pipelines_parser_could_not_read_is_refused(event: bytes, reason: str) -> None:
    with pytest.raises(HeadraceError, match=reason):
        key(event)


@pytest.mark.parametrize(
    "event",
    [
        nested(MAX_DEPTH),
        # Many brackets, but side by side, or inside of texts.
        b'{"a":[' + b"[]," * 2_000 + b'[]],"User_ID":"u"}',
        b'{"a":"' + b'[{\\"' * 2_000 + b'","User_ID":"u"}',
        # The same digits as a text.
        b'{"a":"' + b"1" * 5_000 + b'","User_ID":"u"}',
        b'{"a":' + b"1" * MAX_NUMBER_BYTES + b',"User_ID":"u"}',
        # The same letters as a value, not a name.
        b'{"a":"' + b"n" * 100_000 + b'","User_ID":"u"}',
        b'{"a":1e400,"User_ID":"u"}',
    ],
)
def test_what_only_looks_like_too_much_is_taken(event: bytes) -> None:
    assert key(event) in (b"u", None)


def test_the_limit_on_bytes_is_exact() -> None:
    event = b'{"User_ID":"u"}'
    assert event_key(event, max_event_bytes=len(event)) == b"u"
    with pytest.raises(HeadraceError, match="15 bytes; at most 14") as caught:
        event_key(event, max_event_bytes=len(event) - 1)
    assert caught.value.code == "event_too_large"
