"""Rows in every format: written, read back, and the very bytes where ksqlDB's documentation gives them."""

from __future__ import annotations

import contextlib
import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, KeyWindow
from headrace.pipeline.expressions.values import ValueProblemError, coerced, timestamp_of
from headrace.pipeline.formats import Serializer, avro_types, delimited
from headrace.pipeline.statements.queries import WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)
from tests.serving.samples import source


class Schemas:
    """A registry in memory."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[str, str]] = {}

    def register(self, subject: str, schema: str, /) -> int:
        for number, known in self.known.items():
            if known == (subject, schema):
                return number
        self.known[len(self.known) + 1] = (subject, schema)
        return len(self.known)

    def schema_by_id(self, schema_id: int, /) -> str | None:
        return self.known[schema_id][1] if schema_id in self.known else None

    def schemas_of(self, subject: str, /) -> dict[int, str]:
        return {number: schema for number, (known, schema) in self.known.items() if known == subject}


VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INTEGER: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    VARCHAR: st.text(min_size=1),
    BYTES: st.binary(min_size=1),
    DATE: st.dates(),
    TIME: st.integers(0, 86_399_999).map(lambda ms: (timestamp_of(ms)).time()),
    TIMESTAMP: st.integers(-(10**12), 10**13).map(timestamp_of),
    DecimalType(9, 3): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-3)),
}
STRUCT = StructType((StructField("A", INTEGER), StructField("b", VARCHAR)))
NESTED: dict[DataType, st.SearchStrategy[Any]] = {
    ArrayType(BIGINT): st.lists(st.none() | VALUES[BIGINT], max_size=3),
    ArrayType(STRUCT): st.lists(st.fixed_dictionaries({"A": VALUES[INTEGER], "b": st.text()}), max_size=2),
    MapType(VARCHAR, DATE): st.dictionaries(st.text(), VALUES[DATE], max_size=3),
    STRUCT: st.fixed_dictionaries({"A": st.none() | VALUES[INTEGER], "b": st.text()}),
}


def rows_of(kinds: dict[DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {f"C{number}": st.none() | values for number, values in enumerate(kinds.values())}
    )


def columns_of(kinds: dict[DataType, st.SearchStrategy[Any]]) -> tuple[Column, ...]:
    return tuple(Column(name=f"C{number}", type=kind) for number, kind in enumerate(kinds))


def check(row: dict[str, Any], kinds: dict[DataType, st.SearchStrategy[Any]], encoding: Encoding) -> None:
    serializer = Serializer(source(value=columns_of(kinds), value_encoding=encoding), Schemas())
    assert serializer.read_value(serializer.value(row)) == row


@pytest.mark.parametrize("form", [Format.JSON, Format.AVRO])
def test_all_types_come_back(form: Format) -> None:
    kinds = {**VALUES, **NESTED}

    @given(rows_of(kinds))
    def holds(row: dict[str, Any]) -> None:
        check(row, kinds, Encoding(format=form))

    holds()


@given(rows_of(VALUES).filter(lambda row: "\n" not in str(row["C4"]) and "\r" not in str(row["C4"])))
def test_delimited_comes_back(row: dict[str, Any]) -> None:
    check(row, VALUES, Encoding(format=Format.DELIMITED, delimiter="TAB"))


@pytest.mark.parametrize("kind", [INTEGER, BIGINT, DOUBLE, VARCHAR, BYTES])
@pytest.mark.parametrize("form", [Format.KAFKA, Format.JSON, Format.AVRO])
def test_keys_of_one_column_stand_alone(kind: ScalarType, form: Format) -> None:
    if (kind, form) == (DOUBLE, Format.AVRO):
        return
    made = source(key=(Column(name="K", type=kind),), key_encoding=Encoding(format=form))

    @given(VALUES[kind])
    def holds(value: Any) -> None:
        serializer = Serializer(made, Schemas())
        assert serializer.read_key(serializer.key({"K": value})) == {"K": value}

    holds()


def test_bytes_are_those_that_ksqldb_documents() -> None:
    schemas = Schemas()

    def value(row: dict[str, Any], columns: dict[str, DataType], encoding: Encoding) -> bytes | None:
        named = tuple(Column(name=name, type=kind) for name, kind in columns.items())
        return Serializer(source(value=named, value_encoding=encoding), schemas).value(row)

    times = {"D": date(1970, 1, 3), "T": time(0, 0, 1, 5000), "S": datetime(1970, 1, 1, 0, 1, tzinfo=UTC)}
    kinds: dict[str, DataType] = {"D": DATE, "T": TIME, "S": TIMESTAMP}
    as_json = Encoding(format=Format.JSON)
    assert value(times, kinds, as_json) == b'{"D":2,"T":1005,"S":60000}'
    numbers = {"A": Decimal("1.50"), "B": b"\x01", "C": None}
    types: dict[str, DataType] = {"A": DecimalType(4, 2), "B": BYTES, "C": VARCHAR}
    assert value(numbers, types, as_json) == b'{"A":1.50,"B":"AQ==","C":null}'
    bare = Encoding(format=Format.JSON, wrapped=False)
    assert value({"A": "x"}, {"A": VARCHAR}, bare) == b'"x"'
    delimited = Encoding(format=Format.DELIMITED)
    assert value({"A": 'a,"b"', "B": 5, "C": None}, {"A": VARCHAR, "B": BIGINT, "C": DATE}, delimited) == (
        b'"a,""b""",5,'
    )
    assert value({"A": float("nan")}, {"A": DOUBLE}, as_json) == b'{"A":"NaN"}'
    assert value({"A": 5}, {"A": BIGINT}, Encoding(format=Format.KAFKA)) == struct.pack(">q", 5)
    assert value({"A": 5}, {"A": BIGINT}, Encoding(format=Format.NONE)) is None
    written = value({"A": 5}, {"A": INTEGER}, Encoding(format=Format.AVRO))
    assert written == b"\x00\x00\x00\x00\x01" + b"\x02\x0a"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"id": 1, "Name": "x"}', {"ID": 1, "NAME": "x"}),
        (b'{"ID": "7", "NAME": 5}', {"ID": 7, "NAME": "5"}),
        (b'{"NAME": {"a": [1.50]}}', {"ID": None, "NAME": '{"a":[1.50]}'}),
        (b'{"ID": 3.0, "other": 1}', {"ID": 3, "NAME": None}),
        (b"null", {"ID": None, "NAME": None}),
    ],
)
def test_json_is_read_leniently(data: bytes, expected: dict[str, Any]) -> None:
    columns = (Column(name="ID", type=BIGINT), Column(name="NAME", type=VARCHAR))
    assert Serializer(source(value=columns), Schemas()).read_value(data) == expected


