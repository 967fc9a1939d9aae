"""What is said to be readable is: fastavro, which knows nothing of the checker, decodes it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.registry.avro.reading import read_avro
from headrace.registry.avro.resolution import faults
from headrace.registry.compatibility import incompatibility
from headrace.registry.level import Level
from headrace.registry.records import SchemaRecord
from headrace.registry.schema import Schema
from tests.registry.schema_pairs import Values, changed, schemas


def read(record: SchemaRecord) -> Schema[object]:
    return read_avro(record.schema)


def is_valid(schema: Any) -> bool:
    try:
        read_avro(json.dumps(schema))
    except HeadraceError:
        return False
    return True


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    one = draw(schemas())
    other = draw(changed(one) if draw(st.integers(0, 9)) else schemas())
    assume(is_valid(one) and is_valid(other))
    return one, other


def decoded(data: bytes, writer: Any, reader: Any) -> Any:
    return fastavro.schemaless_reader(
        io.BytesIO(data), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )


@settings(max_examples=60)
@given(pair=pairs(), data=st.data())
def test_what_is_said_to_be_readable_is_decoded_by_another_library(
    pair: tuple[Any, Any], data: st.DataObject
) -> None:
    check(pair, data)


@pytest.mark.long
@settings(max_examples=3_000)
@given(pair=pairs(), data=st.data())
def test_much_that_is_said_to_be_readable_is_decoded_by_another_library(
    pair: tuple[Any, Any], data: st.DataObject
) -> None:
    check(pair, data)


def check(pair: tuple[Any, Any], data: st.DataObject) -> None:
    writer, reader = pair
    found = faults(read_avro(json.dumps(reader)).content, read_avro(json.dumps(writer)).content)
    event(f"readable: {not found}, the same: {reader == writer}")
    assume(not found)
    for _ in range(3):
        value = data.draw(st.composite(lambda draw: Values(draw, writer).value(writer))())
        written = io.BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(writer), value)
        decoded(written.getvalue(), writer, reader)


@given(schemas())
@example(
    # The first branch with the short name R is not the one that was written.
    {
        "type": "record",
        "name": "x.S",
        "fields": [
            {
                "name": "a",
                "type": [
                    {"type": "record", "name": "x.R", "fields": [{"name": "a", "type": ["null", "x.R"]}]},
                    {"type": "record", "name": "y.R", "fields": []},
                ],
            }
        ],
    }
)
def test_every_schema_reads_itself(schema: Any) -> None:
    assume(is_valid(schema))
    tree = read_avro(json.dumps(schema)).content
    assert faults(tree, read_avro(json.dumps(schema)).content) == []
    assert faults(tree, tree) == []


@given(pairs(), pairs())
def test_levels_are_made_of_each_other(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    new = read_avro(json.dumps(one[1]))
    versions = [
        SchemaRecord(subject="s", version=number, id=number, schema=json.dumps(schema))
        for number, schema in enumerate((*other, one[0]), start=1)
    ]

    def takes(level: Level) -> bool:
        return incompatibility(level, new, versions, read) is None

    assert takes(Level.NONE)
    assert takes(Level.FULL) == (takes(Level.BACKWARD) and takes(Level.FORWARD))
    assert takes(Level.FULL_TRANSITIVE) == (
        takes(Level.BACKWARD_TRANSITIVE) and takes(Level.FORWARD_TRANSITIVE)
    )
    for name in ("BACKWARD", "FORWARD", "FULL"):
        transitive = Level(f"{name}_TRANSITIVE")
        one_by_one = [incompatibility(Level(name), new, [version], read) is None for version in versions]
        assert takes(Level(name)) == one_by_one[-1]
        assert takes(transitive) == all(one_by_one)
    # What the old one can read of the new is what the new one would have to read, were they swapped.
    swapped = SchemaRecord(subject="s", version=1, id=1, schema=new.text)
    old = read_avro(versions[-1].schema)
    assert takes(Level.FORWARD) == (incompatibility(Level.BACKWARD, old, [swapped], read) is None)
