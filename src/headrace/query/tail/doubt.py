"""Rows of which only the table can tell whether it has them: bounds, suspects and looking them up.

The rule is in `lake/positions.py`, and `pipeline/spark/lake/bounds.py` is how Spark follows it. Only the
columns of coordinates are read, and of the files only those that may have a suspect according to their
statistics.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lake import layout
from headrace.lake.location import Location
from headrace.lake.positions import Position, Source
from headrace.lake.storage.opening import files_at
from headrace.lake.table_state import DataFile

_SOURCE: Final = [layout.QUERY, layout.SOURCE_TOPIC_ID, layout.SOURCE_PARTITION]
_COORDINATES: Final = [*_SOURCE, layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL]
_NUMBER: Final = "__NUMBER"
_KEPT_FILES: Final = 16


def bounds_of_rows(location: Location, files: Sequence[DataFile]) -> dict[Source, Position]:
    """The highest position of each source in the files. Raises OSError."""
    found: dict[Source, Position] = {}
    for file in files:
        rows = _coordinates(location, file)
        for source, of_source in _by_source(rows):
            offsets = of_source.column(layout.SOURCE_OFFSET)
            offset = pc.max(offsets).as_py()
            ordinals = of_source.filter(pc.equal(offsets, offset)).column(layout.SOURCE_ORDINAL)
            position = Position(offset=offset, ordinal=pc.max(ordinals).as_py())
            found[source] = max(found.get(source, position), position)
    return found


class KnownRows:
    """The rows of a table at one version that lie within the bounds. Belongs to one thread at a time."""

    def __init__(
        self, location: Location, files: Sequence[DataFile], bounds: Mapping[Source, Position]
    ) -> None:
        self._location = location
        self._files = files
        self._bounds = bounds
        self._read: OrderedDict[str, pa.Table] = OrderedDict()

    def without_known(self, rows: pa.Table) -> pa.Table:
        """The rows that the table does not have. Raises OSError."""
        if not self._bounds:
            return rows
        is_suspect = self._suspects(rows)
        if not is_suspect.any():
            return rows
        places = np.flatnonzero(is_suspect)
        suspects = rows.select(_COORDINATES).take(pa.array(places))
        suspects = suspects.append_column(_NUMBER, pa.array(places))
        offsets = pc.min_max(suspects.column(layout.SOURCE_OFFSET)).as_py()
        partitions = pc.min_max(suspects.column(layout.SOURCE_PARTITION)).as_py()
        for file in self._files:
            if not len(suspects):
                break
            if _may_have(file, layout.SOURCE_OFFSET, offsets) and _may_have(
                file, layout.SOURCE_PARTITION, partitions
            ):
                suspects = suspects.join(self._of(file), keys=_COORDINATES, join_type="left anti")
        is_kept = ~is_suspect
        is_kept[np.asarray(suspects.column(_NUMBER))] = True
        return rows.filter(pa.array(is_kept))

    def _suspects(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which rows lie at or below the bound of their source."""
        found = np.zeros(len(rows), np.bool_)
        numbered = rows.select(_COORDINATES).append_column(_NUMBER, pa.array(np.arange(len(rows))))
        for source, of_source in _by_source(numbered):
            bound = self._bounds.get(source)
            if bound is None:
                continue
            offset = np.asarray(of_source.column(layout.SOURCE_OFFSET))
            ordinal = np.asarray(of_source.column(layout.SOURCE_ORDINAL))
            is_within = (offset < bound.offset) | ((offset == bound.offset) & (ordinal <= bound.ordinal))
            found[np.asarray(of_source.column(_NUMBER))[is_within]] = True
        return found

    def _of(self, file: DataFile) -> pa.Table:
        if file.name not in self._read:
            self._read[file.name] = _coordinates(self._location, file)
            if len(self._read) > _KEPT_FILES:
                self._read.popitem(last=False)
        self._read.move_to_end(file.name)
        return self._read[file.name]


def _by_source(rows: pa.Table) -> Iterator[tuple[Source, pa.Table]]:
    sources = rows.select(_SOURCE).group_by(_SOURCE).aggregate([])
    for each in sources.to_pylist():
        query, topic_id, partition = (each[name] for name in _SOURCE)
        is_of = pc.and_(
            pc.and_(
                pc.equal(rows.column(layout.QUERY), query),
                pc.equal(rows.column(layout.SOURCE_TOPIC_ID), topic_id),
            ),
            pc.equal(rows.column(layout.SOURCE_PARTITION), partition),
        )
        yield Source(query=query, topic_id=topic_id, partition=partition), rows.filter(is_of)


def _coordinates(location: Location, file: DataFile) -> pa.Table:
    """Without rows that lack some: only somebody else can have written these."""
    path: Any = location.path / file.name if location.is_local else None
    with pq.ParquetFile(path or pa.BufferReader(files_at(location).read(file.name))) as opened:
        if not set(_COORDINATES) <= set(opened.schema_arrow.names):
            return _EMPTY
        return opened.read(columns=_COORDINATES).select(_COORDINATES).cast(_EMPTY.schema).drop_null()


def _may_have(file: DataFile, column: str, wanted: Mapping[str, int]) -> bool:
    stats = json.loads(file.action["stats"]) if file.action.get("stats") else {}
    low, high = (stats.get(name, {}).get(column) for name in ("minValues", "maxValues"))
    return low is None or high is None or not (wanted["max"] < low or high < wanted["min"])


_EMPTY: Final = pa.table(
    {
        layout.QUERY: pa.array([], pa.string()),
        layout.SOURCE_TOPIC_ID: pa.array([], pa.string()),
        layout.SOURCE_PARTITION: pa.array([], pa.int32()),
        layout.SOURCE_OFFSET: pa.array([], pa.int64()),
        layout.SOURCE_ORDINAL: pa.array([], pa.int32()),
    }
)
