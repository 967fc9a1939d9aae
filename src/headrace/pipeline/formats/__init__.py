"""Keys and values of records in ksqlDB's formats, in Python: bytes ⇄ values of columns, one file a format.

`Serializer` is the way in. Spark has formats of its own (`spark/formats/`), which write
the same bytes; these here serve single rows.
"""

from headrace.pipeline.formats.records import (
    Schemas,
    Serializer,
)

__all__ = ["Schemas", "Serializer"]
