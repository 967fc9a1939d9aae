"""Kafka's predicates: to which records a transformation applies."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import Transformation
from headrace.pipeline.sink_tables import java_pattern, refused
from headrace.pipeline.spark.lake.records import Record


def applies(step: Transformation, record: Record) -> bool | Column:
    """A constant if it is the same for all records of the topic."""
    if step.predicate is None:
        return True
    found = _matches(step, record)
    if isinstance(found, bool):
        return found != step.negate
    return ~found if step.negate else found


def _matches(step: Transformation, record: Record) -> bool | Column:
    assert step.predicate is not None
    settings = step.predicate.settings
    match step.predicate.kind:
        case "TopicNameMatches":
            return java_pattern(step, settings.get("pattern", "")).fullmatch(record.topic) is not None
        case "HasHeaderKey":
            name = settings.get("name", "")
            has = F.exists(record.headers, lambda header: header.getField("key") == F.lit(name))
            return F.coalesce(has, F.lit(False))
        case "RecordIsTombstone":
            return ~record.value.present
        case other:
            raise refused(step, f"has the predicate {other}, which is not supported")
