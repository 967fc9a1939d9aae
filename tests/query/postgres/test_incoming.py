"""The pure protocol: any bytes, however they are split, give messages or one clear refusal."""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.query.postgres.protocol import incoming, types
from headrace.query.postgres.protocol.decoding import literal
from headrace.query.postgres.protocol.encoding import encoder
from headrace.query.postgres.protocol.errors import FatalError, PostgresError
from headrace.query.postgres.protocol.incoming import IncomingMessages, Message


def startup(parameters: dict[str, str], version: int = 3 << 16) -> bytes:
    texts = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items()) + b"\0"
    return struct.pack(">ii", 8 + len(texts), version) + texts


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", 4 + len(body)) + body


def read(pieces: list[bytes]) -> tuple[list[Message], str]:
    """The messages, and the refusal that ended them."""
    reader = IncomingMessages()
    found: list[Message] = []
    try:
        for piece in pieces:
            reader.receive(piece)
            while (each := reader.next_message()) is not None:
                found.append(each)
    except FatalError as error:
        return found, error.state
    return found, ""


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


_BEGINNING = startup({"user": "x"})
_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_VALUES = st.lists(st.none() | st.binary(max_size=10), max_size=4)


@given(
    data=st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: _BEGINNING + tail),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
)
def test_any_bytes_give_the_same_however_they_are_split(data: bytes, cuts: list[int]) -> None:
    assert read(split(data, cuts)) == read([data])


@given(
    names=st.tuples(_TEXTS, _TEXTS),
    sql=_TEXTS,
    oids=st.lists(st.integers(0, 2**32 - 1), max_size=3),
    values=_VALUES,
    rows=st.integers(-(2**31), 2**31 - 1),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
)
def test_messages_come_as_they_were_sent(  # noqa: PLR0917 - hypothesis gives them by name
    names: tuple[str, str],
    sql: str,
    oids: list[int],
    values: list[bytes | None],
    rows: int,
    cuts: list[int],
) -> None:
    portal, statement = (name.encode() + b"\0" for name in names)
    sent = b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values
    )
    data = _BEGINNING + b"".join(
        (
            message(b"Q", sql.encode() + b"\0"),
            message(
                b"P",
                statement + sql.encode() + b"\0" + struct.pack(f">H{len(oids)}I", len(oids), *oids),
            ),
            message(
                b"B",
                portal + statement + struct.pack(">HhH", 1, 1, len(values)) + sent + struct.pack(">Hh", 1, 0),
            ),
            message(b"E", portal + struct.pack(">i", rows)),
            message(b"D", b"S" + statement),
            message(b"C", b"P" + portal),
            message(b"S", b""),
        )
    )
    found, refusal = read(split(data, cuts))
    assert refusal == ""
    assert found == [
        incoming.Startup(major=3, minor=0, parameters={"user": "x"}),
        incoming.Query(sql=sql),
        incoming.Parse(name=names[1], sql=sql, types=tuple(oids)),
        incoming.Bind(
            portal=names[0], statement=names[1], formats=(1,), values=tuple(values), result_formats=(0,)
        ),
        incoming.Execute(portal=names[0], most_rows=rows),
        incoming.Describe(of="S", name=names[1]),
        incoming.Close(of="P", name=names[0]),
        incoming.Sync(),
    ]


@pytest.mark.parametrize("length", [0, 3, 7, 10_001, 2**31 - 1, -1])
def test_a_startup_packet_of_a_wrong_length_is_refused_at_once(length: int) -> None:
    assert read([struct.pack(">i", length)])[1] == "08P01"


@pytest.mark.parametrize(("kind", "length"), [(b"Q", 2**31 - 1), (b"S", 1 << 20), (b"Q", 3), (b"Q", -5)])
def test_a_message_of_a_wrong_length_is_refused_before_its_body(kind: bytes, length: int) -> None:
    assert read([_BEGINNING, kind + struct.pack(">i", length)])[1] == "08P01"


@given(data=st.binary(max_size=60), oid=st.sampled_from(sorted(types.BY_OID)), binary=st.booleans())
def test_any_bytes_of_a_parameter_give_a_literal_or_an_error(data: bytes, oid: int, binary: bool) -> None:
    try:
        text = literal(data, oid, binary=binary)
    except PostgresError as error:
        refusal = error
        assert refusal.state in ("22P02", "22P03", "22021", "0A000")
    else:
        # No value can leave its quotes: outside them there are only casts.
        outside = "".join(text.split("'")[::2])
        assert set(outside) <= set("()[], _") | set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        )


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**20), max_value=10**20))
def test_decimals_keep_their_value_in_both_formats(value: Decimal) -> None:
    binary = encoder("DECIMAL(38,10)", binary=True)(value)
    text = encoder("DECIMAL(38,10)", binary=False)(value)
    for sent, is_binary in ((binary, True), (text, False)):
        written = literal(sent, types.NUMERIC_TYPE.oid, binary=is_binary)
        assert Decimal(written.split("'")[1]) == value


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_arrays_keep_their_texts_in_both_formats(values: list[str | None]) -> None:
    oid = types.TEXT.array_oid
    for binary in (False, True):
        written = literal(encoder("VARCHAR[]", binary=binary)(values), oid, binary=binary)
        expected = literal(encoder("VARCHAR[]", binary=True)(values), oid, binary=True)
        assert written.replace("CAST(NULL AS VARCHAR)", "NULL") == expected.replace(
            "CAST(NULL AS VARCHAR)", "NULL"
        )
