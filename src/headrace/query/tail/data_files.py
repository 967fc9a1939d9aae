"""Rows of a tail as data files: Parquet in folders of the partition columns, as the table itself has them.

A question reads them together with the files of the table, and leaves out what its conditions exclude in the
same way: folders by their names, the rest by the statistics. Arrow's own files, which are faster to write,
must be scanned. The names and the contents are those of `lake/columns/data_files.py`; nobody commits them.
Their owner is `chunk_files.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake import layout
from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.columns.folders import FolderColumn, folders_of
from headrace.lake.columns.unusual import UnusualRecordsError

# Faster to read than what takes less space.
_CODEC: Final = "lz4"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """`name` is below the folder of the chunk. `values` are those of the partition columns, as text."""

    name: str
    values: tuple[str | None, ...]


def write_data_files(
    folder: Path, rows: pa.Table, columns: Sequence[FolderColumn], *, fewest_rows: int
) -> tuple[DataFile, ...]:
    """A file for each folder; none, and nothing is written, if they had fewer rows on average.

    Raises OSError.
    """
    try:
        found = folders_of(rows, columns)
    except UnusualRecordsError:
        # Each batch was decoded with its folders: together they have very many.
        return ()
    if len(rows) < fewest_rows * len(found):
        return ()
    names = [each.name for each in columns]
    stored = rows.drop_columns(names)
    written = []
    for each in found:
        name = f"{each.path(columns)}rows.parquet"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, stored.take(each.rows) if len(found) > 1 else stored)
        written.append(DataFile(name=name, values=each.values))
    return tuple(written)


def read_data_files(
    folder: Path, files: Sequence[DataFile], columns: Sequence[FolderColumn], schema: pa.Schema
) -> pa.Table:
    """The rows, in another order. Raises OSError."""
    return pa.concat_tables([_read(folder / each.name, each.values, columns, schema) for each in files])


def _write(path: Path, rows: pa.Table) -> None:
    repeating = [name for name in rows.column_names if name not in layout.ALL_DIFFERENT]
    pq.write_table(rows, path, compression=_CODEC, use_dictionary=repeating, store_schema=False)


def _read(
    path: Path, values: Sequence[str | None], columns: Sequence[FolderColumn], schema: pa.Schema
) -> pa.Table:
    rows = pq.read_table(path, partitioning=None)
    for column, value in zip(columns, values, strict=True):
        kind = arrow_type(column.type)
        rows = rows.append_column(column.name, pa.repeat(pa.scalar(value, pa.string()).cast(kind), len(rows)))
    return rows.select(schema.names).cast(schema)
