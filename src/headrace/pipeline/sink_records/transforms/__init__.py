"""Kafka Connect's single message transforms of columns (`columns.py`): one file for each kind or family.

They do what Kafka's classes of the same names do; `tests/pipeline/lake/test_transforms_like_kafka.py`
compares the two. Where Kafka throws for a record, the record gets a reason. Where it would throw for every
record, by the schema alone, `transformed` raises lake_unsupported before the query starts.
"""

from headrace.pipeline.sink_records.transforms.applying import KINDS, needs_key, transformed

__all__ = ["KINDS", "needs_key", "transformed"]
