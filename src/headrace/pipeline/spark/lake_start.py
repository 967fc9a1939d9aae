"""What a run of a query into the lake starts with: the table, and where it goes on reading its topic.

The table says it (`lake/resuming.py`), never Spark's checkpoint. A table whose log cannot be read stops only
its own query, with the command that repairs it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog, SeenVersion
from headrace.lake.layout import TableLayout
from headrace.lake.positions import Offsets, Progress
from headrace.lake.repairing import unreadable
from headrace.lake.resuming import TopicNow, resume
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.witnesses import has_records
from headrace.pipeline.spark.delta_files import DeltaFiles
from headrace.pipeline.spark.lake_bounds import bounds_of_rows

logger = logging.getLogger(__name__)

# Spark's word for the beginning of a partition.
_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStart:
    """The table's files, its version, and the progress that this version stands for."""

    files: DeltaFiles
    version: SeenVersion
    progress: Progress


class AskedTopic:
    """A topic as the log knows it."""

    def __init__(self, cluster: Cluster, topic: TopicIdentity) -> None:
        self._bootstrap = cluster.bootstrap
        self._topic = topic
        self.topic_id = topic.topic_id
        earliest = cluster.earliest([topic])
        self.starts: Offsets = {place[1]: earliest[place] for place in topic.places if place in earliest}

    def lacking(self, offsets: Offsets) -> frozenset[int]:
        if self._has_all(offsets):
            return frozenset()
        return frozenset(number for number, offset in offsets.items() if not self._has_all({number: offset}))

    def _has_all(self, offsets: Offsets) -> bool:
        known = {number: offset for number, offset in offsets.items() if number in self.starts}
        return known == offsets and has_records(self._bootstrap, [self._topic], {self.topic_id: known})


def open_table(spark: SparkSession, table: TableLayout, *, data_dir: Path) -> DeltaFiles:
    """Create the table if it does not exist. Raises lake_damaged if its log cannot be read."""
    log = DeltaLog(table.path)
    damage = log.damage()
    if damage is not None:
        raise unreadable(table.name, damage, data_dir=data_dir)
    is_new = not log.exists
    files = DeltaFiles(spark, table)
    if is_new:
        log.sync_commit(0)
    return files


def make_table(spark: SparkSession, table: TableLayout, *, data_dir: Path) -> None:
    """Create the table if it does not exist. If it cannot be opened, its query will say so."""
    try:
        open_table(spark, table, data_dir=data_dir)
    except (HeadraceError, PySparkException, Py4JError, OSError) as error:
        logger.error("Table %s cannot be opened: %s", table.name, error)


def start_table(
    spark: SparkSession,
    table: TableLayout,
    *,
    topic: TopicNow,
    dead_letters: TopicNow,
    data_dir: Path,
) -> TableStart:
    """Open the table and find out where to go on."""
    files = open_table(spark, table, data_dir=data_dir)
    log = DeltaLog(table.path)
    # Asked first: a commit that arrives meanwhile is noticed at the first commit of this run.
    version = log.seen(log.newest_version())
    resumption = resume(log, topic=topic, dead_letters=dead_letters)
    progress = resumption.progress.begun(topic.starts)
    if resumption.is_doubtful:
        progress = progress.bounded(bounds_of_rows(spark, table.path))
        logger.warning(
            "The commits of table %s do not say which records of the topic it has. Rows of %d source "
            "partitions are looked up before they are written.",
            table.name,
            len(progress.bounds),
        )
    return TableStart(files=files, version=version, progress=progress)


def starting_offsets(topic: TopicIdentity, starts: Offsets, progress: Progress) -> str:
    """Where Spark's source begins, in its own JSON."""
    positions = progress.positions.offsets
    offsets = {
        str(number): max(positions[number], starts.get(number, 0)) if number in positions else _EARLIEST
        for number in range(topic.partitions)
    }
    return json.dumps({topic.name: offsets})


def gaps_before(topic: TopicIdentity, starts: Offsets, progress: Progress, *, now: int) -> tuple[Gap, ...]:
    """Offsets that expired before the table has read them; `now` in milliseconds."""
    return tuple(
        Gap(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=number,
            first=position,
            end=starts[number],
            at=now,
        )
        for number, position in progress.positions.offsets.items()
        if position < starts.get(number, 0)
    )
