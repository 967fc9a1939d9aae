"""Everything that answers questions on tables in buckets: which there are, and the bytes of their files."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.query.buckets.reading import BucketReader
from headrace.query.buckets.tables import BucketTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Of one process. The reader is started and stopped by its desk."""

    tables: BucketTables
    reader: BucketReader
