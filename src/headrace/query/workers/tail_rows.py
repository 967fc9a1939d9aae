"""The tail of a table: chunks mapped as Arrow or linked as data files, without the rows that the table has.

Owns the mapped and linked files, and keeps those of the last view of each table: their owner may remove them
while a question reads them. Invariants: rows are not copied, except those of an Arrow chunk that begins
before the start and is not in the order of offsets; a chunk that is gone raises ChunkGoneError, since the
plan is then out of date.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What a view of the tail has. `rows` is Arrow, None if there is none; `files` are data files.

    Of the rows in `begun`, data files too, only those count whose offsets are not below `starts` of their
    partition: these chunks begin before them. `rows` has marks on the names of columns that are `unknown`.
    """

    rows: pa.Table | None
    files: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    """An open chunk: Arrow, or the folder with the links."""

    rows: pa.Table | None
    folder: Path | None


class TailRows:
    """Opens the chunks of views. `folder` is for the links."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._kept: dict[str, dict[_Key, _Kept]] = {}
        self._last: dict[str, tuple[TableSnapshot, TailView, Tail | None]] = {}

    def tail(self, table: TableSnapshot, view: TailView) -> Tail | None:
        """The rows of the view, in the columns of the table; None if there are none.

        The same object for the same view.
        """
        last = self._last.get(table.name)
        if last is None or last[0].columns != table.columns or not _are_alike(last[1], view):
            last = self._last[table.name] = table, view, self._tail(table, view)
        return last[2]

    def _tail(self, table: TableSnapshot, view: TailView) -> Tail | None:
        before = self._kept.get(table.name, {})
        kept: dict[_Key, _Kept] = {}
        parts: list[pa.Table] = []
        files: list[str] = []
        begun: list[str] = []
        self._last.pop(table.name, None)
        # If a chunk is gone, those before it are still known, and let go of by the next view.
        self._kept[table.name] = dict(before)
        for chunk in view.chunks:
            start = view.starts.get(chunk.partition, 0)
            if chunk.end <= start or not chunk.rows:
                continue
            key = (chunk.path, chunk.first, chunk.end, chunk.rows)
            opened = kept[key] = before[key] if key in before else self._open(chunk)
            self._kept[table.name][key] = opened
            if opened.rows is not None:
                part = opened.rows if chunk.first >= start else _from_offset(opened.rows, start)
                if part.num_rows:
                    rows = part.select([column.name for column in table.columns])
                    parts.append(marked(rows, view.unknown) if view.unknown else rows)
            else:
                named = (f"{opened.folder}/{name}" for name in chunk.files)
                (files if chunk.first >= start else begun).extend(named)
        self._let_go(before, kept)
        self._kept[table.name] = kept
        if not (parts or files or begun):
            return None
        return Tail(
            rows=pa.concat_tables(parts) if parts else None,
            files=tuple(files),
            begun=tuple(begun),
            starts=_listed(view.starts) if begun else (),
            unknown=view.unknown,
        )

    def forget(self, name: str) -> None:
        """Let go of a table's chunks."""
        self._last.pop(name, None)
        self._let_go(self._kept.pop(name, {}), {})

    def _open(self, chunk: TailChunk) -> _Kept:
        if not chunk.files:
            return _Kept(_mapped(chunk), None)
        folder = self._folder / str(next(self._numbers))
        try:
            for name in chunk.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                _link(Path(chunk.path) / name, folder / name)
        except FileNotFoundError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ChunkGoneError(chunk.path) from error
        return _Kept(None, folder)

    def _let_go(self, before: Mapping[_Key, _Kept], kept: Mapping[_Key, _Kept]) -> None:
        for key, each in before.items():
            if key not in kept and each.folder is not None:
                shutil.rmtree(each.folder, ignore_errors=True)


def _are_alike(one: TailView, other: TailView) -> bool:
    return (one.chunks, one.starts, one.unknown) == (other.chunks, other.starts, other.unknown)


def _listed(starts: Mapping[int, int]) -> tuple[int, ...]:
    """By the numbers of the partitions."""
    return tuple(starts.get(number, 0) for number in range(max(starts, default=-1) + 1))


def _link(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except FileNotFoundError:
        raise
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(file, name)


def _mapped(chunk: TailChunk) -> pa.Table:
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
