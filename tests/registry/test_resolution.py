"""Which schemas read which, by Avro's rules; a fault says what, where and in which field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.registry.avro.reading import read_avro
from headrace.registry.avro.resolution import faults


def node(schema: Any) -> Any:
    return read_avro(json.dumps(schema)).content


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def of(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


LIST = record(of("value", "int"), of("next", ["null", "R"]))
LONGER_LIST = record(of("value", "long"), of("next", ["null", "R"]), of("more", "int", default=0))
STRICT_LIST = record(of("value", "int"), of("next", "R"))

READABLE = [
    ("int", "int"),
    ("long", "int"),
    ("float", "int"),
    ("double", "int"),
    ("float", "long"),
    ("double", "long"),
    ("double", "float"),
    ("bytes", "string"),
    ("string", "bytes"),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": ["null", "long"]}, {"type": "map", "values": "int"}),
    (enum("A", "B"), enum("B")),
    (enum("A", default="A"), enum("A", "B")),
    (fixed(4), fixed(4)),
    (fixed(4, aliases=["G"]), fixed(4, name="G")),
    (record(of("a", "int"), name="x.R"), record(of("a", "int"), name="y.R")),
    (record(name="x.New", aliases=["Old"]), record(name="x.Old")),
    (record(name="x.New", aliases=["y.Old"]), record(name="y.Old")),
    (record(of("a", "int")), record(of("a", "int"), of("b", "string"))),
    (record(of("a", "int", default=1)), record()),
    (record(of("a", ["null", "int"], default=None)), record(of("b", "int"))),
    (record(of("new", "long", aliases=["old"])), record(of("old", "int"))),
    (record(of("a", "int"), of("b", "int", aliases=["a"], default=0)), record(of("a", "int"))),
    (["null", "int"], "int"),
    (["null", "long"], "int"),
    (["null", "long"], ["int", "null"]),
    ("long", ["int", "long"]),
    (["null", record(of("a", "int"))], record(of("a", "int"))),
    (LIST, LIST),
    (LONGER_LIST, LIST),
    (LIST, STRICT_LIST),
    (decimal(12, 2), decimal(10, 2)),
    ("bytes", decimal(10, 2)),
    (decimal(10, 2), "bytes"),
    ({"type": "long", "logicalType": "timestamp-millis"}, "long"),
    ([], []),
    ("int", []),
]

UNREADABLE = [
    ("int", "long", "TYPE_MISMATCH", "/", ""),
    ("boolean", "int", "TYPE_MISMATCH", "/", ""),
    ("string", "int", "TYPE_MISMATCH", "/", ""),
    ("bytes", fixed(4), "TYPE_MISMATCH", "/", ""),
    ("string", enum("A"), "TYPE_MISMATCH", "/", ""),
    (enum("A"), "string", "TYPE_MISMATCH", "/", ""),
    ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "TYPE_MISMATCH", "/", ""),
    (
        {"type": "array", "items": {"type": "map", "values": "int"}},
        {"type": "array", "items": {"type": "map", "values": "long"}},
        "TYPE_MISMATCH",
        "/items/values",
        "",
    ),
    (enum("A"), enum("A", "C", "B"), "MISSING_ENUM_SYMBOLS", "/symbols", ""),
    (enum("A"), enum("A", name="Other"), "NAME_MISMATCH", "/name", ""),
    (fixed(4), fixed(8), "FIXED_SIZE_MISMATCH", "/size", ""),
    (record(), record(name="Other"), "NAME_MISMATCH", "/name", ""),
    (record(name="x.New", aliases=["Old"]), record(name="y.Old"), "NAME_MISMATCH", "/name", ""),
    (record(of("a", "int")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "a"),
    (
        record(of("x", "int"), of("a", record(of("b", ["null", "int"]), name="I"))),
        record(of("x", "int"), of("a", record(of("b", "string"), name="I"))),
        "MISSING_UNION_BRANCH",
        "/fields/1/type/fields/0/type",
        "a.b",
    ),
    (["null", "int"], ["null", "string"], "MISSING_UNION_BRANCH", "/1", ""),
    ("int", ["int", "null"], "TYPE_MISMATCH", "/", ""),
    (["null", fixed(4)], fixed(8), "MISSING_UNION_BRANCH", "/", ""),
    (
        ["null", record(of("a", "int"))],
        ["null", record(of("a", "string"))],
        "TYPE_MISMATCH",
        "/1/fields/0/type",
        "a",
    ),
    # One field of the writer cannot feed two of the reader, nor two of it one.
    (
        record(of("a", "int"), of("b", "int", aliases=["a"])),
        record(of("a", "int")),
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "/fields/1",
        "b",
    ),
    (
        record(of("b", "int", aliases=["a"])),
        record(of("a", "int"), of("b", "int")),
        "NAME_MISMATCH",
        "/fields/0/type",
        "b",
    ),
    # A reader takes the first branch of that name, or the one of the full name: both have to fit.
    (
        [record(of("a", "int"), name="x.R"), record(of("a", "string"), name="y.R")],
        record(of("a", "string"), name="y.R"),
        "TYPE_MISMATCH",
        "/fields/0/type",
        "a",
    ),
    (STRICT_LIST, LIST, "TYPE_MISMATCH", "/fields/1/type", "next"),
    (LIST, LONGER_LIST, "TYPE_MISMATCH", "/fields/0/type", "value"),
    (decimal(10, 3), decimal(10, 2), "TYPE_MISMATCH", "/", ""),
    (decimal(8, 2), decimal(10, 2), "TYPE_MISMATCH", "/", ""),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE)
def test_what_can_be_read(reader: Any, writer: Any) -> None:
    assert faults(node(reader), node(writer)) == []


@pytest.mark.parametrize(("reader", "writer", "kind", "location", "field"), UNREADABLE)
def test_what_cannot_be_read(reader: Any, writer: Any, kind: str, location: str, field: str) -> None:
    (found,) = faults(node(reader), node(writer))
    assert (found.kind, found.location, found.field) == (kind, location, field)


def test_every_fault_is_told() -> None:
    reader = record(of("a", "int"), of("b", "int"), of("c", enum("X")))
    writer = record(of("a", "string"), of("c", enum("X", "Z", "Y")))
    assert sorted((each.kind, each.reason) for each in faults(node(reader), node(writer))) == [
        ("MISSING_ENUM_SYMBOLS", "[Y, Z]"),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "b"),
        ("TYPE_MISMATCH", "reader type: INT not compatible with writer type: STRING"),
    ]


def test_a_fault_behind_a_cycle_is_found_wherever_the_cycle_is_entered() -> None:
    def tree(kind: str) -> Any:
        leaf = record(of("kind", kind), of("up", ["null", "T"]), name="L")
        return record(of("left", ["null", "T"]), of("leaf", ["null", leaf]), name="T")

    assert faults(node(tree("long")), node(tree("int"))) == []
    assert [each.field for each in faults(node(tree("int")), node(tree("long")))] == ["leaf.kind"]


def test_schemas_may_be_deep() -> None:
    def deep(kind: str) -> str:
        return '{"type":"array","items":' * 150 + f'"{kind}"' + "}" * 150

    long, int_ = read_avro(deep("long")).content, read_avro(deep("int")).content
    assert faults(long, int_) == []
    assert len(faults(int_, long)) == 1
