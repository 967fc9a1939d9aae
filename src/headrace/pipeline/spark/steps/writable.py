"""Which rows the sink can hold: those that its formats can write, that fit into a message, and that have a
key where the topic requires one. All others become dead letters: a row that the log refuses would end the
query.

A dead letter is the raw record of its source, unchanged. After a step with state a row belongs to no single
record, so its dead letter is the row itself, as JSON. A dead letter that would not fit into a message goes
without its value, and if need be without the key and headers of its record; its header `headrace-read-from`
says where the record is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.spark.formats.json_format import JsonWriter
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.rows import Rows, column

# The bytes of the row for the sink; null for a row with a reason.
NEW_KEY: Final = "__HEADRACE_NEW_KEY"
NEW_VALUE: Final = "__HEADRACE_NEW_VALUE"
# What a record has besides key, value and the headers of its source: our own headers, and Kafka's framing. In
# a topic that takes only tiny messages, most is left to the record.
_ROOM: Final = 4 * 1024
_LEAST_SHARE: Final = 0.75

# The prefix that we give to the name of a header, and Kafka's framing.
_HEADER_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the topics take: the largest message of the sink and of the dead letters, in bytes."""

    record_bytes: int
    letter_bytes: int
    # The topic is compacted, so the log refuses records without a key.
    needs_key: bool


NO_LIMITS: Final = Limits(record_bytes=2**31 - 1, letter_bytes=2**31 - 1, needs_key=False)


def with_reasons(rows: Rows, *, key: Column, value: Column, unfit: Column | None, limits: Limits) -> Rows:
    """The rows with the bytes of their records, and with reasons for those that cannot be written.

    `key` and `value` are the bytes, `unfit` the reason if the formats cannot write the row.
    """
    known = [column(names.REASON)] if rows.has_reasons else []
    known += [] if unfit is None else [unfit]
    reason = F.coalesce(*known) if known else F.lit(None).cast("string")
    is_good = reason.isNull()
    made = rows.frame.withColumns(
        {
            names.REASON: reason,
            NEW_KEY: F.when(is_good, key) if known else key,
            NEW_VALUE: F.when(is_good, value) if known else value,
        }
    )
    # In a second step, so that the bytes are made only once.
    return replace(rows, frame=_within(made, limits))


def _within(made: DataFrame, limits: Limits) -> DataFrame:
    size = _size(column(NEW_KEY)) + _size(column(NEW_VALUE))
    most = _room_in(limits.record_bytes)
    too_large = F.when(
        size > most,
        F.concat(
            F.lit("The result is too large for its topic: it has "),
            size.cast("string"),
            F.lit(f" bytes, and at most {most} fit."),
        ),
    )
    found = [column(names.REASON), too_large]
    if limits.needs_key:
        no_key = F.lit("The result has no key, and its topic is compacted.")
        found.append(F.when(column(NEW_KEY).isNull(), no_key))
    return made.withColumn(names.REASON, F.coalesce(*found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What a dead letter holds of its record, as far as it fits: `headers` are null where there are none."""

    key: Column
    value: Column
    headers: Column | None


def letter_of(rows: Rows, sink: Source | None, limits: Limits) -> Letter:
    """The raw record; or the row, if it belongs to no single record."""
    most = _room_in(limits.letter_bytes)
    if names.VALUE in rows.frame.columns:
        return _fitting(column(names.KEY), column(names.VALUE), column(names.HEADERS), most)
    assert sink is not None
    row = JsonWriter((*sink.key, *sink.value), wrapped=True)
    text = row.written({each.name: column(each.name) for each in (*sink.key, *sink.value)})
    return _fitting(column(NEW_KEY), text, None, most)


def _fitting(key: Column, value: Column, headers: Column | None, most: int) -> Letter:
    size = _size(key)
    if headers is not None:
        lengths = F.transform(
            F.coalesce(headers, F.array()),
            lambda each: (
                F.octet_length(each["key"])
                + F.coalesce(F.octet_length(each["value"]), F.lit(0))
                + _HEADER_BYTES
            ),
        )
        size = size + F.aggregate(lengths, F.lit(0), lambda total, each: total + each)
    return Letter(
        key=F.when(size <= most, key),
        value=F.when(size + _size(value) <= most, value),
        headers=None if headers is None else F.when(size <= most, headers),
    )


def _room_in(message_bytes: int) -> int:
    return max(message_bytes - _ROOM, int(message_bytes * _LEAST_SHARE))


def _size(data: Column) -> Column:
    return F.coalesce(F.octet_length(data), F.lit(0))
