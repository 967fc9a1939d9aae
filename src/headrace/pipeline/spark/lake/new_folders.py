"""New partitions of a table as Spark sees them: which rows would make a folder, and which of those must not
(the policy is in `lake/new_partitions.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.new_partitions import NO_VALUE, NewPartitions, Partition
from headrace.pipeline.spark.steps.rows import REASON, column

IS_NEW: Final = "__IS_NEW"

# So many of the first rows of a new table tell which partitions have many.
_LOOKED_AT: Final = 20_000
# Between the values of a partition; no folder's name contains it, because Spark escapes it.
_SEPARATOR: Final = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows for the table, and rows for the dead letters with their reason, None if there are none."""

    taken: DataFrame
    refused: DataFrame | None
    refused_rows: int


class PartitionPolicy:
    """The policy of one table. Belongs to one thread.

    `is_new` is the flag of `with_new`; another column once more partitions are known.
    """

    def __init__(self, columns: Sequence[str], partitions: NewPartitions) -> None:
        self._columns = columns
        self._partitions = partitions
        self._key = F.concat_ws(
            _SEPARATOR,
            # The text of a value is the name of its folder.
            *(
                F.coalesce(F.nullif(column(name).cast("string"), F.lit("")), F.lit(NO_VALUE))
                for name in columns
            ),
        )
        self.is_new = self._is_none_of(partitions.known)

    @property
    def knows_any(self) -> bool:
        return bool(self._partitions.known)

    def look_ahead(self, rows: DataFrame) -> None:
        """Admit the partitions that have many of the first rows; `rows` are all of new partitions."""
        # By one task, which stops early.
        first = self._found(rows.coalesce(1).limit(_LOOKED_AT))
        self._partitions.admit_large(first)
        self.is_new = self._is_none_of(self._partitions.known)

    def with_new(self, rows: DataFrame) -> DataFrame:
        """The rows with a flag: whether the table has no folder for them yet."""
        return rows.withColumn(IS_NEW, self.is_new)

    def admits(self, rows: Mapping[Partition, int]) -> bool:
        """Whether the table takes all of these partitions, with their rows; if so, it has them now."""
        found = [(each, count) for each, count in rows.items() if each not in self._partitions.known]
        if not found:
            return True
        refused = self._partitions.refused(found, time.monotonic())
        self.is_new = self._is_none_of(self._partitions.known)
        return not refused

    def split(self, rows: DataFrame) -> Split:
        """The rows that the table takes, and the others."""
        found = self._found(rows.filter(IS_NEW))
        refused = self._partitions.refused(found, time.monotonic())
        # Made anew only here: it has a literal for each partition.
        self.is_new = self._is_none_of(self._partitions.known)
        if not refused:
            return Split(taken=rows, refused=None, refused_rows=0)
        # There may be thousands of refused partitions, but only a limited number of admitted ones.
        is_refused = F.col(IS_NEW) & self._is_none_of({each for each, _ in found} - refused)
        reason = F.lit(
            f"The table has no folder for {', '.join(self._columns)} of this record, and more than "
            f"{self._partitions.per_hour} new ones in an hour are not made (lake_new_partitions_per_hour)."
        )
        return Split(
            taken=rows.filter(~is_refused),
            refused=rows.filter(is_refused).withColumn(REASON, reason),
            refused_rows=sum(count for each, count in found if each in refused),
        )

    def _found(self, rows: DataFrame) -> list[tuple[Partition, int]]:
        """The partitions of the rows, with how many each has."""
        counts = rows.groupBy(self._key.alias("key")).count().collect()
        return [(tuple(row["key"].split(_SEPARATOR)), row["count"]) for row in counts]

    def _is_none_of(self, partitions: AbstractSet[Partition]) -> Column:
        if not partitions:
            return F.lit(True)
        return ~self._key.isin([_SEPARATOR.join(partition) for partition in sorted(partitions)])
