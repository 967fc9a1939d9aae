"""A copy of a table in files: the newest raw record of each key.

It has two uses. A global table is broadcast from its copy: another query reads the table's topic and updates
the copy batch by batch, and the joining query takes the newest snapshot at the start of each of its batches.
An aggregation of a table (`table_aggregating.py`) finds the former values of changed rows in its copy. The
copy is a Delta table, so every snapshot is consistent; its readers decode the records.

Each commit says what it contains. That of an aggregation names its batch, so that a repeated batch finds the
table as it was before it. That of a global table has the positions in the topic: they go on from there, and
the checkpoint of the query that keeps it up to date is of no use afterwards.

Each query has its own copies, next to its checkpoint. They are named after the topic's id, so a recreated
topic gets a new copy. Losing a copy only costs time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError

_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}
_COLUMNS: Final = tuple(_TYPES)
# In the `userMetadata` of a commit: the number of the batch, or the positions in the topic.
_BATCH: Final = "batch "
_POSITIONS: Final = "positions "
# Every batch leaves the former file behind. Its readers finish long before an hour has passed.
_TIDY_AFTER: Final = 100
_KEPT_HOURS: Final = 1


class TableCopy:
    """`readable` drops unreadable records."""

    def __init__(
        self, session: SparkSession, folder: Path, *, readable: Callable[[DataFrame], DataFrame]
    ) -> None:
        self._session = session
        self._folder = folder
        self._readable = readable
        self._replaced = 0
        # The batch that the newest snapshot contains, as far as this run knows.
        self._newest_batch: int | None = None

    def make_anew(self) -> None:
        """Begin with an empty copy, whatever there is."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self.make()

    def make(self) -> None:
        """Create an empty copy, unless it exists."""
        # The folder alone proves nothing: a process that was killed while creating it left no commit.
        if not any((self._folder / "_delta_log").glob("0*.json")):
            # Of a Python list, even an empty one, createDataFrame makes a task for each slot of the session,
            # and each of them starts a Python process.
            nothing = self._session.range(0, 0, 1, 1).select(
                *(F.lit(None).cast(kind).alias(name) for name, kind in _TYPES.items())
            )
            nothing.write.format("delta").save(str(self._folder))

    def records(self) -> DataFrame:
        """The table's records, one for each key."""
        return self._session.read.format("delta").load(str(self._folder))

    def records_before(self, batch: int) -> DataFrame:
        """The records as they were before this batch, although the copy may already contain it."""
        if self._newest_batch == batch - 1:
            return self.records()
        version = version_with(self._folder, batch - 1)
        if version is None:
            raise HeadraceError(
                "pipeline_failed",
                f"The copy of a table in {self._folder} has no snapshot from before batch {batch}.",
                remedy="Delete the checkpoint of the query: it is rebuilt from its sources.",
            )
        return self._session.read.format("delta").option("versionAsOf", version).load(str(self._folder))

    def with_batch(self, standing: DataFrame, batch: DataFrame) -> DataFrame:
        """The records after a batch of the topic, from those before it. Adding a batch twice changes
        nothing.
        """
        record = F.struct(*_COLUMNS)
        newest = (
            self._readable(batch)
            .filter(F.col("key").isNotNull())
            .groupBy("key")
            .agg(F.max_by(record, "offset").alias("record"))
            .select("record.*")
        )
        kept = standing.join(newest.select("key"), "key", "left_anti").select(*_COLUMNS)
        return kept.unionByName(newest.filter(F.col("value").isNotNull()).select(*_COLUMNS))

    def replace(self, records: DataFrame, batch: int) -> None:
        """Have these records, which contain the topic up to this batch."""
        self._replace(records, f"{_BATCH}{batch}")
        self._newest_batch = batch

    def refresh(self, batch: DataFrame, positions: Mapping[int, int]) -> None:
        """Add a batch, which ends at these positions of the topic."""
        said = msgspec.json.encode(dict(positions)).decode()
        records = self.with_batch(self.records(), batch)
        self._replace(records, f"{_POSITIONS}{said}")

    def _replace(self, records: DataFrame, said: str) -> None:
        self._replaced += 1
        if self._replaced % _TIDY_AFTER == 0:
            self.tidy(hours=_KEPT_HOURS)
        writer = records.coalesce(1).write.format("delta").mode("overwrite")
        writer.option("userMetadata", said).save(str(self._folder))

    def tidy(self, *, hours: int) -> None:
        """Remove files that no snapshot of the last hours uses."""
        # By default Delta refuses less than a week, for readers that take longer than ours.
        self._session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self._session.sql(f"VACUUM delta.`{self._folder}` RETAIN {hours} HOURS")


def has_batch(folder: Path, batch: int) -> bool:
    """Whether the copy can be had as it was behind this batch; -1 is its beginning."""
    version = version_with(folder, batch)
    return version is not None and (batch < 0 or _has_files(folder, version))


def version_with(folder: Path, batch: int) -> int | None:
    """The newest version that contains the topic up to this batch, and no further; None if there is none.

    -1 stands for the empty copy, the first version.
    """
    if batch < 0:
        return 0
    commits = _commits(folder)
    return next((version for version, said in commits if said == f"{_BATCH}{batch}"), None)


def copied_positions(folder: Path) -> dict[int, int] | None:
    """Up to where the newest snapshot contains the topic, by partition; None if it cannot be read."""
    for version, said in _commits(folder):
        if said is not None and said.startswith(_POSITIONS):
            is_there = _has_files(folder, version)
            return (
                msgspec.json.decode(said.removeprefix(_POSITIONS), type=dict[int, int]) if is_there else None
            )
        if version == 0:
            return {}
    return None


def _commits(folder: Path) -> list[tuple[int, str | None]]:
    """Version and metadata of each commit, the newest first; none of a copy that cannot be read."""
    try:
        history = DeltaTable(str(folder)).history()
    except (DeltaError, OSError):
        return []
    return [(int(commit["version"]), commit.get("userMetadata")) for commit in history]


def _has_files(folder: Path, version: int) -> bool:
    """Whether a snapshot has all its files in full: nothing is synced to disk before a commit names it."""
    try:
        files = DeltaTable(str(folder), version=version).get_add_actions()
    except (DeltaError, OSError):
        return False
    named = zip(files.column("path").to_pylist(), files.column("size_bytes").to_pylist(), strict=True)
    return all((folder / path).is_file() and (folder / path).stat().st_size == size for path, size in named)
