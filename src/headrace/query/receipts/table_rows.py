"""Which rows a table has at a version, by the coordinates in their columns.

Only files whose statistics allow a row are opened, and only these columns are read. Invariant: what is said
is of the table with the id that was asked for. Belongs to one thread at a time. Never writes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lake import layout
from headrace.lake.location import Location
from headrace.lake.positions import Reached
from headrace.lake.resuming import Said, history
from headrace.lake.storage.opening import files_at
from headrace.lake.table_state import DataFile
from headrace.query.receipts.origins import Lane
from headrace.query.sources import TailChunk
from headrace.query.tail.versions import CommitsUpTo, TableVersions

_COLUMNS: Final = (
    layout.QUERY,
    layout.SOURCE_TOPIC_ID,
    layout.SOURCE_PARTITION,
    layout.SOURCE_OFFSET,
)
_MOST_BOUNDS: Final = 100_000

# A row: where it comes from.
Identity = tuple[Lane, int]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Lowest and highest partition and offset of the sources in a file; None if the file does not say."""

    partitions: tuple[int, int] | None
    offsets: tuple[int, int] | None

    def allow(self, identity: Identity) -> bool:
        lane, offset = identity
        return _within(lane.partition, self.partitions) and _within(offset, self.offsets)


class TableRows:
    """Of the table with this id at a location. Methods raise TableChangedError and OSError."""

    def __init__(self, location: Location, table_id: str) -> None:
        self._versions = TableVersions(location, table_id)
        self._bounds: dict[str, _Bounds] = {}

    def repairs(self) -> int:
        """As long as this is the same, versions are what they were."""
        return self._versions.repairs()

    def positions(self, version: int) -> Reached:
        """How far that version says that it has read its topic."""
        said = self._said(version)
        return said.progress.positions if said is not None else Reached()

    def letters_from(self, version: int, *, topic_id: str, partition: int, offset: int) -> Mapping[int, int]:
        """Where dead letters of this record lie at or above, as far as the log of the table says it."""
        found: Mapping[int, int] = {}
        for said in history(CommitsUpTo(self._versions, version)):
            positions = said.progress.positions
            if positions.topic_id != topic_id:
                return {}
            found = said.progress.dead_letters_from.offsets
            if positions.offsets.get(partition, 0) <= offset:
                return found
        return {}

    def keeps(self, since: int, to: int) -> bool:
        """Whether the later version has all rows of the earlier one."""
        return since <= to and self._versions.keeps_rows(since, to)

    def having(self, version: int, identities: Collection[Identity]) -> set[Identity]:
        """Those that the version has a row of."""
        left = set(identities)
        found: set[Identity] = set()
        for file in self._versions.files(version):
            if not left:
                break
            bounds = self._bounds_of(file)
            candidates = [each for each in left if bounds.allow(each)]
            if candidates:
                there = self._having(file, candidates)
                found |= there
                left -= there
        return found

    def _said(self, version: int) -> Said | None:
        return next(history(CommitsUpTo(self._versions, version)), None)

    def _having(self, file: DataFile, candidates: Sequence[Identity]) -> set[Identity]:
        rows = self._read(file, candidates)
        if rows is None:
            return set()
        found: set[Identity] = set()
        offsets = np.asarray(rows.column(layout.SOURCE_OFFSET))
        wanted = np.isin(offsets, np.array([offset for _, offset in candidates], np.int64))
        for row in rows.filter(pa.array(wanted)).to_pylist():
            query, topic_id, partition, offset = (row[name] for name in _COLUMNS)
            identity = Lane(query, topic_id, partition), offset
            if identity in candidates:
                found.add(identity)
        return found

    def _read(self, file: DataFile, candidates: Sequence[Identity]) -> pa.Table | None:
        """The row groups that may have one of them. None if somebody else has written the file."""
        location = self._versions.location
        path: Any = location.path / file.name if location.is_local else None
        with pq.ParquetFile(path or pa.BufferReader(files_at(location).read(file.name))) as opened:
            if not set(_COLUMNS) <= set(opened.schema_arrow.names):
                return None
            groups = [
                number
                for number in range(opened.num_row_groups)
                if _group_allows(opened.metadata.row_group(number), candidates)
            ]
            rows: pa.Table = opened.read_row_groups(groups, columns=list(_COLUMNS))
            return rows.drop_null()

    def _bounds_of(self, file: DataFile) -> _Bounds:
        found = self._bounds.get(file.name)
        if found is None:
            if len(self._bounds) >= _MOST_BOUNDS:
                self._bounds.clear()
            found = self._bounds[file.name] = _bounds(file)
        return found


def offsets_in(chunks: Iterable[TailChunk], partition: int, wanted: Collection[int]) -> set[int]:
    """Those of the topic's offsets of which the chunks have a row. Raises OSError if a chunk is gone."""
    found: set[int] = set()
    for chunk in chunks:
        some = [each for each in wanted if chunk.first <= each < chunk.end]
        if chunk.partition != partition or not some:
            continue
        for offsets in _offsets_of(chunk):
            there = pc.is_in(pa.array(some, pa.int64()), value_set=offsets.combine_chunks())
            found |= {each for each, is_there in zip(some, there.to_pylist(), strict=True) if is_there}
    return found


def _offsets_of(chunk: TailChunk) -> Iterator[pa.ChunkedArray]:
    for name in chunk.files:
        rows = pq.read_table(f"{chunk.path}/{name}", columns=[layout.TOPIC_OFFSET], partitioning=None)
        yield rows.column(layout.TOPIC_OFFSET)
    if not chunk.files:
        with pa.memory_map(chunk.path) as source:
            yield pa.ipc.open_file(source).read_all().column(layout.TOPIC_OFFSET)


def _bounds(file: DataFile) -> _Bounds:
    stats = json.loads(file.action["stats"]) if file.action.get("stats") else {}
    lowest, highest = stats.get("minValues") or {}, stats.get("maxValues") or {}

    def of(column: str) -> tuple[int, int] | None:
        low, high = lowest.get(column), highest.get(column)
        return None if low is None or high is None else (low, high)

    return _Bounds(partitions=of(layout.SOURCE_PARTITION), offsets=of(layout.SOURCE_OFFSET))


def _group_allows(group: Any, candidates: Sequence[Identity]) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == layout.SOURCE_OFFSET:
            stats = column.statistics
            if stats is None or not stats.has_min_max:
                return True
            return any(stats.min <= offset <= stats.max for _, offset in candidates)
    return True


def _within(value: int, bounds: tuple[int, int] | None) -> bool:
    return bounds is None or bounds[0] <= value <= bounds[1]
