"""Batches of a topic written in columns (`lake/columns/`) by tasks of Spark.

Spark says which offsets a batch has, shares the work out and runs it; its tasks fetch whole record batches
from the log and write data files. No record becomes a row of Spark, so this takes a fraction of the time.
What cannot be done in columns is written in rows (`writer.py`): a table as a whole (`lake/columns/plan.py`
says why), or a batch with a record that is not as expected. After such a batch the next ones are written in
rows, too, each time twice as many, up to a limit: bad records seldom come alone.

Nothing is committed here, and files that are not to be committed are removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.columns.task import Stretch, TaskResult, run_task, split
from headrace.lake.storage.opening import files_at
from headrace.pipeline.spark.fair_turns import usable_cores
from headrace.pipeline.spark.lake.new_folders import PartitionPolicy

logger = logging.getLogger(__name__)

# From so many offsets on, a batch is written by several tasks: more files, but sooner.
LARGE_BATCH: Final = 20_000
_MOST_ROW_BATCHES: Final = 64
# What Spark says when the Python process of a task was killed. Java needs less memory for the same records.
_WORKER_DIED: Final = "Python worker exited unexpectedly"
_QUANTILES: Final = np.arange(101) / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class InColumns:
    """A batch whose files are written: `adds` are their actions, `seen` is what the writer wants to know of a
    batch.
    """

    adds: list[str]
    seen: dict[str, Any]


class ColumnBatches:
    """Of one run of a table. Belongs to the thread that writes batches."""

    def __init__(self, spark: SparkSession, plan: ColumnPlan, policy: PartitionPolicy) -> None:
        self._spark = spark
        self._plan = plan
        self._policy = policy
        self._row_batches = 0
        self._left_to_rows = 0

    def write(self, stretches: Sequence[Stretch]) -> InColumns | None:
        """None if the batch must be written in rows; then nothing was written.

        Raises OSError if the storage fails, and log_unavailable.
        """
        if any(each.partition >= self._plan.topic.partitions for each in stretches):
            # Rows notice it, and end the run: its positions have no place for partitions that came later.
            return None
        if self._left_to_rows:
            self._left_to_rows -= 1
            return None
        try:
            results = self._run(stretches)
        except Py4JJavaError as error:
            if _WORKER_DIED not in str(error.java_exception):
                raise
            results, why = [], "a worker died, perhaps because it had no memory left"
        else:
            why = self._unusual(results)
        if why:
            self._remove(results)
            self._row_batches = self._left_to_rows = min(max(1, 2 * self._row_batches), _MOST_ROW_BATCHES)
            logger.info(
                "a batch of topic %s, and %d more, are written row by row: %s",
                self._plan.topic.name,
                self._left_to_rows,
                why,
            )
            return None
        self._row_batches = 0
        adds = [file.add for result in results for file in result.files]
        return InColumns(adds=adds, seen=_seen(results, self._plan.topic.partitions))

    def _run(self, stretches: Sequence[Stretch]) -> list[TaskResult]:
        size = sum(each.end - each.first for each in stretches)
        parts = split(stretches, usable_cores() if size >= LARGE_BATCH else 1)
        if not parts:
            return []
        plan = self._plan

        def run(numbered: tuple[int, list[Stretch]]) -> TaskResult:
            return run_task(plan, *numbered)

        tasks = self._spark.sparkContext.parallelize(list(enumerate(parts)), len(parts))
        return tasks.map(run).collect()

    def _unusual(self, results: Sequence[TaskResult]) -> str:
        """Why the batch must be written in rows; empty if it need not. Raises the error of a task."""
        if (error := next(filter(None, map(_error, results)), None)) is not None:
            with suppress(OSError):
                # Otherwise this one would hide the first. VACUUM removes what stays.
                self._remove(results)
            raise error
        why = next((result.unusual for result in results if result.unusual), "")
        if why:
            return why
        rows: dict[tuple[str, ...], int] = {}
        for each in (each for result in results for each in result.files):
            rows[each.partition] = rows.get(each.partition, 0) + each.rows
        return "" if self._policy.admits(rows) else "it has rows of more new partitions than are made"

    def _remove(self, results: Sequence[TaskResult]) -> None:
        files_at(self._plan.location).retract(file.name for result in results for file in result.files)


def _error(result: TaskResult) -> Exception | None:
    if result.failure is not None:
        code, message, remedy = result.failure
        return HeadraceError(code, message, remedy=remedy)
    if result.storage_failure is not None:
        number, text, file = result.storage_failure
        return OSError(number, text, file) if number is not None else OSError(text)
    return None


def _seen(results: Sequence[TaskResult], partitions: int) -> dict[str, Any]:
    highest: dict[int, int] = {}
    for result in results:
        for number, offset in result.highest.items():
            highest[number] = max(highest.get(number, -1), offset)
    latencies = [latency for result in results for latency in result.latencies_ms]
    return {
        "records": sum(result.records for result in results),
        "dropped": sum(result.dropped for result in results),
        **dict.fromkeys(("bad", "doubtful", "suspects", "elsewhere"), 0),
        "quantiles": np.quantile(latencies, _QUANTILES).tolist() if latencies else None,
        **{f"highest_{number}": highest.get(number) for number in range(partitions)},
    }


class BatchStretches:
    """Which offsets the batches of a run have: each begins where the one before it ended.

    Where they end is in Spark's checkpoint before the batch is run: `offsets/<batch>` has a version, a line
    about the batch, and a line with the offsets of each source.
    """

    def __init__(self, checkpoint: Path, *, topic: str, starting_offsets: str) -> None:
        """`starting_offsets` are those that the stream was started with."""
        self._folder = checkpoint / "offsets"
        self._topic = topic
        self._reached: Mapping[int, int] | None = _offsets(json.loads(starting_offsets), topic)

    def of(self, batch: int) -> list[Stretch] | None:
        """None if it is not certain. To be asked for every batch, in order."""
        starts, ends = self._reached, self._ends(batch)
        self._reached = ends
        if starts is None or ends is None or not starts.keys() >= ends.keys():
            return None
        return [
            Stretch(partition=number, first=starts[number], end=end) for number, end in sorted(ends.items())
        ]

    def _ends(self, batch: int) -> Mapping[int, int] | None:
        try:
            lines = (self._folder / str(batch)).read_text("utf-8").splitlines()
            return _offsets(json.loads(lines[-1]), self._topic)
        except (OSError, ValueError, IndexError):
            return None


def _offsets(found: Any, topic: str) -> Mapping[int, int] | None:
    """None unless all of them are known. Negative ones stand for the beginning or the end."""
    if not isinstance(found, dict) or not isinstance(found.get(topic), dict):
        return None
    offsets = {int(number): offset for number, offset in found[topic].items()}
    return offsets if all(isinstance(each, int) and each >= 0 for each in offsets.values()) else None
