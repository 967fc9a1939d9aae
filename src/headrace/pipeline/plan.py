"""The frozen plan of the flow into the lake: what is to run, apart from how Spark runs it. Those of
statements are in `query_plan.py`.

It names topics and columns; it holds no identity of a running topic (ids and partition counts are looked up
when a flow starts) and no Spark object.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.lake.layout import TableLayout


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
