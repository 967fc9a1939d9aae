"""The header that says where a derived record comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.coordinates import SourceCoordinates, parse_batch, parse_source

_NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)))


@given(
    query=_NAMES,
    topic_id=_NAMES.filter(bool),
    partition=st.integers(0, 10**9 - 1),
    offset=st.integers(0, 10**18 - 1),
    ordinal=st.integers(0, 10**9 - 1),
)
def test_a_header_reads_back_as_it_was_written(
    query: str, topic_id: str, partition: int, offset: int, ordinal: int
) -> None:
    coordinates = SourceCoordinates(
        query=query, topic_id=topic_id, partition=partition, offset=offset, ordinal=ordinal
    )
    assert parse_source(coordinates.as_header()) == coordinates


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"a/b/1/2",
        b"a/b/x/2/3",
        b"a/b/1/2/3/4",
        b"\xff/b/1/2/3",
        b"a/b/1/2/-1",
        b"a/b/1/2/3\n",
        b"a/b/ 1/2/3",
        b"a/b/1/1_0/3",
        "a/b/1/٢/3".encode(),
        b"a/b/1/2/100000000000",
        b"a/b/1/1" + b"0" * 30 + b"/3",
        b"a/b/1/1" + b"0" * 5000 + b"/3",
    ],
)
def test_anything_else_is_refused(header: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_source(header)


@pytest.mark.parametrize("number", ["-1", "٢", "1" + "0" * 5000, ""])
def test_a_batch_has_a_number(number: str) -> None:
    assert parse_batch(f"q/c/batch/{number}/o".encode()) is None
