"""Keeps the copy of a global table up to date: a Spark query that reads the table's topic into the copy.

The copy says up to where it contains the topic (`steps/table_copy.py`), so each run goes on from there with a
new checkpoint. A copy that cannot be read, whose last record the topic has lost, or behind which records have
expired, is made anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.pipeline.runs.witnesses import has_records
from headrace.pipeline.spark.fair_turns import pace_of
from headrace.pipeline.spark.short_errors import shortened_errors
from headrace.pipeline.spark.stateful.checkpoint_files import positions_after
from headrace.pipeline.spark.steps.table_copy import TableCopy, copied_positions

# What Spark's Kafka source takes for the beginning of a partition.
_EARLIEST: Final = -2

# Spark's reader of the topic, from these offsets on.
Stream = Callable[[str], DataFrame]


class Refreshing:
    """One copy. `folder` is that of the copy, `checkpoint` the path for Spark's checkpoint."""

    def __init__(self, copy: TableCopy, topic: TopicIdentity, *, folder: Path, checkpoint: Path) -> None:
        self._copy = copy
        self._topic = topic
        self._folder = folder
        self._checkpoint = checkpoint

    def start(self, stream: Stream, *, name: str, cluster: Cluster) -> StreamingQuery:
        """Bring the copy up to the topic's end, then start to keep it up to date."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        frame = stream(self._starting_offsets(cluster))
        writer = (
            frame.writeStream.queryName(name)
            .foreachBatch(self._add)
            .option("checkpointLocation", str(self._checkpoint))
        )
        writer.trigger(availableNow=True).start().awaitTermination()
        return writer.trigger(processingTime=pace_of(frame.sparkSession, name)).start()

    def _add(self, batch: DataFrame, number: int) -> None:
        positions = positions_after(self._checkpoint, number) or {}
        with shortened_errors():
            self._copy.refresh(batch, positions.get(self._topic.name, {}))

    def _starting_offsets(self, cluster: Cluster) -> str:
        positions = copied_positions(self._folder)
        if positions is None or not self._contains(cluster, positions):
            self._copy.make_anew()
            positions = {}
        offsets = {str(number): positions.get(number, _EARLIEST) for number in range(self._topic.partitions)}
        return json.dumps({self._topic.name: offsets})

    def _contains(self, cluster: Cluster, positions: Mapping[int, int]) -> bool:
        """Whether the topic still has the last records that the copy contains, and all behind them.

        If they were compacted meanwhile, the copy is made anew without need.
        """
        stretches = cluster.stretches([self._topic]).get(self._topic.name, {})
        firsts = {number: stretches.get(number, (0, 0))[0] for number in positions}
        if any(position < firsts[number] for number, position in positions.items()):
            return False
        wanted = {number: position - 1 for number, position in positions.items() if position > firsts[number]}
        return has_records(cluster.bootstrap, [self._topic], {self._topic.topic_id: wanted})
