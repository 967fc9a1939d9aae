"""The end of a plan: rows as Kafka records for the sink and for the dead letters.

Good and bad rows go to one Kafka sink; the `topic` column decides. A row that could be read but cannot be
written is bad, too (`writable.py`). Headers give the source of a record (if it
comes from a single one), when it was posted, and its time. A windowed key is followed by its window, as in
Kafka Streams: eight bytes of its start, and for a session before them eight bytes of its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import POSTED_AT_HEADER, ROWTIME_HEADER, SOURCE_HEADER
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.plan import Read
from headrace.pipeline.spark.fault_headers import fault_headers, header
from headrace.pipeline.spark.formats.kafka_format import whole_number
from headrace.pipeline.spark.formats.reading import BytesWriter
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.read import time_in
from headrace.pipeline.spark.steps.rows import Rows, column
from headrace.pipeline.spark.steps.writable import (
    NEW_KEY,
    NEW_VALUE,
    Letter,
    Limits,
    letter_of,
    with_reasons,
)
from headrace.pipeline.statements.queries import WindowKind

# Settings of Kafka's producer. With one request at a time, records accumulate while the log answers: batches
# are as large as the load requires, and a single record never waits for others, as it would with a linger.
# With the default, five requests of 16 KiB, the log gets more and smaller batches: at full speed that costs
# an eighth more CPU time for the same throughput.
PRODUCER: Final[Mapping[str, str]] = {
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.batch.size": str(256 * 1024),
}


def sink_records(
    rows: Rows,
    sink: Source,
    *,
    topic: TopicIdentity,
    keys: BytesWriter,
    values: BytesWriter,
    dead_letter_topic: str,
    read: Read,
    query: str,
    limits: Limits,
) -> DataFrame:
    """Kafka records (topic, key, value, headers, partition): good rows, and bad ones as dead letters.

    `read` is the source of the bad ones.
    """
    columns = {name: column(name) for name in rows.visible}
    not_deleted = ~column(names.DELETED)
    of_value = values.reason(columns)
    of_value = None if of_value is None else F.when(not_deleted, of_value)
    reasons = [each for each in (keys.reason(columns), of_value) if each is not None]
    made = with_reasons(
        rows,
        key=_key(sink, keys, columns),
        value=F.when(not_deleted, values.written(columns)),
        unfit=F.coalesce(*reasons) if reasons else None,
        limits=limits,
    )
    is_bad = column(names.REASON).isNotNull()
    headers = F.array(*_headers(made, sink))
    letter = letter_of(made, sink, limits)
    key = F.when(is_bad, letter.key).otherwise(column(NEW_KEY))
    # The origin of a joined row goes into its header with the number of its batch (`stateful/`).
    origin = [column(names.ORIGIN).cast("string").alias("origin")] if names.ORIGIN in rows.hidden else []
    lane = F.when(is_bad, F.lit(0)).otherwise(_lane(rows, topic)).cast("int")
    return made.frame.select(
        F.when(is_bad, F.lit(dead_letter_topic)).otherwise(F.lit(sink.topic)).alias("topic"),
        key.alias("key"),
        F.when(is_bad, letter.value).otherwise(column(NEW_VALUE)).alias("value"),
        F.when(is_bad, F.concat(headers, _faults(made, read, query, letter)))
        .otherwise(headers)
        .alias("headers"),
        # Null lets Kafka hash the key.
        F.when(key.isNull(), lane).alias("partition"),
        *origin,
    )


def dead_letters(rows: Rows, *, dead_letter_topic: str, read: Read, query: str, limits: Limits) -> DataFrame:
    """Only the bad rows, for plans whose steps drop them."""
    bad = rows.frame.filter(column(names.REASON).isNotNull())
    letter = letter_of(rows, None, limits)
    return bad.select(
        F.lit(dead_letter_topic).alias("topic"),
        letter.key.alias("key"),
        letter.value.alias("value"),
        F.concat(F.array(*_headers(rows, None)), _faults(rows, read, query, letter)).alias("headers"),
        F.when(letter.key.isNull(), F.lit(0)).alias("partition"),
    )


def _key(sink: Source, keys: BytesWriter, columns: dict[str, Column]) -> Column:
    key = keys.written(columns)
    if sink.window is None:
        return key
    start = whole_number(column(names.WINDOW_START), 8)
    if sink.window.kind is WindowKind.SESSION:
        return F.concat(key, whole_number(column(names.WINDOW_END), 8), start)
    return F.concat(key, start)


def _headers(rows: Rows, sink: Source | None) -> list[Column]:
    rowtime = column(names.ROWTIME)
    if sink is not None and sink.timestamp is not None:
        # The sink has its own TIMESTAMP column.
        name = sink.timestamp.name
        kind = next(each.type for each in sink.columns if each.name == name)
        rowtime = F.coalesce(time_in(sink, column(name), kind), rowtime)
    headers = [header(ROWTIME_HEADER, rowtime.cast("string"))]
    if names.SOURCE in rows.frame.columns:
        coordinates = F.concat(column(names.SOURCE), F.lit("/"), column(names.ORDINAL).cast("string"))
        headers.insert(0, header(SOURCE_HEADER, coordinates))
        headers.append(header(POSTED_AT_HEADER, column(names.POSTED_AT).cast("string")))
    return headers


def _faults(rows: Rows, read: Read, query: str, letter: Letter) -> Column:
    place = None
    # A row that belongs to no single record has no place.
    if names.SOURCE in rows.frame.columns:
        # Topic id, partition and offset.
        coordinates = F.substring_index(column(names.SOURCE), "/", -3)
        place = F.concat(F.lit(f"{read.source.topic}/"), coordinates)
    return fault_headers(
        query=F.lit(query),
        reason=column(names.REASON),
        read_from=place,
        original=letter.headers,
        position=str(read.at),
    )


def _lane(rows: Rows, topic: TopicIdentity) -> Column:
    """The partition of a record without a key: that of its source, so that they stay in order."""
    if names.PARTITION not in rows.frame.columns:
        return F.lit(0)
    return F.pmod(column(names.PARTITION), F.lit(topic.partitions))
