"""Keys and values of records in ksqlDB's formats, in Python: bytes ⇄ values of columns, one file per format.

The entry point is `Serializer`. Spark has its own formats (`spark/formats/`), which write the same bytes;
these are for single rows.
"""

from headrace.pipeline.formats.records import (
    Schemas,
    Serializer,
)

__all__ = ["Schemas", "Serializer"]
