"""What the writer of a table needs of its files: `DeltaFiles` of a Delta table, `PlainFiles` of plain ones.

Files come first, and count only with the commit that adds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from headrace.lake.delta_log import DeltaLog


class DataFiles(Protocol):
    """Of one table, written with the session `spark`. Belongs to the thread that writes batches."""

    spark: SparkSession

    @property
    def log(self) -> DeltaLog: ...

    def write(self, frame: DataFrame) -> list[str]:
        """Write rows with the columns of the table, and return the `add` actions of the files, as JSON."""
        ...

    def rows_in(self, adds: Sequence[str]) -> int:
        """How many rows were written for these actions, which the next commit is to have."""
        ...

    def without_known(self, suspects: DataFrame) -> DataFrame:
        """The suspects that the table does not have, each once."""
        ...

    def checkpoint(self) -> None:
        """After many commits: make the log short for its readers."""
        ...
