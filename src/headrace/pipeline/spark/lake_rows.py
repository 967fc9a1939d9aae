"""Avro records of a topic as rows of the lake: decoding, source coordinates, and the reason where a record
cannot be read.

A row has the table's columns and, beginning with two underscores, what only the writer needs: `__REASON`
(null for a good row), `__SCHEMA_ID`, `__LATENCY_MS` (POST until this very read) and the raw key, value and
headers for the dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from headrace.client.topics import TopicIdentity
from headrace.lake import layout
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER
from headrace.pipeline.plan import LakeFlow

REASON: Final = "__REASON"
SCHEMA_ID: Final = "__SCHEMA_ID"
LATENCY: Final = "__LATENCY_MS"
KEY: Final = "__KEY"
VALUE: Final = "__VALUE"
HEADERS: Final = "__HEADERS"

# Query name of records that carry no coordinates of ours: they count with those of the topic they are read
# from.
NO_QUERY: Final = ""

_DECODED: Final = "HEADRACE_DECODED"
_SOURCE_PATTERN: Final = r"^([^/]*)/([^/]+)/([0-9]+)/([0-9]+)/([0-9]+)$"


def lake_rows(
    records: DataFrame, flow: LakeFlow, *, topic: TopicIdentity, schemas: Mapping[int, str]
) -> DataFrame:
    """Rows of Kafka records (read with headers). `schemas` are the writer schemas known so far, by id."""
    # Both are strings in memory and cheap to test; a record that someone else wrote may have neither.
    located = records.select(
        "key",
        "value",
        "partition",
        "offset",
        "timestamp",
        "headers",
        _header(SOURCE_HEADER).alias("source"),
        _header(POSTED_AT_HEADER).alias("posted"),
        # Not current_timestamp(), which is the same for the whole batch: the clock at the moment of this row.
        F.call_function("java_method", F.lit("java.lang.System"), F.lit("currentTimeMillis"))
        .cast("bigint")
        .alias("read_at"),
    )
    is_ours = F.coalesce(F.regexp_like("source", F.lit(_SOURCE_PATTERN)), F.lit(False))
    parts = F.split("source", "/")
    identified = located.select(
        "*",
        F.when(
            F.substring("value", 1, 1) == F.unhex(F.lit("00")),
            F.conv(F.hex(F.substring("value", 2, 4)), 16, 10),
        )
        .cast("bigint")
        .alias(SCHEMA_ID),
        F.when(is_ours, parts[0]).otherwise(F.lit(NO_QUERY)).alias(layout.QUERY),
        F.when(is_ours, parts[1]).otherwise(F.lit(topic.topic_id)).alias(layout.SOURCE_TOPIC_ID),
        F.when(is_ours, parts[2].cast("int")).otherwise(F.col("partition")).alias(layout.SOURCE_PARTITION),
        F.when(is_ours, parts[3].cast("bigint")).otherwise(F.col("offset")).alias(layout.SOURCE_OFFSET),
        F.when(is_ours, parts[4].cast("int")).otherwise(F.lit(0)).alias(layout.SOURCE_ORDINAL),
        F.coalesce(
            F.try_to_number("posted", F.lit("9999999999999")).cast("bigint"), F.unix_millis("timestamp")
        ).alias("posted_ms"),
    ).withColumn("decoded", _decoded(flow, schemas))
    values = [F.col("decoded")[name].alias(name) for name in flow.table.value_columns]
    return identified.select(
        *values,
        *(F.col(name) for name, _ in layout.COORDINATE_COLUMNS[:5]),
        F.col("partition").alias(layout.TOPIC_PARTITION),
        F.col("offset").alias(layout.TOPIC_OFFSET),
        F.timestamp_millis("posted_ms").alias(layout.POSTED_AT),
        _reason(schemas).alias(REASON),
        F.col(SCHEMA_ID),
        (F.col("read_at") - F.col("posted_ms")).alias(LATENCY),
        F.when(F.col("decoded")[_DECODED].isNull(), F.col("key")).alias(KEY),
        F.when(F.col("decoded")[_DECODED].isNull(), F.col("value")).alias(VALUE),
        F.when(F.col("decoded")[_DECODED].isNull(), F.col("headers")).alias(HEADERS),
    )


def _header(name: str) -> Column:
    """The last header of that name as text, or null."""
    matching = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return F.try_element_at(matching, F.lit(-1))["value"].cast("string")


def _decoded(flow: LakeFlow, schemas: Mapping[int, str]) -> Column:
    """The value as a struct by whichever schema wrote it; null fields throughout where it cannot be read."""
    reader = json.loads(flow.reader_schema)
    # from_avro gives a struct of nulls for a damaged record; a field that only the reader has, with a
    # default, tells them apart.
    reader["fields"].append({"name": _DECODED, "type": ["boolean", "null"], "default": True})
    options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(reader)}
    body = F.expr("substring(value, 6)")
    fields = ", ".join(f"`{name}`: STRING" for name in flow.table.value_columns)
    decoded = F.lit(None).cast(f"struct<{fields}, `{_DECODED}`: BOOLEAN>")
    for schema_id, writer_schema in schemas.items():
        decoded = F.when(
            F.col(SCHEMA_ID) == F.lit(schema_id), from_avro(body, writer_schema, options)
        ).otherwise(decoded)
    return decoded


def _reason(schemas: Mapping[int, str]) -> Column:
    known = F.col(SCHEMA_ID).isin(*schemas) if schemas else F.lit(False)
    return (
        F.when(F.col("value").isNull(), F.lit("The value is null: a row needs an Avro record."))
        .when(
            F.col(SCHEMA_ID).isNull() | (F.length("value") < F.lit(5)),
            F.lit("The value is not in Confluent's wire format: it has no zero byte and schema id in front."),
        )
        .when(~known, F.concat(F.lit("The registry has no schema with id "), F.col(SCHEMA_ID), F.lit(".")))
        .when(
            F.col("decoded")[_DECODED].isNull(),
            F.concat(
                F.lit("The value cannot be read with the schema of its id "), F.col(SCHEMA_ID), F.lit(".")
            ),
        )
    )
