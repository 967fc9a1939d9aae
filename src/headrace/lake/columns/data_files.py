"""Writes rows as data files of a Delta table, a folder after the other, without committing them.

Files are what Delta would have written: Parquet without the partition columns, in folders
`<column>=<value>/`, with the number of rows and the limits of the coordinates in the `add` action. Their
names are new, so a file that is never committed harms nobody; VACUUM removes it. The commit makes them
durable (`lake/delta_log.py`).
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lake import layout
from headrace.lake.columns.folders import Folder, FolderColumn, folders_of
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.new_partitions import Partition
from headrace.lake.storage.opening import files_at
from headrace.lake.types import Struct

# Columns with limits in the log, as the table's properties say (`layout.py`).
_LIMITED: Final = (layout.TOPIC_PARTITION, layout.TOPIC_OFFSET, layout.SOURCE_PARTITION, layout.SOURCE_OFFSET)
# Spark 3 refuses old dates of files that do not say that they use today's calendar, as Spark's own do.
_FILE_METADATA: Final = {"org.apache.spark.version": "4.2.0"}
_ENDING: Final = {"none": "", "snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd", "lz4": ".lz4raw"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """`name` is below the table's folder; `add` is the action for the commit, as JSON."""

    name: str
    partition: Partition
    rows: int
    add: str


class ColumnFiles:
    """The files of one task. `written` are all so far."""

    def __init__(self, plan: ColumnPlan, task: int) -> None:
        self._plan = plan
        self._prefix = f"part-{task:05d}-{uuid.uuid4()}"
        self._files = files_at(plan.location)
        self._dictionaries = [
            path
            for name, path in (*_leaves(plan.columns), *((each, each) for each in _coordinates()))
            if name not in layout.ALL_DIFFERENT and not _is_in_folder(name, plan.folders)
        ]
        self.written: list[WrittenFile] = []
        # Also of files that could not be written to their end.
        self._names: list[str] = []

    def write(self, rows: pa.Table) -> None:
        """Raises UnusualRecordsError before anything is written, OSError."""
        for folder in folders_of(rows, self._plan.folders):
            of_folder = rows.drop_columns([each.name for each in self._plan.folders]).take(folder.rows)
            for start in range(0, len(of_folder), self._plan.rows_per_file):
                self._write(folder, of_folder.slice(start, self._plan.rows_per_file))

    def remove(self) -> None:
        """They will not be committed. Raises nothing: why they are not is more important, and VACUUM removes
        what stays.
        """
        try:
            self._files.retract(self._names)
        except OSError as error:
            logger.warning("files that are no part of the table stay in %s: %s", self._plan.location, error)

    def _write(self, folder: Folder, rows: pa.Table) -> None:
        ending = f"{_ENDING[self._plan.codec]}.parquet"
        name = f"{folder.path(self._plan.folders)}{self._prefix}.c{len(self.written):03d}{ending}"
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            rows.schema,
            compression=self._plan.codec,
            use_dictionary=self._dictionaries,
            # Arrow's own schema in the file would tell its readers that some columns are dictionaries.
            store_schema=False,
        ) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata(_FILE_METADATA)
        content = sink.getvalue()
        self._names.append(name)
        self._files.write(name, memoryview(content))
        self.written.append(
            WrittenFile(
                name=name,
                partition=folder.partition,
                rows=len(rows),
                add=_add(name, folder, self._plan.folders, rows, size=content.size),
            )
        )


def _leaves(columns: Struct) -> Iterator[tuple[str, str]]:
    """The columns, and what Parquet calls the single values in them."""
    for each in columns.fields:
        if isinstance(each.type, Struct):
            yield from ((each.name, f"{each.name}.{path}") for _, path in _leaves(each.type))
        else:
            yield each.name, each.name


def _coordinates() -> Sequence[str]:
    return [column.name for column in layout.COORDINATE_COLUMNS]


def _is_in_folder(name: str, folders: Sequence[FolderColumn]) -> bool:
    return any(name == each.name for each in folders)


def _add(name: str, folder: Folder, columns: Sequence[FolderColumn], rows: pa.Table, *, size: int) -> str:
    limits: Mapping[str, Any] = {name: pc.min_max(rows.column(name)).as_py() for name in _LIMITED}
    stats = {
        "numRecords": len(rows),
        "minValues": {name: limit["min"] for name, limit in limits.items()},
        "maxValues": {name: limit["max"] for name, limit in limits.items()},
        "nullCount": dict.fromkeys(_LIMITED, 0),
    }
    add = {
        "path": quote(name, safe="/="),
        "partitionValues": {column.name: value for column, value in zip(columns, folder.values, strict=True)},
        "size": size,
        "modificationTime": time.time_ns() // 1_000_000,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
    return json.dumps({"add": add}, separators=(",", ":"))
