"""Rows of a plan as rows of a lake table: source coordinates, latency, and the reason where a record cannot
be read.

A row has the table's columns and, beginning with two underscores, what only the writer needs: `__REASON`
(null for a good row), `__LATENCY_MS` (POST until this very read) and the raw key, value and headers for the
dead letters.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.lake import layout
from headrace.lake.coordinates import SOURCE_HEADER
from headrace.lake.layout import TableLayout
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.read import last_header
from headrace.pipeline.spark.steps.rows import Rows, column, columns

LATENCY: Final = "__LATENCY_MS"

# Query name of records that carry no coordinates of ours: they count with those of the topic they are read
# from.
NO_QUERY: Final = ""

_SOURCE_PATTERN: Final = r"^([^/]*)/([^/]+)/([0-9]+)/([0-9]+)/([0-9]+)$"


def lake_rows(rows: Rows, table: TableLayout, *, topic: TopicIdentity) -> DataFrame:
    """`rows` of one stream, which carry their records; `topic` is the one that they were read from."""
    no_value = F.when(column(names.VALUE).isNull(), F.lit("The value is null: a row needs an Avro record."))
    located = rows.frame.select(
        *columns(list(table.value_columns)),
        *columns([names.POSTED_AT, names.KEY, names.VALUE, names.HEADERS, names.PARTITION, names.OFFSET]),
        # A record that someone else wrote may have no such header.
        last_header(SOURCE_HEADER, names.HEADERS).cast("string").alias("source"),
        F.coalesce(column(names.REASON), no_value).alias(names.REASON),
        # Not current_timestamp(), which is the same for the whole batch: the clock at the moment of this row.
        F.call_function("java_method", F.lit("java.lang.System"), F.lit("currentTimeMillis"))
        .cast("bigint")
        .alias("read_at"),
    )
    is_ours = F.coalesce(F.regexp_like("source", F.lit(_SOURCE_PATTERN)), F.lit(False))
    parts = F.split("source", "/")
    is_bad = F.col(names.REASON).isNotNull()
    return located.select(
        *columns(list(table.value_columns)),
        F.when(is_ours, parts[0]).otherwise(F.lit(NO_QUERY)).alias(layout.QUERY),
        F.when(is_ours, parts[1]).otherwise(F.lit(topic.topic_id)).alias(layout.SOURCE_TOPIC_ID),
        F.when(is_ours, parts[2].cast("int"))
        .otherwise(F.col(names.PARTITION))
        .alias(layout.SOURCE_PARTITION),
        F.when(is_ours, parts[3].cast("bigint")).otherwise(F.col(names.OFFSET)).alias(layout.SOURCE_OFFSET),
        F.when(is_ours, parts[4].cast("int")).otherwise(F.lit(0)).alias(layout.SOURCE_ORDINAL),
        F.col(names.PARTITION).alias(layout.TOPIC_PARTITION),
        F.col(names.OFFSET).alias(layout.TOPIC_OFFSET),
        F.timestamp_millis(names.POSTED_AT).alias(layout.POSTED_AT),
        F.col(names.REASON),
        (F.col("read_at") - F.col(names.POSTED_AT)).alias(LATENCY),
        # Good rows do without what they were made of.
        *(F.when(is_bad, F.col(name)).alias(name) for name in (names.KEY, names.VALUE, names.HEADERS)),
    )
