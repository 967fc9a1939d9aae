"""Folders by time: when a record happened, rounded down, in a zone, as texts by patterns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import TimePartitions
from headrace.lake.types import Field, Simple, Struct, ddl
from headrace.pipeline.sink_records.nested_fields import nested_field
from headrace.pipeline.sink_records.records import NamedColumn, Record
from headrace.pipeline.sink_records.time_folders import (
    FIRST,
    ISO_TEXT,
    LAST,
    NUMBER_TEXT,
    refused_folders,
    spark_pattern,
    zone_of,
)
from headrace.pipeline.spark.lake.casting import java_long
from headrace.pipeline.spark.lake.spark_columns import midnight, nothing, shown


def time_columns(times: TimePartitions, record: Record[Column]) -> tuple[list[NamedColumn[Column]], Column]:
    """The columns in the order of the folders, and why a record has no time."""
    zone_of(times)
    moment, fails = _moment(times, record)
    inside = F.when(moment.between(F.lit(FIRST), F.lit(LAST)), moment)
    local = F.from_utc_timestamp(F.timestamp_millis(inside), times.timezone)
    if times.duration_ms > 0:
        # Towards 1970, as Confluent's. The clock's own time is rounded, so that days begin at midnight.
        whole = F.call_function("div", F.unix_millis(local), F.lit(times.duration_ms).cast("bigint"))
        local = F.timestamp_millis(whole * F.lit(times.duration_ms).cast("bigint"))
    columns = [
        NamedColumn(
            field=Field(name=name, type=Simple.STRING), column=F.date_format(local, spark_pattern(pattern))
        )
        for name, pattern in times.columns
    ]
    outside = F.when(
        inside.isNull(),
        F.concat(
            F.lit("The time for the folder is outside the years 1 to 9999: "), shown(moment), F.lit(".")
        ),
    )
    return columns, F.coalesce(fails, outside)


def _moment(times: TimePartitions, record: Record[Column]) -> tuple[Column, Column]:
    """Milliseconds since 1970, and the reason where there are none."""
    match times.extractor:
        case "Wallclock":
            # The time of the batch. Rows that are repeated are found by their positions, not by folders.
            return F.unix_millis(F.current_timestamp()), nothing(Simple.STRING)
        case "Record":
            fails = F.when(record.timestamp.isNull(), F.lit("The record has no timestamp for its folder."))
            return F.unix_millis(record.timestamp), fails
        case "RecordField":
            return _field_moment(times.field, record)
        case other:
            raise refused_folders(f"by the time of the extractor {other}, which is not supported")


def _field_moment(path: str, record: Record[Column]) -> tuple[Column, Column]:
    value = record.value
    found = nested_field(path, value) if isinstance(value.type, Struct) else None
    if found is None:
        raise refused_folders(f"by the time in the field {path}, which does not exist")
    match found.field.type:
        case Simple.INT | Simple.BIGINT:
            moment = found.column.cast("bigint")
        case Simple.DOUBLE | Simple.FLOAT if not value.has_schema:
            moment = java_long(found.column, found.field.type)
        case Simple.DATE:
            moment = F.unix_millis(midnight(found.column))
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            moment = F.unix_millis(found.column.cast("timestamp"))
        case Simple.STRING:
            number = F.when(found.column.rlike(NUMBER_TEXT), found.column.try_cast("bigint"))
            text = F.when(found.column.rlike(ISO_TEXT), F.translate(found.column, ",", "."))
            moment = F.coalesce(number, F.unix_millis(text.try_cast("timestamp")))
        case kind:
            raise refused_folders(f"by the time in the field {path}, which is {ddl(kind)}")
    start = F.lit(f"The field {path} has no time for the folder: ")
    return moment, F.when(moment.isNull(), F.concat(start, shown(found.column), F.lit(".")))
