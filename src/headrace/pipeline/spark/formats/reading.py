"""What a format does for a reader: the bytes of a key or a value, and the columns in them.

A record is taken apart in two strides, so that Spark parses its bytes once however many columns are asked
for: `parsed` is a column of its own, and `value` and `reason` are expressions over it. `reason` is null for a
record that could be read; otherwise it says what is wrong with it, for the dead letters. Bytes that are null
are no fault: a tombstone, or a record without a key.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import Column as SparkColumn

from headrace.pipeline.catalogue.catalogue import Column as CatalogueColumn


class BytesReader(Protocol):
    """Reads the bytes of one side (key or value) of a topic's records."""

    def parsed(self, raw: SparkColumn) -> SparkColumn:
        """What `value` and `reason` look into."""
        ...

    def value(self, parsed: SparkColumn, column: CatalogueColumn) -> SparkColumn:
        """One column; null where the record has none or cannot be read."""
        ...

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        """Why the record cannot be read, or null."""
        ...


class BytesWriter(Protocol):
    """Writes one side of a sink's records."""

    def written(self, values: dict[str, Column]) -> Column:
        """The bytes of a row whose columns are `values`, by name."""
        ...
