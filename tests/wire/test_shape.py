"""Every request that kio writes has its shape; lies about lengths are found before anybody believes them."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.apis import ALL
from headrace.wire.errors import MalformedRequestError
from headrace.wire.messages import messages, snake_case
from headrace.wire.shape import checked
from tests.wire.kio_entities import entities, written

MESSAGES = [
    getattr(import_module(f"kio.schema.{snake_case(api.name)}.v{version}.request"), f"{api.name}Request")
    for api in ALL.values()
    for version in range(api.versions[0], api.versions[1] + 1)
    if api.serves(version)
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: f"{each.__name__}-v{each.__version__}")
@settings(max_examples=15)
@given(data=st.data())
def test_what_kio_writes_has_its_shape(message: type, data: st.DataObject) -> None:
    body = written(data.draw(entities(message)))
    assert checked(message, body) == body
    if body:
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(MalformedRequestError):
            checked(message, body[:cut])


@settings(max_examples=300)
@given(message=st.sampled_from(MESSAGES), body=st.binary(max_size=200))
def test_random_bytes_never_make_kio_take_too_much(message: type, body: bytes) -> None:
    api, version = message.__name__.removesuffix("Request"), message.__version__  # type: ignore[attr-defined]
    try:
        messages(api, version, version).read(body)
    except MalformedRequestError:
        return


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
        messages("Metadata", 12, 13).read(body)


def test_an_array_that_must_be_there_is_not_null() -> None:
    # DeleteGroups 0: one array of names.
    with pytest.raises(MalformedRequestError, match="groups_names is null"):
        messages("DeleteGroups", 0, 2).read(b"\xff\xff\xff\xff")
    # Metadata 1: null asks for all topics.
    assert messages("Metadata", 1, 13).read(b"\xff\xff\xff\xff").topics is None


def test_unknown_tagged_fields_are_passed_over() -> None:
    """KIP-482: a newer client may send them in a version that we know; here in an element and at the end."""
    known = messages("Metadata", 12, 13).read(b"\x02" + bytes(16) + b"\x02a\x00" + b"\x01\x00\x00")
    unknown = b"\x02\x63\x02ab\x64\x00"
    body = b"\x02" + bytes(16) + b"\x02a" + unknown + b"\x01\x00" + unknown
    assert messages("Metadata", 12, 13).read(body) == known


def test_unknown_tagged_fields_without_end_are_refused() -> None:
    element = bytes(16) + b"\x02a" + b"\x01\x63\x00"
    with pytest.raises(MalformedRequestError):
        messages("Metadata", 12, 13).read(b"\xe9\x07" + element * 1000 + b"\x01\x00\x00")
