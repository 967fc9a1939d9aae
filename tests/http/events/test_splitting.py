"""How a body is taken apart, compared with what Python's own JSON parser makes of the same bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.http.events import splitting
from headrace.http.events.examination import event_key
from headrace.http.events.splitting import UnreadableArrayError, split_body

LIMIT = 1_048_576

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), values, max_size=5)
encoded_values = st.builds(
    lambda value, ascii_only, spaced: json.dumps(
        value, ensure_ascii=ascii_only, separators=(" , ", " : ") if spaced else (",", ":")
    ).encode("utf-8", "surrogatepass"),
    objects | values,
    st.booleans(),
    st.booleans(),
)
# What JSON does not have and Python's parser takes, halves of surrogate pairs, and bytes that are no UTF-8.
odd_values = st.sampled_from(
    [
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\\ud800"}',
        b'{"\\udc00":1}',
        b'{"a":"\xff"}',
        b'{"a":1e999}',
        b"{}",
    ]
)
spaces = st.text(alphabet=" \t\r", max_size=3).map(str.encode)


def is_event(piece: bytes) -> bool:
    """The rule, said with Python's parser."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        value = json.loads(piece.decode("utf-8"), parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ValueError:
        return False
    return isinstance(value, dict)


def accepted(body: bytes, *, lines: bool) -> list[tuple[int, bytes]]:
    found = []
    for index, piece in enumerate(split_body(body, lines=lines)):
        try:
            event_key(bytes(piece), max_event_bytes=LIMIT)
        except HeadraceError:
            continue
        found.append((index, bytes(piece)))
    return found


@given(st.lists(st.tuples(spaces, encoded_values | odd_values, spaces), min_size=1, max_size=8))
def test_of_an_array_exactly_the_objects_are_accepted_with_their_index_and_their_bytes(
    elements: list[tuple[bytes, bytes, bytes]],
) -> None:
    body = b" [" + b",".join(before + piece + after for before, piece, after in elements) + b"]\n"
    expected = [(index, piece) for index, (_, piece, _) in enumerate(elements) if is_event(piece)]
    assert accepted(body, lines=False) == expected


garbage = st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"").strip(b" \t\r"))


@given(st.lists(st.tuples(spaces, encoded_values | odd_values | garbage, spaces), min_size=1, max_size=8))
def test_of_lines_exactly_the_objects_are_accepted_and_bad_lines_harm_no_other(
    lines: list[tuple[bytes, bytes, bytes]],
) -> None:
    body = b"\n".join(before + piece + after for before, piece, after in lines)
    pieces = [piece for _, piece, _ in lines if piece]
    if not pieces:
        with pytest.raises(HeadraceError, match="empty"):
            split_body(body, lines=True)
        return
    assert accepted(body, lines=True) == [
        (index, piece) for index, piece in enumerate(pieces) if is_event(piece)
    ]


@given(st.lists(encoded_values, max_size=5), st.data())
def test_a_damaged_array_is_refused_if_and_only_if_it_is_no_json(
    pieces: list[bytes], data: st.DataObject
) -> None:
    good = b"[" + b",".join(pieces) + b"]"
    position = data.draw(st.integers(min_value=1, max_value=len(good)))
    body = (
        good[:position]
        + data.draw(st.sampled_from([b"", b",", b"]", b'"', b"{", b"\\", b"x"]))
        + good[position + 1 :]
    )
    try:
        elements = json.loads(body.decode("utf-8", "surrogateescape"), parse_int=str)
    except ValueError:
        with pytest.raises(UnreadableArrayError) as caught:
            split_body(body, lines=False)
        assert 0 <= caught.value.index <= body.count(b",")
    else:
        assert len(split_body(body, lines=False)) == len(elements)


@pytest.mark.parametrize(
    ("body", "index", "position"),
    [
        (b'[{"a":1}, {"b":}]', 1, 15),
        ('[{"ä":1}, {"b":}]'.encode(), 1, 16),
        (b'[{"a":1}, {"b":"c}]', 1, 15),
        (b'[{"a":1},]', 1, 9),
        (b'[{"a":1} {"b":2}]', 0, 9),
        (b'[{"a":1}', 0, 8),
        (b'[{"a":1}] x', 0, 10),
        (b"[", 0, 1),
        (b"[] x", 0, 3),
    ],
)
def test_an_array_that_is_no_json_is_refused_with_element_and_byte(
    body: bytes, index: int, position: int
) -> None:
    with pytest.raises(UnreadableArrayError, match=f"at byte {position},") as caught:
        split_body(body, lines=False)
    assert caught.value.index == index
    assert caught.value.code == "bad_event"


def test_an_array_with_an_element_nested_beyond_reading_says_which() -> None:
    with pytest.raises(UnreadableArrayError, match="nested too deeply") as caught:
        split_body(b'[{},{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]", lines=False)
    assert caught.value.index == 1


def test_an_empty_array_holds_no_events() -> None:
    assert list(split_body(b" [ ] ", lines=False)) == []


@pytest.mark.parametrize("body", [b"", b" \n\t\r\n"])
@pytest.mark.parametrize("lines", [True, False])
def test_an_empty_body_is_a_bad_request(body: bytes, lines: bool) -> None:
    with pytest.raises(HeadraceError, match="empty") as caught:
        split_body(body, lines=lines)
    assert caught.value.code == "bad_request"


def test_lines_sent_as_plain_json_are_taken_as_lines() -> None:
    body = b'{"a":1}\r\n\r\n  {"a": 2}  \nbroken\n'
    assert split_body(body, lines=False) == [b'{"a":1}', b'{"a": 2}', b"broken"]


def test_an_object_over_several_lines_is_one_event() -> None:
    body = json.dumps({"a": {"b": [1, 2]}}, indent=2).encode()
    assert split_body(b"\n" + body + b"\n", lines=False) == [body]


@pytest.mark.parametrize(
    ("body", "lines"),
    [(b"[" + b"1," * 10 + b"1]", False), (b"{}\n" * 11, True), (b"[" + b"1, " * 200 + b"1]", False)],
)
def test_too_many_events_are_refused(body: bytes, lines: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "MAX_EVENTS", 10)
    monkeypatch.setattr(splitting, "_COMMAS_OF_A_COMMON_ARRAY", 100)
    with pytest.raises(HeadraceError, match="more than 10 events") as caught:
        split_body(body, lines=lines)
    assert caught.value.code == "request_too_large"


def test_an_array_of_many_commas_is_split_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_COMMAS_OF_A_COMMON_ARRAY", 3)
    body = b'[ {"a":[1,2,3,4]} , {"b":"\\u00e4"},{"c":1.50} ]'
    assert split_body(body, lines=False) == [b'{"a":[1,2,3,4]}', b'{"b":"\\u00e4"}', b'{"c":1.50}']
