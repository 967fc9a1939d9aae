"""RegexRouter: another name for the topic, and so for the table."""

from __future__ import annotations

from dataclasses import replace

from headrace.lake.sink import Transformation
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import Record
from headrace.pipeline.sink_records.transforms.changes import Changed, text
from headrace.pipeline.sink_tables import routed


def regex_router(record: Record[C], step: Transformation) -> Changed[C]:
    # Both are required.
    text(step, "regex")
    text(step, "replacement")
    return Changed(record=replace(record, topic=routed(step, record.topic)))
