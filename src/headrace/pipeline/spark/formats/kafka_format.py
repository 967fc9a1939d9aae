"""KAFKA: one column as Kafka's own serializers write it.

| type | bytes |
|---|---|
| INTEGER | 4, big-endian |
| BIGINT | 8, big-endian |
| DOUBLE | 8, IEEE 754, big-endian |
| VARCHAR | UTF-8 |
| BYTES | as they are |

Spark cannot convert bytes to a double, but Avro's double is the same in little-endian order.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro, to_avro

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.statements.types import DataType, ScalarType

_SIZES: Final = {ScalarType.INTEGER: 4, ScalarType.BIGINT: 8, ScalarType.DOUBLE: 8}
SUPPORTED: Final = (*_SIZES, ScalarType.VARCHAR, ScalarType.BYTES)


class KafkaReader:
    def __init__(self, columns: tuple[Column, ...], *, side: str) -> None:
        (self._column,) = columns
        self._side = side

    def parsed(self, raw: SparkColumn) -> SparkColumn:
        return raw

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        size = _size(column.type)
        value = _value(parsed, column.type)
        return value if size is None else F.when(F.octet_length(parsed) == size, value)

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:  # noqa: ARG002
        size = _size(self._column.type)
        if size is None:
            return F.lit(None).cast("string")
        length = F.octet_length(raw)
        text = F.concat(
            F.lit(f"The {self._side} is not of type {self._column.type} as Kafka writes it: it has "),
            length.cast("string"),
            F.lit(f" bytes instead of {size}."),
        )
        return F.when(length != size, text)


class KafkaWriter:
    def __init__(self, columns: tuple[Column, ...]) -> None:
        (self._column,) = columns

    def written(self, values: dict[str, SparkColumn]) -> SparkColumn:
        value = values[self._column.name]
        match self._column.type:
            case ScalarType.INTEGER:
                return whole_number(value, 4)
            case ScalarType.BIGINT:
                return whole_number(value, 8)
            case ScalarType.DOUBLE:
                # Without a schema, to_avro would write a union with null, which begins with another byte.
                body = to_avro(value, '"double"')
                return F.when(value.isNotNull(), _reversed(F.hex(body)))
            case _:
                return value.cast("binary")

    def reason(self, values: dict[str, SparkColumn]) -> SparkColumn | None:  # noqa: ARG002
        return None


def whole_number(value: SparkColumn, size: int) -> SparkColumn:
    """A number in that many bytes, big-endian."""
    return F.unhex(F.right(F.lpad(F.hex(value.cast("bigint")), 16, "0"), F.lit(2 * size)))


def whole_number_of(raw: SparkColumn) -> SparkColumn:
    """The BIGINT in eight bytes, big-endian."""
    return F.conv(F.hex(raw), 16, -10).cast("bigint")


def _size(kind: DataType) -> int | None:
    return _SIZES.get(kind) if isinstance(kind, ScalarType) else None


def _value(raw: SparkColumn, kind: DataType) -> SparkColumn:
    match kind:
        case ScalarType.INTEGER:
            unsigned = F.conv(F.hex(raw), 16, 10).try_cast("bigint")
            signed = F.when(unsigned >= 1 << 31, unsigned - F.lit(1 << 32)).otherwise(unsigned)
            return signed.try_cast("int")
        case ScalarType.BIGINT:
            return whole_number_of(raw)
        case ScalarType.DOUBLE:
            return from_avro(_reversed(F.hex(raw)), '"double"', {"mode": "PERMISSIVE"})
        case ScalarType.VARCHAR:
            return raw.cast("string")
        case _:
            return raw


def _reversed(digits: SparkColumn) -> SparkColumn:
    """Eight bytes, given as hexadecimal digits, in reverse order."""
    return F.unhex(F.concat(*(F.substring(digits, start, 2) for start in range(15, 0, -2))))
