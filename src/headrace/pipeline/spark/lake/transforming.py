"""What transformations need of columns (`pipeline/sink_records/columns.py`), as expressions of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type, ddl
from headrace.pipeline.sink_records.columns import Cast
from headrace.pipeline.spark.lake.casting import cast_value
from headrace.pipeline.spark.lake.simple_date_formats import DAY_MS, milliseconds, written
from headrace.pipeline.spark.lake.spark_columns import nothing, shown

_LARGEST: Final = 2**63 - 1


class SparkColumns:
    """Of any frame."""

    def constant(self, value: object, kind: Type) -> Column:
        column = F.lit(value)
        return column if kind in (Simple.STRING, Simple.BOOLEAN) else column.cast(ddl(kind))

    def null(self, kind: Type) -> Column:
        return nothing(kind)

    def empty(self, kind: Type) -> Column | None:  # noqa: PLR0911 - one for each type
        match kind:
            case Simple.BOOLEAN:
                return F.lit(False)
            case Simple.STRING:
                return F.lit("")
            case Simple.INT | Simple.BIGINT | Simple.FLOAT | Simple.DOUBLE | Decimal():
                return F.lit(0).cast(ddl(kind))
            case Simple.DATE:
                return F.date_from_unix_date(F.lit(0))
            case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
                return F.timestamp_seconds(F.lit(0)).cast(ddl(kind))
            case Array():
                return F.array().cast(ddl(kind))
            case Map():
                return F.create_map().cast(ddl(kind))
            case Struct():
                return F.struct(*(nothing(inner.type).alias(inner.name) for inner in kind.fields))
            case _:
                return None

    def field(self, value: Column, name: str) -> Column:
        return value.getField(name)

    def record(self, fields: Sequence[tuple[str, Column]]) -> Column:
        return F.struct(*(column.alias(name) for name, column in fields))

    def is_present(self, value: Column) -> Column:
        return value.isNotNull()

    def when(self, condition: Column, value: Column, otherwise: Column | None = None) -> Column:
        found = F.when(condition, value)
        return found if otherwise is None else found.otherwise(otherwise)

    def first(self, values: Sequence[Column]) -> Column:
        return F.coalesce(*values)

    def both(self, one: Column, other: Column) -> Column:
        return one & other

    def opposite(self, condition: Column) -> Column:
        return ~condition

    def has_header(self, headers: Column, name: str) -> Column:
        has = F.exists(headers, lambda header: header.getField("key") == F.lit(name))
        return F.coalesce(has, F.lit(False))

    def problem(self, start: str, value: Column) -> Column:
        return F.concat(F.lit(start), shown(value), F.lit("."))

    def cast(self, value: Column, kind: Type, target: str) -> Cast[Column] | None:
        return cast_value(value, kind, target)

    # Times.

    def read_time(self, text: Column, pattern: str) -> Column:
        return milliseconds(text, pattern)

    def written_time(self, moment: Column, pattern: str) -> Column:
        return written(F.timestamp_millis(moment), pattern)

    def from_unix(self, number: Column, units: int) -> Column:
        return _divided(number, units // 1000) if units >= 1000 else _times(number, 1000 // units)

    def to_unix(self, moment: Column, units: int) -> Column:
        return _times(moment, units // 1000) if units >= 1000 else _divided(moment, 1000 // units)

    def midnight(self, day: Column) -> Column:
        return F.unix_date(day).cast("bigint") * F.lit(DAY_MS)

    def moment(self, timestamp: Column) -> Column:
        return F.unix_millis(timestamp.cast("timestamp"))

    def between(self, moment: Column, first: int, last: int) -> Column:
        return F.when(moment.between(F.lit(first), F.lit(last)), moment)

    def day(self, moment: Column) -> Column:
        midnight = moment - F.pmod(moment, F.lit(DAY_MS))
        return F.date_from_unix_date(_divided(midnight, DAY_MS).cast("int"))

    def time_of_day(self, moment: Column) -> Column:
        return F.pmod(moment, F.lit(DAY_MS)).cast("int")

    def timestamp(self, moment: Column) -> Column:
        return F.timestamp_millis(moment)


SPARK: Final = SparkColumns()


def _divided(value: Column, divisor: int) -> Column:
    """Without its fraction."""
    return F.call_function("div", value, F.lit(divisor).cast("bigint"))


def _times(value: Column, factor: int) -> Column:
    """As Java's TimeUnit: the largest or smallest number if the product is too large."""
    limit = F.when(value > 0, F.lit(_LARGEST)).when(value < 0, F.lit(-_LARGEST - 1))
    return F.coalesce(F.try_multiply(value, F.lit(factor).cast("bigint")), limit)
