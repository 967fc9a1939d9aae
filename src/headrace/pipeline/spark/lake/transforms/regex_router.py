"""RegexRouter: another name for the topic, and so for the table."""

from __future__ import annotations

from dataclasses import replace

from headrace.lake.sink import Transformation
from headrace.pipeline.sink_tables import routed
from headrace.pipeline.spark.lake.records import Record
from headrace.pipeline.spark.lake.transforms.changes import Changed, text


def regex_router(record: Record, step: Transformation) -> Changed:
    # Both are required.
    text(step, "regex")
    text(step, "replacement")
    return Changed(record=replace(record, topic=routed(step, record.topic)))
