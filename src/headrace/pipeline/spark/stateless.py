"""A plan of one stream without state, for given records: Kafka records in, Kafka records out.

Warms up the JVM, for example. `plan_query.py` runs plans on records as they arrive.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.plan import Aggregate, QueryPlan, Read, reads_of
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.formats.choosing import schema_to_register, writer_of
from headrace.pipeline.spark.formats.reading import BytesWriter
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.read import read_rows
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.sink import sink_records
from headrace.pipeline.spark.steps.writable import NO_LIMITS


class GivenRecords:
    """Given records of the one source, as the plan's `Inputs`."""

    def __init__(
        self,
        records: DataFrame,
        query: str,
        topic: TopicIdentity,
        value_schemas: WriterSchemas | None = None,
    ) -> None:
        self._records = records
        self._query = query
        self._topic = topic
        self._value_schemas = value_schemas or WriterSchemas()

    def changes(self, read: Read) -> Rows:
        return read_rows(
            read,
            self._records,
            query=self._query,
            topic=self._topic,
            key_schemas=WriterSchemas(),
            value_schemas=self._value_schemas,
        )

    def standing(self, read: Read, *, is_global: bool) -> Rows:  # noqa: ARG002 - not needed
        raise HeadraceError(
            "pipeline_failed", f"{read.source.name} is a table for look-ups, which needs its topic."
        )

    def table_groups(self, step: Aggregate) -> Rows:  # noqa: ARG002 - not needed
        raise HeadraceError("pipeline_failed", "An aggregation keeps state, which needs a running query.")


def projected(
    records: DataFrame,
    plan: QueryPlan,
    *,
    query: str,
    source: TopicIdentity,
    sink: TopicIdentity,
    schema_id: int,
    dead_letter_topic: str,
) -> DataFrame:
    """`records` have the columns of Spark's Kafka source, headers included."""

    def writer(side: str) -> BytesWriter:
        encoding = plan.sink.key_encoding if side == "key" else plan.sink.value_encoding
        columns = plan.sink.key if side == "key" else plan.sink.value
        text = schema_to_register(encoding, columns, side=side)
        schema = (schema_id, text) if text is not None else None
        return writer_of(encoding, columns, side=side, schema=schema)

    (read,) = reads_of(plan.root)
    return sink_records(
        built(plan.root, GivenRecords(records, query, source)),
        plan.sink,
        topic=sink,
        keys=writer("key"),
        values=writer("value"),
        dead_letter_topic=dead_letter_topic,
        read=read,
        query=query,
        limits=NO_LIMITS,
    )


def value_schema(plan: QueryPlan) -> str:
    """The Avro schema of the values that the plan writes."""
    schema = schema_to_register(plan.sink.value_encoding, plan.sink.value, side="value")
    assert schema is not None, f"{plan.sink.name} is not written as Avro"
    return schema
