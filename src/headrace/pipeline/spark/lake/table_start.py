"""What a run of a query into the lake starts with: the table, and where it goes on reading its topic.

The table says it (`lake/resuming.py`), never Spark's checkpoint. A table whose log cannot be read stops only
its own query, with the command that repairs it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LOG_FOLDER, DeltaLog, SeenVersion
from headrace.lake.layout import TableLayout
from headrace.lake.plain_resuming import refuses_derived, resumed
from headrace.lake.positions import Offsets, Progress
from headrace.lake.repairing import unreadable
from headrace.lake.resuming import TopicNow, history, resume
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.spark.lake.bounds import bounds_of_rows
from headrace.pipeline.spark.lake.data_files import DataFiles
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.plain_files import PlainFiles, PlainTable

logger = logging.getLogger(__name__)

# Spark's word for the beginning of a partition.
_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStart:
    """The table's files, its version, and the progress that this version stands for.

    `begins_late`: the table is new, and does not begin at the beginning of its topic.
    """

    files: DataFiles
    version: SeenVersion
    progress: Progress
    begins_late: bool = False


def open_table(spark: SparkSession, table: TableLayout, *, data_dir: Path) -> DeltaFiles:
    """Create the table if it does not exist. Raises lake_damaged if its log cannot be read, lake_unsupported
    if something else is in its place.
    """
    log = DeltaLog(table.location)
    damage = log.damage()
    if damage is not None:
        raise unreadable(table.name, damage, data_dir=data_dir)
    is_new = not log.exists
    if is_new:
        # Of a creation that failed, or was killed, a folder is left. Spark takes any folder that is not empty
        # for a table that exists.
        log.files.remove_empty(LOG_FOLDER)
    files = DeltaFiles(spark, table)
    if is_new and not log.exists:
        raise HeadraceError(
            "lake_unsupported",
            f"Table {table.name} cannot be created: {table.location} is not empty, and no Delta table.",
            remedy="Move what is there away, or let the connector write to another folder (topics.dir).",
        )
    if is_new:
        log.sync_commit(0)
    return files


def start_table(
    spark: SparkSession,
    table: TableLayout,
    *,
    topic: TopicNow,
    dead_letters: TopicNow,
    data_dir: Path,
    plain: PlainTable | None = None,
    first: Callable[[], Offsets] | None = None,
) -> TableStart:
    """Open the table and find out where to go on. `plain` is None for a Delta table. `first` tells where a
    new table begins, if not at the beginning of the topic.
    """
    files: DeltaFiles | PlainFiles
    if plain is not None:
        files = PlainFiles(spark, table, plain)
    else:
        files = open_table(spark, table, data_dir=data_dir)
    log = files.log
    # Asked first: a commit that arrives meanwhile is noticed at the first commit of this run.
    version = log.seen(log.newest_version())
    resumption = resume(log, topic=topic, dead_letters=dead_letters)
    said = next(history(log), None)
    begins_late = first is not None and (said is None or not said.progress.positions.topic_id)
    begun = resumption.progress.begun(first()) if first is not None and begins_late else resumption.progress
    progress = begun.begun(topic.starts)
    if isinstance(files, PlainFiles):
        progress = resumed(progress, said.progress if said is not None else None, topic)
        files.offsets_come_again = refuses_derived(progress.bounds)
    elif resumption.is_doubtful:
        progress = progress.bounded(bounds_of_rows(spark, table.location.uri))
        logger.warning(
            "The commits of table %s do not say which records of the topic it has. Rows of %d source "
            "partitions are looked up before they are written.",
            table.name,
            len(progress.bounds),
        )
    return TableStart(files=files, version=version, progress=progress, begins_late=begins_late)


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
