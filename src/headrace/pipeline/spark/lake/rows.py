"""Rows of a table and what their writer needs to know of them, made of the records of a topic.

From a `TableShape`: the table's own columns, a reason if a record cannot become a row, and whether it is
dropped. To that come source coordinates and the raw record for the dead letters. Beside the columns of
Spark's Kafka source, those of the table have numbers for names: a value may well have a field `timestamp` or
`key`. Names of columns that only the writer needs begin with two underscores:

| column | what |
|---|---|
| `__HEADRACE_REASON` | why the record cannot become a row; null for a good one |
| `__DROPPED` | the record is to be neither a row nor a dead letter: a transformation or a setting says so |
| `__HEADRACE_KEY`, `__HEADRACE_VALUE`, `__HEADRACE_HEADERS` | the raw record, for the dead letters |
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.lake import layout
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, SOURCE_PATTERN
from headrace.lake.layout import TableLayout
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.read import plausible_time, written_at
from headrace.pipeline.spark.steps.rows import columns

DROPPED: Final = "__DROPPED"
# Before the number of a column of the table.
COLUMN: Final = "__COLUMN_"

# Query name of records without our coordinates, which get those of the topic they are read from.
NO_QUERY: Final = ""

_NAMED: Final = "__NAMED_HEADERS"
_SOURCE: Final = "__SOURCE"
_PARTS: Final = "__PARTS"
_POSTED_AT: Final = "__POSTED_AT"
_WRITTEN_AT: Final = "__WRITTEN_AT"


def with_coordinates(made: DataFrame, table: TableLayout, *, topic: TopicIdentity) -> DataFrame:
    """`made` has the table's own columns as `__COLUMN_0` and so on, `__HEADRACE_REASON` and `__DROPPED`,
    besides the columns of Spark's Kafka source; `topic` is the topic that it was read from.
    """
    values = columns(list(table.value_names))
    located = made.select(
        *(F.col(f"{COLUMN}{number}").alias(name) for number, name in enumerate(table.value_names)),
        F.col(names.REASON),
        F.col(DROPPED),
        F.col("key").alias(names.KEY),
        F.col("value").alias(names.VALUE),
        F.col("headers").alias(names.HEADERS),
        F.col("partition").alias(layout.TOPIC_PARTITION),
        F.col("offset").alias(layout.TOPIC_OFFSET),
        written_at().alias(_WRITTEN_AT),
        # Of headers with the same name the last one counts. Not a search with a lambda function, for which
        # Spark generates no code: each row would be copied before and after it.
        F.map_from_entries("headers").alias(_NAMED),
    )
    # Records from other writers may lack these headers.
    source, posted = (F.col(_NAMED)[name].cast("string") for name in (SOURCE_HEADER, POSTED_AT_HEADER))
    located = located.withColumns({_SOURCE: source, _POSTED_AT: posted.try_cast("bigint")})
    posted_at = F.coalesce(plausible_time(F.col(_POSTED_AT)), F.col(_WRITTEN_AT))
    is_ours = F.regexp_like(_SOURCE, F.lit(rf"\A{SOURCE_PATTERN}\z"))
    # A column of its own, so that a record's text is matched and split once; null if it is not ours.
    located = located.withColumn(_PARTS, F.when(is_ours, F.split(_SOURCE, "/")))
    parts = F.col(_PARTS)
    partition, offset = F.col(layout.TOPIC_PARTITION), F.col(layout.TOPIC_OFFSET)
    return located.select(
        *values,
        F.coalesce(parts[0], F.lit(NO_QUERY)).alias(layout.QUERY),
        F.coalesce(parts[1], F.lit(topic.topic_id)).alias(layout.SOURCE_TOPIC_ID),
        F.coalesce(parts[2].cast("int"), partition).alias(layout.SOURCE_PARTITION),
        F.coalesce(parts[3].cast("bigint"), offset).alias(layout.SOURCE_OFFSET),
        F.coalesce(parts[4].cast("int"), F.lit(0)).alias(layout.SOURCE_ORDINAL),
        partition,
        offset,
        F.timestamp_millis(posted_at).alias(layout.POSTED_AT),
        F.col(names.REASON),
        F.col(DROPPED),
        *columns([names.KEY, names.VALUE, names.HEADERS]),
    )
