"""The interface of formats: from the bytes of a key or a value to its columns, and back.

Reading has two steps, so that Spark parses the bytes only once, whatever the number of columns: `parsed` is
its own column, and `value` and `reason` are expressions over it. `reason` is null for a readable record;
otherwise it says what is wrong, for the dead letters. Null bytes are valid: a tombstone, or a record without
a key.

Nothing here may fail on any data: an expression that fails would end the query, and end it again after each
restart.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import Column as SparkColumn

from headrace.pipeline.catalogue.catalogue import Column as CatalogueColumn


class BytesReader(Protocol):
    """Reads the bytes of one side (key or value) of a topic's records."""

    def parsed(self, raw: SparkColumn) -> SparkColumn:
        """The input of `value` and `reason`."""
        ...

    def value(self, parsed: SparkColumn, column: CatalogueColumn) -> SparkColumn:
        """One column; null if the record lacks it or cannot be read."""
        ...

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        """Why the record cannot be read, or null."""
        ...


class BytesWriter(Protocol):
    """Writes one side of a sink's records."""

    def written(self, values: dict[str, Column]) -> Column:
        """The bytes of a row whose columns are `values`, by name; only for rows without a reason."""
        ...

    def reason(self, values: dict[str, Column]) -> Column | None:
        """Why the row cannot be written, or null; None if the format can write every row."""
        ...