@pytest.mark.parametrize("form", [Format.JSON, Format.AVRO, Format.DELIMITED, Format.KAFKA])
@given(data=st.binary())
def test_damaged_values_are_refused_as_such(form: Format, data: bytes) -> None:
    schemas = Schemas()
    made = source(value=(Column(name="V", type=BIGINT),), value_encoding=Encoding(format=form))
    serializer = Serializer(made, schemas)
    serializer.value({"V": 1})
    for damaged in (data, b"\x00\x00\x00\x00\x01" + data, b"[" * 100_000):
        with contextlib.suppress(ValueProblemError):
            assert set(serializer.read_value(damaged)) == {"V"}


def test_windows_are_behind_the_key() -> None:
    tumbling = source(kind=SourceKind.TABLE, window=KeyWindow(kind=WindowKind.TUMBLING, size_ms=500))
    key = b"a" + struct.pack(">q", 1000)
    assert Serializer(tumbling, Schemas()).read_key(key) == {
        "ID": "a",
        "WINDOWSTART": 1000,
        "WINDOWEND": 1500,
    }
    session = source(kind=SourceKind.TABLE, window=KeyWindow(kind=WindowKind.SESSION, size_ms=None))
    key = b"a" + struct.pack(">qq", 2000, 1000)
    assert Serializer(session, Schemas()).read_key(key) == {"ID": "a", "WINDOWSTART": 1000, "WINDOWEND": 2000}
    with pytest.raises(ValueProblemError):
        Serializer(session, Schemas()).read_key(b"short")


def test_avro_of_other_writers_is_read_by_name_without_case() -> None:
    schemas = Schemas()
    theirs = {
        "type": "record",
        "name": "Theirs",
        "fields": [
            {"name": "extra", "type": "int"},
            {"name": "id", "type": "long"},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}},
        ],
    }
    schema_id = schemas.register("s-value", json.dumps(theirs))
    columns = (
        Column(name="ID", type=BIGINT),
        Column(name="TAGS", type=MapType(VARCHAR, VARCHAR)),
        Column(name="COLOR", type=VARCHAR),
        Column(name="MORE", type=VARCHAR),
    )
    encoding = Encoding(format=Format.AVRO, schema_id=schema_id)
    serializer = Serializer(source(value=columns[:3], value_encoding=encoding), schemas)
    with pytest.raises(ValueProblemError):
        serializer.value({"ID": 1, "TAGS": {"a": "b"}, "COLOR": "RED"})
    theirs["fields"][0]["default"] = 4  # type: ignore[index]
    encoding = Encoding(format=Format.AVRO, schema_id=schemas.register("s-value", json.dumps(theirs)))
    written = Serializer(source(value=columns[:3], value_encoding=encoding), schemas).value(
        {"ID": 1, "TAGS": {"a": "b"}, "COLOR": "RED"}
    )
    read = Serializer(source(value=columns, value_encoding=encoding), schemas).read_value(written)
    assert read == {"ID": 1, "TAGS": {"a": "b"}, "COLOR": "RED", "MORE": None}


def test_records_in_a_record_of_another_name_stand_in_its_namespace() -> None:
    schema = json.loads(avro_types.record_schema(columns_of(NESTED), "com.example.Order"))
    assert (schema["namespace"], schema["name"]) == ("com.example", "Order")
    inner = [json.dumps(field["type"]) for field in schema["fields"]]
    assert "Order_" in "".join(inner)
    assert avro_types.NAMESPACE not in "".join(inner)
    assert fastavro.parse_schema(schema)


def test_decimals_of_many_digits() -> None:
    kind = DecimalType(38, 10)
    number = "7328166865603466000000000000.0000000001"
    assert str(coerced(number, kind)) == number
    for large in ("1E+400", "9" * 60):
        with pytest.raises(ValueProblemError, match="more digits"):
            coerced(large, kind)


def test_an_empty_line_is_a_null() -> None:
    column = (Column(name="V", type=VARCHAR),)
    assert delimited.deserialized(b"", column, ",") == [None]
    with pytest.raises(ValueProblemError, match="1 fields instead of 2"):
        delimited.deserialized(b"", column * 2, ",")
