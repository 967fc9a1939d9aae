"""The tail of a table as Arrow: chunks mapped from their files, without the rows that the table has.

Owns the mapped files, and keeps those of the last view of each table mapped. Invariants: rows are not copied,
except those of a chunk that begins before the start and is not in the order of offsets; a chunk that is gone
raises ChunkGoneError, since the plan is then out of date.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from headrace.lake import layout
from headrace.query.sources import TailChunk, TailView
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.workers.unknown_columns import marked

_Key = tuple[str, int, int, int]


class ChunkGoneError(Exception):
    """A chunk of the plan was deleted: the table has been written to meanwhile."""


class TailRows:
    """Opens the chunks of views."""

    def __init__(self) -> None:
        self._mapped: dict[str, dict[_Key, pa.Table]] = {}

    def rows(self, table: TableSnapshot, view: TailView) -> pa.Table | None:
        """The rows of the view, in the table's columns, with marks on the names of those that are unknown;
        None if there are none.
        """
        before = self._mapped.get(table.name, {})
        mapped: dict[_Key, pa.Table] = {}
        parts: list[pa.Table] = []
        for chunk in view.chunks:
            start = view.starts.get(chunk.partition, 0)
            if chunk.end <= start or not chunk.rows:
                continue
            key = (chunk.path, chunk.first, chunk.end, chunk.rows)
            mapped[key] = before[key] if key in before else _open(chunk)
            part = mapped[key] if chunk.first >= start else _from_offset(mapped[key], start)
            if part.num_rows:
                rows = part.select([column.name for column in table.columns])
                parts.append(marked(rows, view.unknown) if view.unknown else rows)
        self._mapped[table.name] = mapped
        return pa.concat_tables(parts) if parts else None

    def forget(self, name: str) -> None:
        self._mapped.pop(name, None)


def _open(chunk: TailChunk) -> pa.Table:
    try:
        source = pa.memory_map(chunk.path)
    except FileNotFoundError as error:
        raise ChunkGoneError(chunk.path) from error
    return pyarrow.ipc.open_file(source).read_all()


def _from_offset(rows: pa.Table, start: int) -> pa.Table:
    offsets = rows.column(layout.TOPIC_OFFSET)
    kept = pc.greater_equal(offsets, start)
    number = pc.sum(kept).as_py() or 0
    tail = rows.slice(rows.num_rows - number)
    # Chunks are written in the order of offsets: then the kept rows are the last ones, and nothing is copied.
    if number == 0 or pc.min(tail.column(layout.TOPIC_OFFSET)).as_py() >= start:
        return tail
    return rows.filter(kept)
