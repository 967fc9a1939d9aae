"""A reply goes out in every version, and headers are read as clients write them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from headrace.wire.errors import MalformedRequestError
from headrace.wire.messages import NO_THROTTLE, Messages, of_version, snake_case
from headrace.wire.request_header import body_of, read_request_header, reply_header
from tests.wire.kio_entities import read


@pytest.mark.parametrize("version", range(1, 12))
def test_a_reply_has_what_its_version_has(version: int) -> None:
    partition = ListOffsetsPartitionResponse(
        partition_index=1, error_code=ErrorCode.none, timestamp=5, offset=6, leader_epoch=7
    )
    topic = ListOffsetsTopicResponse(name="t", partitions=(partition,))
    reply = ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=(topic,))
    data = Messages(ListOffsetsRequest, ListOffsetsResponse).at(version).write(reply)
    answer = read(of_version(ListOffsetsResponse, version), data)
    assert answer.topics[0].partitions[0].offset == 6
    assert hasattr(answer.topics[0].partitions[0], "leader_epoch") == (version >= 4)


def test_names_of_apis_become_names_of_modules() -> None:
    assert snake_case("OffsetForLeaderEpoch") == "offset_for_leader_epoch"


@given(
    key=st.integers(0, 100),
    version=st.integers(0, 20),
    correlation=st.integers(-(2**31), 2**31 - 1),
    client=st.none() | st.text(st.characters(codec="utf-8"), max_size=30),
    body=st.binary(max_size=50),
)
def test_headers_are_read_as_they_are_written(
    key: int, version: int, correlation: int, client: str | None, body: bytes
) -> None:
    name = b"" if client is None else client.encode()
    fixed = struct.pack(">hhih", key, version, correlation, -1 if client is None else len(name)) + name
    header = read_request_header(memoryview(fixed + body))
    assert header[:4] == (key, version, correlation, client)
    assert bytes(body_of(memoryview(fixed + body), header, flexible=False)) == body
    tagged = b"\x02\x00\x03abc\x05\x00"
    assert bytes(body_of(memoryview(fixed + tagged + body), header, flexible=True)) == body


@given(data=st.binary(max_size=40), flexible=st.booleans())
def test_random_bytes_are_a_header_or_are_refused(data: bytes, flexible: bool) -> None:
    frame = memoryview(data)
    try:
        header = read_request_header(frame)
        assert len(body_of(frame, header, flexible=flexible)) <= len(data)
    except MalformedRequestError:
        return


def test_a_reply_begins_with_its_size() -> None:
    assert reply_header(7, 10, flexible=False) == struct.pack(">ii", 14, 7)
    assert reply_header(7, 10, flexible=True) == struct.pack(">iib", 15, 7, 0)
