"""How a run of a table of plain files reads its topic, if its newest commit alone does not say what the table
has (the rule is in `lake/plain_resuming.py`): records that were read before are dropped, derived ones that
nothing can decide about end the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake import layout
from headrace.lake.plain_resuming import read_before, refuses_derived, undecidable
from headrace.lake.positions import Progress
from headrace.pipeline.spark.lake.rows import DROPPED, NO_QUERY
from headrace.pipeline.spark.lake.work import TableWork
from headrace.pipeline.spark.steps.rows import REASON

_DERIVED: Final = "derived"


class PlainReading:
    """What the work says, and what `progress` adds to it."""

    def __init__(self, work: TableWork, progress: Progress) -> None:
        self._work = work
        self._read_before = read_before(progress.bounds)
        self._refuses_derived = refuses_derived(progress.bounds)

    def rows(self, records: DataFrame) -> DataFrame:
        return without_read(self._work.rows(records), self._read_before)

    @property
    def measures(self) -> Mapping[str, Column]:
        if not self._refuses_derived:
            return self._work.measures
        is_row = F.col(REASON).isNull() & ~F.col(DROPPED)
        derived = F.count_if(is_row & (F.col(layout.QUERY) != NO_QUERY))
        return {**self._work.measures, _DERIVED: derived}

    def check(self, observed: Mapping[str, Any]) -> None:
        self._work.check(observed)
        if self._refuses_derived and observed[_DERIVED]:
            raise undecidable(self._work.table.name, self._work.topic.name)


def without_read(rows: DataFrame, read_before: Mapping[int, int]) -> DataFrame:
    """Good rows of records before these offsets are dropped; bad ones may be dead letters that were lost."""
    if not read_before:
        return rows
    partition, offset = F.col(layout.TOPIC_PARTITION), F.col(layout.TOPIC_OFFSET)
    is_read = F.lit(False)
    for number, end in read_before.items():
        is_read = is_read | ((partition == number) & (offset < end))
    return rows.withColumn(DROPPED, F.col(DROPPED) | (F.col(REASON).isNull() & is_read))
