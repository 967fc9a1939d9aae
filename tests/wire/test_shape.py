"""Every request that kio writes has its shape; lies about lengths are found before anybody believes them."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.apis import ALL
from headrace.wire.errors import MalformedRequestError
from headrace.wire.messages import messages, snake_case
from headrace.wire.shape import check_shape
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
    check_shape(message, memoryview(body))
    if body:
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(MalformedRequestError):
            check_shape(message, memoryview(body)[:cut])


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
