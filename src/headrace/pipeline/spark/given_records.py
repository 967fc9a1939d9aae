"""The inputs of a repair: given records of the stream, and tables as they are now.

Spark reads ranges of offsets, one for each group of records that lie near each other, and filters by bitmaps:
a condition for each record would be too large a plan. Never reads a record through Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame

from headrace.client.topics import TopicIdentity
from headrace.pipeline.plan import Aggregate, Read
from headrace.pipeline.runs.identities import Collected, Written
from headrace.pipeline.runs.stretches import Stretch, groups, places_of
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.written_filter import only_of


class GivenRecords:
    """The plan's `Inputs`. There is at least one stretch."""

    def __init__(self, inputs: TopicInputs, stretches: Sequence[Stretch], bootstrap: str) -> None:
        self._inputs = inputs
        self._groups = groups(stretches)
        self._wanted = _as_written(stretches)
        self._bootstrap = bootstrap

    def changes(self, read: Read) -> Rows:
        topic = self._inputs.topics[read.source.topic]
        records = reduce(DataFrame.union, (self._range(topic, group) for group in self._groups))
        return only_of(self._inputs.rows(read, records), self._wanted)

    def standing(self, read: Read, *, is_global: bool) -> Rows:  # noqa: ARG002 - the copy belongs to the run
        return self._inputs.standing(read, is_global=False)

    def table_groups(self, step: Aggregate) -> Rows:
        return self._inputs.table_groups(step)

    def _range(self, topic: TopicIdentity, group: Sequence[Stretch]) -> DataFrame:
        """All records from the first to the last of a group, with the columns of Spark's Kafka source."""
        partition, first, _ = group[0]
        end = group[-1][2] + 1
        return (
            self._inputs.session.read.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("kafka.allow.auto.create.topics", "false")
            .option("assign", json.dumps({topic.name: [partition]}))
            .option("startingOffsets", json.dumps({topic.name: {str(partition): first}}))
            .option("endingOffsets", json.dumps({topic.name: {str(partition): end}}))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .load()
        )


def _as_written(stretches: Sequence[Stretch]) -> Mapping[int, Written]:
    collected: dict[int, Collected] = {}
    for partition, offset in places_of(stretches):
        collected.setdefault(partition, Collected()).add(offset, 0)
    return {partition: each.written() for partition, each in collected.items()}
