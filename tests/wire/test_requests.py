"""Requests of every version are read as the newest; lies about lengths are found at once."""

from __future__ import annotations

import dataclasses
import datetime
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.metadata.v13.request import MetadataRequest

from headrace.broker.api import Typed
from headrace.broker.apis import ALL
from headrace.wire.errors import MalformedRequestError
from headrace.wire.messages import of_version, snake_case
from headrace.wire.requests import request_reader
from tests.wire.kio_entities import entities, read, written

# What each version sends, and the class that it is read as.
MESSAGES = [
    (
        getattr(import_module(f"kio.schema.{snake_case(api.name)}.v{version}.request"), f"{api.name}Request"),
        handler.messages.request,
    )
    for api in ALL.values()
    if isinstance(handler := api.handler(), Typed)
    for version in range(api.versions[0], api.versions[1] + 1)
]


@pytest.mark.parametrize(
    ("sent", "wanted"), MESSAGES, ids=[f"{sent.__name__}-v{sent.__version__}" for sent, _wanted in MESSAGES]
)
@settings(max_examples=15)
@given(data=st.data())
def test_what_kio_writes_is_read_as_kio_reads_it(sent: type, wanted: type, data: st.DataObject) -> None:
    body = written(data.draw(entities(sent)))
    request = request_reader(sent, wanted)(body)
    assert type(request) is wanted
    assert_has_fields_of(read(sent, body), request)
    if body:
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(MalformedRequestError):
            request_reader(sent, wanted)(body[:cut])


def assert_has_fields_of(sent: Any, found: Any) -> None:
    if isinstance(sent, tuple):
        assert len(sent) == len(found)
        for one, other in zip(sent, found, strict=True):
            assert_has_fields_of(one, other)
    elif dataclasses.is_dataclass(sent):
        for field in dataclasses.fields(sent):
            assert_has_fields_of(getattr(sent, field.name), getattr(found, field.name))
    else:
        assert sent == found


def test_a_field_that_a_version_has_not_takes_the_default_of_kafka() -> None:
    # JoinGroup 0: group, session timeout, member, protocol type, no protocols.
    body = b"\x00\x01g" + (5).to_bytes(4) + b"\x00\x00" + b"\x00\x01c" + bytes(4)
    request = request_reader(of_version(JoinGroupRequest, 0), JoinGroupRequest)(body)
    assert request.session_timeout == datetime.timedelta(milliseconds=5)
    assert request.rebalance_timeout == datetime.timedelta(milliseconds=-1)
    assert request.group_instance_id is None
    assert request.protocols == ()


@settings(max_examples=300)
@given(message=st.sampled_from(MESSAGES), body=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(message: tuple[type, type], body: bytes) -> None:
    try:
        request_reader(*message)(body)
    except MalformedRequestError:
        return


def read_metadata(version: int, body: bytes) -> MetadataRequest:
    return request_reader(of_version(MetadataRequest, version), MetadataRequest)(body)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff\xff\xff\x0f" + b"\x00" * 20,  # four thousand million topics
        b"\xff\xff\xff\xff\xff\x7f" + b"\x00" * 20,  # a number that is too long
        b"\x02\x00" + b"\x00" * 10,
    ],
)
def test_an_array_cannot_claim_more_than_is_there(body: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        read_metadata(12, body)


def test_an_array_that_must_be_there_is_not_null() -> None:
    # DeleteGroups 0: one array of names.
    with pytest.raises(MalformedRequestError, match="groups_names is null"):
        request_reader(of_version(DeleteGroupsRequest, 0), DeleteGroupsRequest)(b"\xff\xff\xff\xff")
    # Only -1 is null.
    with pytest.raises(MalformedRequestError, match="-2 elements"):
        read_metadata(1, b"\xff\xff\xff\xfe")
    # Metadata 1: null asks for all topics.
    assert read_metadata(1, b"\xff\xff\xff\xff").topics is None


def test_unknown_tagged_fields_are_passed_over() -> None:
    """KIP-482: a newer client may send them in a version that we know; here in an element and at the end."""
    known = read_metadata(12, b"\x02" + bytes(16) + b"\x02a\x00" + b"\x01\x00\x00")
    unknown = b"\x02\x63\x02ab\x64\x00"
    body = b"\x02" + bytes(16) + b"\x02a" + unknown + b"\x01\x00" + unknown
    assert read_metadata(12, body) == known


def test_many_elements_with_unknown_tagged_fields_are_read() -> None:
    element = bytes(16) + b"\x02a" + b"\x01\x63\x00"
    request = read_metadata(12, b"\xe9\x07" + element * 1000 + b"\x01\x00\x00")
    assert request.topics is not None
    assert len(request.topics) == 1000
