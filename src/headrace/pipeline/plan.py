"""Frozen plans of streaming flows: what is to run, apart from how Spark runs it.

A plan names topics, columns and expressions; it holds no identity of a running topic (ids and partition
counts are looked up when a flow starts) and no Spark object. Expressions are Spark SQL over the flow's
columns.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.lake.layout import TableLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumn:
    """A column computed from the others."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscodeFlow:
    """JSON records of one topic, as Avro records of another; what is no JSON object goes to the dead
    letters.
    """

    query: str
    source_topic: str
    sink_topic: str
    dead_letter_topic: str
    columns: tuple[str, ...]
    derived: tuple[DerivedColumn, ...]

    @property
    def subject(self) -> str:
        return f"{self.sink_topic}-value"

    @property
    def output_columns(self) -> tuple[str, ...]:
        return self.columns + tuple(column.name for column in self.derived)

    @property
    def avro_schema(self) -> str:
        return avro_schema(self.output_columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFlow:
    """Avro records of one topic, as rows of one lake table."""

    query: str
    topic: str
    dead_letter_topic: str
    table: TableLayout

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    @property
    def reader_schema(self) -> str:
        return avro_schema(self.table.value_columns)


def avro_schema(columns: tuple[str, ...]) -> str:
    """The record schema ksqlDB would register for text columns: same name and namespace, every field
    nullable.
    """
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in columns]
    return json.dumps(
        {
            "type": "record",
            "name": "KsqlDataSourceSchema",
            "namespace": "io.confluent.ksql.avro_schemas",
            "fields": fields,
        }
    )
