"""Read: Kafka records as rows, under the alias of the source.

The time of a row is that of its TIMESTAMP column, otherwise that of the header from an earlier query (Spark's
Kafka sink cannot set a record's timestamp), otherwise the record's own timestamp. A record whose TIMESTAMP
column has no time is unreadable, as in ksqlDB. In a table, records without a key are skipped, and null values
are deletions. In a stream, null values pass as nulls.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import POSTED_AT_HEADER, ROWTIME_HEADER
from headrace.pipeline.catalogue.catalogue import Format, HeaderColumn, Source
from headrace.pipeline.expressions.functions.time_parsing import spark_format
from headrace.pipeline.expressions.moments import FIRST_MS, LAST_MS
from headrace.pipeline.plan import Read
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.formats.choosing import reader_of
from headrace.pipeline.spark.formats.kafka_format import whole_number_of
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.rows import Rows, column
from headrace.pipeline.statements.queries import WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import DataType, ScalarType

_PARSED_KEY: Final = "__parsed_key"
_PARSED_VALUE: Final = "__parsed_value"
_PLAIN_KEY: Final = "__plain_key"


def read_rows(
    step: Read,
    records: DataFrame,
    *,
    query: str,
    topic: TopicIdentity,
    key_schemas: WriterSchemas,
    value_schemas: WriterSchemas,
) -> Rows:
    """Rows of Kafka records that were read with headers."""
    source = step.source
    is_table = source.kind is SourceKind.TABLE
    if is_table:
        records = records.filter(F.col("key").isNotNull())
    keys = reader_of(source.key_encoding, source.key, side="key", schemas=key_schemas)
    values = reader_of(source.value_encoding, source.value, side="value", schemas=value_schemas)
    parsed = (
        records.withColumn(_PLAIN_KEY, _without_window(F.col("key"), source))
        .withColumn(_PARSED_KEY, keys.parsed(F.col(_PLAIN_KEY)))
        .withColumn(_PARSED_VALUE, values.parsed(F.col("value")))
    )
    key, value = F.col(_PARSED_KEY), F.col(_PARSED_VALUE)
    found = {each.name: keys.value(key, each) for each in source.key}
    found |= {each.name: values.value(value, each) for each in source.value}
    found |= {each.name: _header_value(each) for each in source.headers}
    rowtime, late_reason = _rowtime(source, found)
    start, end = _window(source)
    reason = F.coalesce(
        keys.reason(F.col(_PLAIN_KEY), key), values.reason(F.col("value"), value), late_reason
    )
    pseudo = {"ROWTIME": rowtime, "ROWPARTITION": F.col("partition"), "ROWOFFSET": F.col("offset")}
    if source.window is not None:
        pseudo |= {"WINDOWSTART": start, "WINDOWEND": end}
    # Computed for every record, so with few parts, and not with `concat_ws`, which checks each for null.
    coordinates = F.concat(
        F.lit(f"{query}/{topic.topic_id}/"),
        F.col("partition").cast("string"),
        F.lit("/"),
        F.col("offset").cast("string"),
    )
    hidden = {
        names.ROWTIME: rowtime,
        names.DELETED: F.col("value").isNull() & F.lit(bool(source.value)),
        names.REASON: reason,
        names.SOURCE: coordinates,
        names.ORDINAL: F.lit(0),
        names.POSTED_AT: F.coalesce(time_in_header(POSTED_AT_HEADER), written_at()),
        names.KEY: F.col("key"),
        names.VALUE: F.col("value"),
        names.HEADERS: F.col("headers"),
        names.PARTITION: F.col("partition"),
        names.OFFSET: F.col("offset"),
        # Offsets of different partitions cannot be compared; times can, approximately.
        names.SEQUENCE: rowtime if topic.partitions > 1 else F.lit(0).cast("bigint"),
    }
    if source.window is not None:
        hidden |= {names.WINDOW_START: start, names.WINDOW_END: end}
    visible = {f"{step.alias}.{name}": each for name, each in (found | pseudo).items()}
    frame = parsed.select(*(each.alias(name) for name, each in (visible | hidden).items()))
    return Rows(frame=frame, is_table=is_table)


def latest_rows(step: Read, rows: Rows) -> Rows:
    """The current rows of a table: the newest of each key, without deleted ones.

    For a frame that is read as a whole. Records whose keys have the same bytes are in one partition, so the
    newest has the highest offset. Except for KAFKA, different bytes may be the same key, such as JSON with
    other spaces, or Avro with another schema; among those, the time decides. Unreadable records have no
    effect, as in ksqlDB.
    """
    newest = _newest(names.good(rows), [names.KEY], [names.OFFSET])
    if step.source.key_encoding.format is not Format.KAFKA:
        newest = _newest(newest, _keys(step), [names.SEQUENCE, names.OFFSET, names.PARTITION])
    return Rows(frame=newest.filter(~column(names.DELETED)), is_table=True)


def _keys(step: Read) -> list[str]:
    keys = [f"{step.alias}.{key.name}" for key in step.source.key]
    return keys + ([names.WINDOW_START, names.WINDOW_END] if step.source.window is not None else [])


def _newest(frame: DataFrame, keys: list[str], order: list[str]) -> DataFrame:
    """The last row of each key."""
    row = F.struct(*(column(name) for name in frame.columns)).alias("row")
    place = F.struct(*(F.col("row")[name] for name in order))
    newest = (
        frame.select(row)
        .groupBy(*(F.col("row")[name].alias(f"key_{number}") for number, name in enumerate(keys)))
        .agg(F.max_by("row", place).alias("row"))
    )
    return newest.select(*(F.col("row")[name].alias(name) for name in frame.columns))


def _without_window(key: Column, source: Source) -> Column:
    if source.window is None:
        return key
    size = 16 if source.window.kind is WindowKind.SESSION else 8
    return F.when(F.octet_length(key) >= size, F.substring(key, F.lit(1), F.octet_length(key) - size))


def _window(source: Source) -> tuple[Column, Column]:
    """Start and end: Kafka appends the start to the key, and for sessions first the end."""
    nothing = F.lit(None).cast("bigint")
    if source.window is None:
        return nothing, nothing
    size = F.octet_length("key")
    start = F.when(size >= 8, whole_number_of(F.substring(F.col("key"), size - 7, F.lit(8))))
    if source.window.kind is WindowKind.SESSION:
        end = F.when(size >= 16, whole_number_of(F.substring(F.col("key"), size - 15, F.lit(8))))
        return start, end
    # The bytes may be anything.
    return start, F.try_add(start, F.lit(source.window.size_ms).cast("bigint"))


def _rowtime(source: Source, found: dict[str, Column]) -> tuple[Column, Column]:
    """The time in milliseconds, and the reason if the TIMESTAMP column has none."""
    written = F.unix_millis("timestamp")
    # Steps would fail on times at the ends of the calendar.
    out_of_range = F.when(
        ~written.between(FIRST_MS, LAST_MS),
        F.lit("The record's timestamp is not within the years 1 to 9999."),
    )
    if source.timestamp is None:
        return F.coalesce(time_in_header(ROWTIME_HEADER), written), out_of_range
    name = source.timestamp.name
    kind = next(each.type for each in source.columns if each.name == name)
    usable = time_in(source, found[name], kind)
    reason = F.when(
        F.col("value").isNotNull() & usable.isNull(),
        F.lit(f"Column {name}, the TIMESTAMP of the record, has no valid time."),
    )
    return F.coalesce(usable, written), reason


def written_at() -> Column:
    """The record's own timestamp. Steps would fail on times at the ends of Spark's calendar."""
    return F.least(F.greatest(F.unix_millis("timestamp"), F.lit(FIRST_MS)), F.lit(LAST_MS))


def time_in(source: Source, value: Column, kind: DataType) -> Column:
    """The milliseconds in the TIMESTAMP column; null if it has no time."""
    assert source.timestamp is not None
    if kind is ScalarType.TIMESTAMP:
        millis = F.unix_millis(value)
    elif source.timestamp.format is not None:
        millis = F.unix_millis(_parsed(value, source.timestamp.format))
    else:
        millis = value.try_cast("bigint")
    return F.when(millis.between(0, LAST_MS), millis)


def _parsed(text: Column, pattern: str) -> Column:
    """The moment in a text, as PARSE_TIMESTAMP reads it; null if there is none."""
    form = spark_format(pattern)
    bare = F.regexp_replace(text, form.skipped, "") if form.skipped else text
    moment = F.try_to_timestamp(bare, F.lit(form.format))
    return F.when(~text.rlike(form.overflow), moment) if form.overflow else moment


def _header_value(header: HeaderColumn) -> Column:
    if header.header is None:
        return F.transform(
            F.coalesce(F.col("headers"), F.array()),
            lambda each: F.struct(each["key"].alias("KEY"), each["value"].alias("VALUE")),
        )
    return last_header(header.header)


def last_header(name: str, headers: str = "headers") -> Column:
    """The value of the last header of that name, or null."""
    matching = F.filter(headers, lambda header: header["key"] == F.lit(name))
    return F.try_element_at(matching, F.lit(-1))["value"]


def time_in_header(name: str) -> Column:
    """Milliseconds; null if the header has no time. Anybody may write it, with any number."""
    return plausible_time(last_header(name).cast("string").try_cast("bigint"))


def plausible_time(milliseconds: Column) -> Column:
    """Null for a time outside the years 1 to 9999."""
    return F.when(milliseconds.between(FIRST_MS, LAST_MS), milliseconds)
