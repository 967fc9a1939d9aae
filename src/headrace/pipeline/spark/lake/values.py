"""From the bytes of a record's value to the columns of a row, and the reason if that fails.

There is a reader for each kind of converter. Reading has two steps, so that Spark parses the bytes only once,
whatever the number of columns: `parsed` must be a column of its own (a `select` before the next), and `value`
and `reason` are expressions over it. The reason is null for a readable record; otherwise it says what is
wrong, for the dead letters. Null bytes are readable: a tombstone, whose value is null.

Making an expression takes calls to the JVM for each of its parts, seconds if a topic has dozens of schemas:
make them once for all batches of a query, not once for each.

Nothing here may fail on any data: an expression that fails would end the query, and end it again after each
restart. Only a record with a schema that is not known yet ends the query on purpose.

| converter | reader | columns |
|---|---|---|
| Avro | `avro_values.AvroValues` | of the writer schemas |
| JSON without schemas | `json_values.JsonValues` | found in the data (`json_columns.py`) |
| JSON with schemas | `envelope_values.EnvelopeValues` | of the schemas beside the payloads |
| String | `TextValues` | `value`, STRING |
| ByteArray | `BytesValues` | `value`, BINARY |
"""

from __future__ import annotations

from typing import Final, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.avro_columns import VALUE
from headrace.lake.types import Field, Simple, Struct

TEXT_COLUMNS: Final = Struct(fields=(Field(name=VALUE, type=Simple.STRING),))
BYTES_COLUMNS: Final = Struct(fields=(Field(name=VALUE, type=Simple.BINARY),))


class ValueReader(Protocol):
    """Reads values, or keys, into the columns of `struct`."""

    struct: Struct

    def parsed(self, raw: Column) -> Column:
        """The input of `value` and `reason`."""
        ...

    def value(self, parsed: Column) -> Column:
        """A struct of exactly the type of `struct`; null if the record is null or cannot be read."""
        ...

    def reason(self, raw: Column, parsed: Column) -> Column:
        """Why the record cannot be read, or null."""
        ...


def parsed_once(*fields: Column) -> Column:
    """A struct of the fields for `parsed`, which Spark computes once for a record.

    Otherwise a filter by the reason would move below the `select` of `parsed`, and parse each record again.
    Spark moves nothing below an expression that is not deterministic; the number of the partition counts as
    one.
    """
    return F.struct(*fields, F.spark_partition_id().alias("spark_partition"))


class TextValues:
    """Values are texts. Malformed UTF-8 is replaced, as Kafka's StringConverter does."""

    struct = TEXT_COLUMNS

    def parsed(self, raw: Column) -> Column:
        return F.make_valid_utf8(raw.cast("string"))

    def value(self, parsed: Column) -> Column:
        return F.when(parsed.isNotNull(), F.struct(parsed.alias(VALUE)))

    def reason(self, raw: Column, parsed: Column) -> Column:  # noqa: ARG002
        return F.lit(None).cast("string")


class BytesValues:
    """Values are bytes."""

    struct = BYTES_COLUMNS

    def parsed(self, raw: Column) -> Column:
        return raw

    def value(self, parsed: Column) -> Column:
        return F.when(parsed.isNotNull(), F.struct(parsed.alias(VALUE)))

    def reason(self, raw: Column, parsed: Column) -> Column:  # noqa: ARG002
        return F.lit(None).cast("string")
