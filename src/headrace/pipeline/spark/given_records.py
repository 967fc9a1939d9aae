"""The inputs of a repair: given records of the stream, and tables as they are now.

Spark reads ranges of offsets, one for each group of records that lie near each other, and filters by bitmaps:
a condition for each record would be too large a plan. Never reads a record through Python.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipeline.plan import Aggregate, Read
from headrace.pipeline.runs.stretches import Stretch
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.kafka_source import as_written, ranges_of
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.written_filter import only_of


class GivenRecords:
    """The plan's `Inputs`. There is at least one stretch."""

    def __init__(self, inputs: TopicInputs, stretches: Sequence[Stretch], bootstrap: str) -> None:
        self._inputs = inputs
        self._stretches = stretches
        self._bootstrap = bootstrap

    def changes(self, read: Read) -> Rows:
        topic = self._inputs.topics[read.source.topic]
        records = ranges_of(self._inputs.session, self._bootstrap, topic, self._stretches)
        return only_of(self._inputs.rows(read, records), as_written(self._stretches))

    def standing(self, read: Read, *, is_global: bool) -> Rows:  # noqa: ARG002 - the copy belongs to the run
        return self._inputs.standing(read, is_global=False)

    def table_groups(self, step: Aggregate) -> Rows:
        return self._inputs.table_groups(step)
