"""Kafka's predicates: to which records a transformation applies."""

from __future__ import annotations

from headrace.lake.sink import Transformation
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import Record
from headrace.pipeline.sink_tables import java_pattern, refused


def applies(step: Transformation, record: Record[C]) -> bool | C:
    """A constant if it is the same for all records of the topic."""
    if step.predicate is None:
        return True
    found = _matches(step, record)
    if isinstance(found, bool):
        return found != step.negate
    return record.made_by.opposite(found) if step.negate else found


def _matches(step: Transformation, record: Record[C]) -> bool | C:
    assert step.predicate is not None
    settings = step.predicate.settings
    match step.predicate.kind:
        case "TopicNameMatches":
            return java_pattern(step, settings.get("pattern", "")).fullmatch(record.topic) is not None
        case "HasHeaderKey":
            name = settings.get("name", "")
            return record.made_by.has_header(record.headers, name)
        case "RecordIsTombstone":
            return record.made_by.opposite(record.value.present)
        case other:
            raise refused(step, f"has the predicate {other}, which is not supported")
