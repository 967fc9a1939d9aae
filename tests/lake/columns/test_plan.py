"""Which tables are written in columns, and what keeps the others from it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.client.topics import TopicIdentity
from headrace.lake.avro_columns import columns_of
from headrace.lake.columns.plan import ColumnPlan, column_plan
from headrace.lake.location import Location
from headrace.lake.sink import (
    Converter,
    ConverterKind,
    ErrorPolicy,
    FileFormat,
    LakeSink,
    LocalStorage,
    Partitioning,
    Transformation,
)

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "KIND", "type": "string"},
            {"name": "AMOUNT", "type": "double"},
            {"name": "TAGS", "type": {"type": "array", "items": "string"}},
        ],
    }
)
PLAIN = json.dumps({**json.loads(SCHEMA), "fields": json.loads(SCHEMA)["fields"][:2]})
SINK = LakeSink(
    name="sink",
    topics=("rows",),
    topics_regex="",
    storage=LocalStorage(root=Path("/nonexistent")),
    topics_dir="",
    key=Converter(kind=ConverterKind.STRING),
    value=Converter(kind=ConverterKind.AVRO),
    partitioning=Partitioning(),
    flush_size=1_000,
    commit_within_ms=None,
    errors=ErrorPolicy(tolerates_all=True),
)


def planned(
    *, schema: str = PLAIN, folders: tuple[str, ...] = (), derived: tuple[str, ...] = (), **changes: Any
) -> ColumnPlan | str:
    return column_plan(
        dataclasses.replace(SINK, **changes),
        TopicIdentity(name="rows", topic_id="id", partitions=1),
        bootstrap="127.0.0.1:9092",
        location=Location.local(Path("/nonexistent/rows")),
        columns=columns_of(schema),
        partition_columns=folders,
        derived_columns=derived,
        schemas={1: schema},
    )


def test_a_table_of_fields() -> None:
    found = planned(folders=("KIND",))
    assert isinstance(found, ColumnPlan)
    assert [each.name for each in found.folders] == ["KIND"]


def test_a_router_changes_no_record() -> None:
    router = Transformation(
        name="table", kind="RegexRouter", side="", settings={"regex": "a", "replacement": "b"}
    )
    assert isinstance(planned(transformations=(router,)), ColumnPlan)


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        (
            "its records are transformed",
            {"transformations": (Transformation(name="c", kind="Cast", side="value"),)},
        ),
        ("its values are not Avro", {"value": Converter(kind=ConverterKind.JSON)}),
        ("it stores keys or headers", {"stores_keys": True}),
        ("it is not a Delta table", {"file_format": FileFormat.JSON}),
        ("its files are compressed with brotli", {"codec": "brotli"}),
        ("AMOUNT, a partition column, is DOUBLE", {"folders": ("AMOUNT",)}),
        ("inner.city, partition columns, are not fields of its records", {"derived": ("inner.city",)}),
        ("schema 1: field TAGS is not a single value", {"schema": SCHEMA}),
    ],
)
def test_what_keeps_a_table_from_it(why: str, changes: dict[str, Any]) -> None:
    assert planned(**changes) == why
