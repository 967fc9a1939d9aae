r"""Values of one type as another, as Kafka's Cast and Java do it.

Numbers that are too large keep their low bits, and fractions are cut off. Texts that are not numbers fail.
"""

from __future__ import annotations

import decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.types import Decimal, Simple, Type, ddl
from headrace.pipeline.sink_records.columns import CAST_TYPES, INTEGER_BITS, Cast
from headrace.pipeline.spark.lake.spark_columns import midnight

_LARGEST: Final = 2**63 - 1
_TWO_TO_64: Final = decimal.Decimal(2**64)
_DAY_MS: Final = 86_400_000
_NOT_A_NUMBER: Final = r"\A[\x00-\x20]*[+-]?NaN[\x00-\x20]*\z"
# Texts that Spark takes for numbers and Java does not: Java insists on the case of NaN and Infinity.
_NAMED_NUMBER: Final = r"(?i)\A\s*[+-]?(?:inf|infinity|nan)\s*\z"
_INFINITY: Final = r"\A[\x00-\x20]*[+-]?Infinity[\x00-\x20]*\z"
# BigDecimal writes smaller numbers with an exponent.
_PLAIN_ZEROS: Final = 6


def cast_value(value: Column, kind: Type, target: str) -> Cast[Column] | None:
    """`target` is one of `CAST_TYPES`. None if no value of the type can be cast."""
    if target == "string":
        return _to_text(value, kind)
    if kind is Simple.STRING:
        return _from_text(value, target)
    number = _number(value, kind)
    if number is None:
        return None
    column, kind = number
    if target in INTEGER_BITS:
        return Cast(column=_wrapped(java_long(column, kind, is_int=target != "int64"), target))
    if target == "boolean":
        return Cast(column=java_long(column, kind) != F.lit(0).cast("bigint"))
    return Cast(column=column.cast(ddl(CAST_TYPES[target])))


def _number(value: Column, kind: Type) -> tuple[Column, Type] | None:
    """Kafka casts dates and times by the numbers that stand for them."""
    match kind:
        case Simple.BOOLEAN:
            return F.when(value, F.lit(1)).when(~value, F.lit(0)), Simple.INT
        case Simple.DATE:
            return F.unix_date(value), Simple.INT
        case Simple.TIMESTAMP:
            return F.unix_millis(value), Simple.BIGINT
        case Simple.TIMESTAMP_NTZ:
            return F.unix_millis(value.cast("timestamp")), Simple.BIGINT
        case Simple.INT | Simple.BIGINT | Simple.FLOAT | Simple.DOUBLE | Decimal():
            return value, kind
        case _:
            return None


def java_long(value: Column, kind: Type, *, is_int: bool = False) -> Column:
    """A number as a BIGINT: the nearest one if it is too large, 0 for NaN; of a DECIMAL the low 64 bits.

    `is_int`: floating numbers become INT first, as in Java.
    """
    match kind:
        case Simple.FLOAT | Simple.DOUBLE:
            large = 2**31 if is_int else 2**63
            number = value.cast("double")
            return (
                F.when(F.isnan(number), F.lit(0).cast("bigint"))
                .when(number >= F.lit(float(large)), F.lit(large - 1).cast("bigint"))
                .when(number <= F.lit(float(-large)), F.lit(-large).cast("bigint"))
                .otherwise(number.try_cast("bigint"))
            )
        case Decimal():
            whole = F.when(value < 0, F.ceil(value)).otherwise(F.floor(value)).cast("decimal(38,0)")
            low = whole % F.lit(_TWO_TO_64)
            wrapped = (
                F.when(low > F.lit(decimal.Decimal(_LARGEST)), low - F.lit(_TWO_TO_64))
                .when(low < F.lit(decimal.Decimal(-(2**63))), low + F.lit(_TWO_TO_64))
                .otherwise(low)
            )
            return wrapped.try_cast("bigint")
        case _:
            return value.cast("bigint")


def _wrapped(value: Column, target: str) -> Column:
    """The low bits of a BIGINT."""
    bits = 64 - INTEGER_BITS[target]
    low = F.shiftright(F.shiftleft(value, bits), bits) if bits else value
    return low.cast(ddl(CAST_TYPES[target]))


def _from_text(value: Column, target: str) -> Cast[Column]:
    if target == "boolean":
        return Cast(column=F.lower(value) == F.lit("true"))
    if target in INTEGER_BITS:
        limit = 2 ** (INTEGER_BITS[target] - 1)
        number = F.when(value.rlike(r"\A[+-]?[0-9]+\z"), value.try_cast("bigint"))
        fitting = F.when((number >= F.lit(-limit)) & (number <= F.lit(limit - 1)), number)
        column = fitting.cast(ddl(CAST_TYPES[target]))
    else:
        kind = ddl(CAST_TYPES[target])
        column = (
            F.when(value.rlike(_NOT_A_NUMBER), F.lit(float("nan")).cast(kind))
            .when(value.rlike(_NAMED_NUMBER) & ~value.rlike(_INFINITY), F.lit(None).cast(kind))
            .otherwise(value.try_cast(kind))
        )
    return Cast(column=column, fails=value.isNotNull() & column.isNull())


def _to_text(value: Column, kind: Type) -> Cast[Column] | None:
    text = _text(value, kind)
    if text is None:
        return None
    # The most distant days have no text.
    return Cast(column=text, fails=value.isNotNull() & text.isNull() if kind is Simple.DATE else None)


def _text(value: Column, kind: Type) -> Column | None:
    match kind:
        case Simple.BINARY:
            return F.base64(value)
        case Simple.DATE:
            return _moment_text(midnight(value))
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return _moment_text(value.cast("timestamp"))
        case Decimal(scale=scale) if scale > _PLAIN_ZEROS:
            return _decimal_text(value, scale)
        case Simple() | Decimal():
            return value.cast("string")
        case _:
            return None


def _moment_text(value: Column) -> Column:
    """Kafka takes everything before 2 January 1970 for a time of day, and midnight for a date."""
    milliseconds = F.unix_millis(value)
    day = F.concat(F.year(value).cast("string"), F.date_format(value, "-MM-dd"))
    return (
        F.when(milliseconds < F.lit(_DAY_MS), F.date_format(value, "HH:mm:ss.SSS'Z'"))
        .when(milliseconds % F.lit(_DAY_MS) == F.lit(0), day)
        .otherwise(F.concat(day, F.date_format(value, "'T'HH:mm:ss.SSS'Z'")))
    )


def _decimal_text(value: Column, scale: int) -> Column:
    """As BigDecimal.toString: numbers below a millionth have an exponent."""
    digits = F.regexp_replace(F.abs(value).cast("string"), r"\A[0.]+(?=[0-9])|\.", "")
    exponent = F.length(digits) - F.lit(1 + scale)
    point = F.when(F.length(digits) > 1, F.lit(".")).otherwise(F.lit(""))
    scientific = F.concat(
        F.when(value < 0, F.lit("-")).otherwise(F.lit("")),
        F.substring(digits, 1, 1),
        point,
        F.substring(digits, 2, 40),
        F.lit("E"),
        exponent.cast("string"),
    )
    return F.when(exponent < F.lit(-_PLAIN_ZEROS), scientific).otherwise(value.cast("string"))
