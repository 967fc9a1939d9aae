"""JSON to Avro as one Spark projection: Kafka records in, Kafka records out.

Good and bad records leave by one sink; the `topic` column decides. Every record carries its source
coordinates and the time of its POST as headers. Fields match without case, as in ksqlDB. Nothing here
shuffles, aggregates or calls Python, so the same projection runs in real-time mode and in micro-batches.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.avro.functions import to_avro

from headrace.lake.coordinates import ERROR_HEADER, POSTED_AT_HEADER, SOURCE_HEADER
from headrace.pipeline.plan import TranscodeFlow
from headrace.pipeline.topics import TopicIdentity

_FIELDS = "_fields"


def transcoded(
    records: DataFrame, flow: TranscodeFlow, *, source: TopicIdentity, sink: TopicIdentity, schema_id: int
) -> DataFrame:
    """Kafka records of `source` as Kafka records (topic, key, value, headers, partition) for the sink."""
    parsed = F.from_json(F.col("value").cast("string"), "map<string,string>")
    rows = records.withColumn(_FIELDS, F.transform_keys(parsed, lambda name, _: F.upper(name)))
    for name in flow.columns:
        rows = rows.withColumn(name, F.try_element_at(F.col(_FIELDS), F.lit(name)))
    for column in flow.derived:
        rows = rows.withColumn(column.name, F.expr(column.expression))
    is_bad = F.col(_FIELDS).isNull()
    return rows.select(
        F.when(is_bad, F.lit(flow.dead_letter_topic)).otherwise(F.lit(flow.sink_topic)).alias("topic"),
        F.col("key"),
        F.when(is_bad, F.col("value")).otherwise(_avro_value(flow, schema_id)).alias("value"),
        _headers(flow, source, is_bad).alias("headers"),
        _partition(sink, is_bad).alias("partition"),
    )


def _avro_value(flow: TranscodeFlow, schema_id: int) -> Column:
    """Confluent's wire format: a zero byte, the schema id in four bytes, the Avro body."""
    prefix = F.unhex(F.lit(f"00{schema_id:08x}"))
    return F.concat(prefix, to_avro(F.struct(*flow.output_columns), flow.avro_schema))


def _headers(flow: TranscodeFlow, source: TopicIdentity, is_bad: Column) -> Column:
    coordinates = F.concat_ws(
        "/", F.lit(flow.query), F.lit(source.topic_id), F.col("partition"), F.col("offset"), F.lit("0")
    )
    reason = F.when(
        F.col("value").isNull(), F.lit("The value is null: an event must be a JSON object.")
    ).otherwise(F.lit("The value is not a JSON object."))
    common = [
        _header(SOURCE_HEADER, coordinates),
        _header(POSTED_AT_HEADER, F.unix_millis("timestamp").cast("string")),
    ]
    return F.when(is_bad, F.array(*common, _header(ERROR_HEADER, reason))).otherwise(F.array(*common))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def _partition(sink: TopicIdentity, is_bad: Column) -> Column:
    """Null lets Kafka hash the key. A record without a key must stay in its lane: the producer would
    scatter it.
    """
    without_key = F.when(is_bad, F.lit(0)).otherwise(F.pmod(F.col("partition"), F.lit(sink.partitions)))
    return F.when(F.col("key").isNull(), without_key).otherwise(F.lit(None).cast("int"))
