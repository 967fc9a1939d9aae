"""Rows of a plan as rows of a lake table, with source coordinates, latency, and the reason if a record cannot
be read.

A row has the table's columns and, with names that begin with two underscores, those that only the writer
needs: `__REASON` (null for a good row), `__LATENCY_MS` (from the POST to this read) and the raw key, value
and headers for the dead letters.

A value of a partition column becomes the name of a folder, so it must fit: a date must be one, and a name
must not be longer than the file system allows.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.lake import layout
from headrace.lake.coordinates import SOURCE_HEADER, SOURCE_PATTERN
from headrace.lake.layout import TableLayout
from headrace.lake.new_partitions import LONGEST_NAME
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.read import last_header
from headrace.pipeline.spark.steps.rows import Rows, column, columns

LATENCY: Final = "__LATENCY_MS"

# Query name of records without our coordinates, which get those of the topic they are read from.
NO_QUERY: Final = ""

_DATE_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
# Characters that Spark escapes as `%XX` in the name of a folder.
_ESCAPED_PATTERN: Final = r"""[\x00-\x1F"#%'*/:=?\\\x7F{\[\]^]"""
_SHOWN_CHARACTERS: Final = 40


def lake_rows(rows: Rows, table: TableLayout, *, topic: TopicIdentity) -> DataFrame:
    """`rows` are those of one stream, with their raw records; `topic` is the topic they were read from."""
    no_value = F.when(column(names.VALUE).isNull(), F.lit("The value is null: a row needs an Avro record."))
    located = rows.frame.select(
        *columns(list(table.value_names)),
        *columns([names.POSTED_AT, names.KEY, names.VALUE, names.HEADERS, names.PARTITION, names.OFFSET]),
        # Records from other writers may lack this header.
        last_header(SOURCE_HEADER, names.HEADERS).cast("string").alias("source"),
        F.coalesce(column(names.REASON), no_value, *_unfit_values(table)).alias(names.REASON),
        # Not current_timestamp(), which is the same for the whole batch, but the clock when this row is read.
        F.call_function("java_method", F.lit("java.lang.System"), F.lit("currentTimeMillis"))
        .cast("bigint")
        .alias("read_at"),
    )
    is_ours = F.coalesce(F.regexp_like("source", F.lit(rf"\A{SOURCE_PATTERN}\z")), F.lit(False))
    parts = F.split("source", "/")
    return located.select(
        *columns(list(table.value_names)),
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
        *columns([names.KEY, names.VALUE, names.HEADERS]),
    )


def _unfit_values(table: TableLayout) -> list[Column]:
    """The reason for each partition column whose value cannot name a folder; null if it can."""
    reasons = []
    for name in table.partition_columns:
        value = column(name).cast("string")
        escaped = F.regexp_replace(value, _ESCAPED_PATTERN, "%XX")
        longest = LONGEST_NAME - len(f"{name}=".encode())
        # The first test is quick, and enough for almost every row.
        is_long = (F.octet_length(value) * 3 > longest) & (F.octet_length(escaped) > longest)
        reasons.append(F.when(is_long, _unfit(name, value, "is too long for the name of a folder")))
        if name in table.date_columns:
            is_date = value.rlike(_DATE_PATTERN) & value.try_cast("date").isNotNull()
            reasons.append(F.when(~is_date, _unfit(name, value, "is not a date (yyyy-MM-dd)")))
    return reasons


def _unfit(name: str, value: Column, problem: str) -> Column:
    return F.concat(F.lit(f"{name} {problem}: "), F.substring(value, 1, _SHOWN_CHARACTERS), F.lit("."))
