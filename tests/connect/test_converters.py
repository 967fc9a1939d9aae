"""Converters: Kafka Connect's bytes to values and back."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.converters import (
    BYTES_CONVERTER,
    CONVERTERS,
    JSON_CONVERTER,
    STRING_CONVERTER,
    full_name,
    make_converter,
)
from headrace.connect.data import STRING, DataError, Schema
from headrace.connect.java_text import java_text

PACKAGE = "org.apache.kafka.connect.converters"
RECORD = Schema(
    type="struct",
    fields=(
        ("id", Schema(type="int64")),
        ("name", Schema(type="string", optional=True)),
        ("data", Schema(type="bytes", optional=True)),
        ("tags", Schema(type="array", items=STRING)),
        ("sizes", Schema(type="map", keys=STRING, values=Schema(type="double"))),
    ),
)


@pytest.mark.parametrize("name", CONVERTERS)
def test_null_stays_null(name: str) -> None:
    converter = make_converter(name, {"schemas.enable": "false"})
    assert converter.to_bytes(None, None) is None
    assert converter.from_bytes(None)[1] is None


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("IntegerConverter", -2, b"\xff\xff\xff\xfe"),
        ("LongConverter", 258, b"\x00\x00\x00\x00\x00\x00\x01\x02"),
        ("ShortConverter", 258, b"\x01\x02"),
        ("DoubleConverter", 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        ("FloatConverter", 1.5, b"\x3f\xc0\x00\x00"),
        ("BooleanConverter", True, b"\x01"),
    ],
)
def test_numbers_are_as_kafka_s_serializers_write_them(name: str, value: Any, data: bytes) -> None:
    converter = make_converter(f"{PACKAGE}.{name}", {})
    assert converter.to_bytes(None, value) == data
    assert converter.from_bytes(data)[1] == value
    with pytest.raises(DataError):
        converter.from_bytes(data + b"\x00")


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError):
        make_converter(f"{PACKAGE}.ShortConverter", {}).to_bytes(None, 70_000)
    with pytest.raises(DataError):
        make_converter(BYTES_CONVERTER, {}).to_bytes(None, "text")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_json_without_schemas_reads_what_it_writes(value: Any) -> None:
    converter = make_converter(JSON_CONVERTER, {"schemas.enable": "false"})
    assert converter.from_bytes(converter.to_bytes(None, value)) == (None, value)


@given(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "name": st.none() | st.text(),
            "data": st.none() | st.binary(),
            "tags": st.lists(st.text(), max_size=3),
            "sizes": st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        }
    )
)
def test_json_with_schemas_reads_what_it_writes(value: dict[str, Any]) -> None:
    converter = make_converter(JSON_CONVERTER, {})
    data = converter.to_bytes(RECORD, value)
    assert data is not None
    assert json.loads(data).keys() == {"schema", "payload"}
    assert converter.from_bytes(data) == (RECORD, value)


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for name in CONVERTERS:
        for settings in ({}, {"schemas.enable": "false"}):
            with contextlib.suppress(DataError):
                make_converter(name, settings).from_bytes(data)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a": 1}',
        '{"schema": {"type": "int32"}, "payload": "x"}',
        '{"schema": {"type": "int8"}, "payload": 300}',
        '{"schema": {"type": "strange"}, "payload": 1}',
        '{"schema": {"type": "struct"}, "payload": {}}',
        '{"schema": {"type": "array"}, "payload": []}',
        '{"schema": {"type": "string"}, "payload": null}',
        '{"schema": 3, "payload": null}',
        "[" * 100_000,
    ],
)
def test_json_with_schemas_refuses_what_does_not_fit(text: str) -> None:
    with pytest.raises(DataError):
        make_converter(JSON_CONVERTER, {}).from_bytes(text.encode())


def test_names_and_encodings() -> None:
    assert full_name("Json") == full_name("JsonConverter") == JSON_CONVERTER
    assert full_name("io.confluent.connect.avro.AvroConverter") is None
    with pytest.raises(DataError, match="could not be found"):
        make_converter("Avro", {})
    assert (
        make_converter(STRING_CONVERTER, {"converter.encoding": "ISO-8859-1"}).to_bytes(STRING, "ä")
        == b"\xe4"
    )
    with pytest.raises(DataError):
        make_converter(STRING_CONVERTER, {"converter.encoding": "klingon"})


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        ("x", None, "x"),
        (None, None, "null"),
        (True, None, "true"),
        (1.0, None, "1.0"),
        (1e7, None, "1.0E7"),
        (1.25e-5, None, "1.25E-5"),
        (float("inf"), None, "Infinity"),
        ({"a": 1, "b": [True, "x"]}, None, "{a=1, b=[true, x]}"),
        (
            {"a": 1, "b": None},
            Schema(type="struct", fields=(("a", Schema(type="int32")), ("b", STRING))),
            "Struct{a=1}",
        ),
        (b"raw", None, "raw"),
    ],
)
def test_values_as_java_writes_them(value: Any, schema: Schema | None, text: str) -> None:
    assert java_text(value, schema) == text
