"""Which source record each record of a derived topic comes from, as far as it was read. Pure.

A derived record, and a dead letter, names its source in a header (`lake/coordinates.py`). They are read in
columns where that is possible, otherwise one by one. What is kept of each is two offsets and a number, so an
index of a million records takes about 20 MB.

Invariants of an index: it has every record of a partition from `begun` on and before `reached` that names a
source; beyond its capacity it forgets the oldest. Whoever has asked for a source gets what comes later
without searching again. Its owner locks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.client.batches import RecordSet
from headrace.client.topics import printed_topic_id
from headrace.lake import layout
from headrace.lake.columns.coordinates import coordinates_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.coordinates import SOURCE_HEADER, parse_source
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import check
from headrace.wire.record_columns import RecordColumns, record_columns
from headrace.wire.records import Headers, read_records

Numbers = npt.NDArray[np.int64]

_DECODED_BYTES: Final = 8 * 1024 * 1024
_MOST_HEADERS: Final = 64
# So many neighbours of about the same size become one.
_FAN_IN: Final = 8
_FEWEST_PARTS: Final = 16
_MOST_ASKED: Final = 20_000
# Small parts are searched as they come, without arrays of everything that was asked for.
_FEW: Final = 256


class Lane(NamedTuple):
    """One partition of one source, as one query reads it."""

    query: str
    topic_id: str
    partition: int


class Source(NamedTuple):
    """A source record, whichever query read it."""

    topic_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A record that `query` made of the source: where it is."""

    query: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Of some records of a partition, those that name a source. `lane` has places in `lanes`."""

    offset: Numbers
    source_offset: Numbers
    lane: Numbers
    lanes: tuple[Lane, ...]

    def __len__(self) -> int:
        return len(self.offset)


def origins_in(records: RecordSet, *, topic_id: str, partition: int, first: int) -> Origins:
    """Those of the records from offset `first` on. Raises CorruptBatchError."""
    try:
        return _in_columns(records, topic_id, partition, first)
    except (UnusualRecordsError, CorruptBatchError, ValueError):
        # Also headers that are no text, or very many: anybody can write what stops nobody else.
        return _one_by_one(records, first)


def numbers_of(given: Iterable[int]) -> Numbers:
    return np.fromiter(given, np.int64)


def source_of(headers: Headers) -> tuple[Lane, int] | None:
    """The source that a record names; None if it names none."""
    named = [value for name, value in headers if name == SOURCE_HEADER.encode()]
    if not named or named[-1] is None:
        return None
    try:
        found = parse_source(named[-1])
    except ValueError:
        return None
    return Lane(found.query, printed_topic_id(found.topic_id), found.partition), found.offset


class OriginIndex:
    """Of one topic, from one offset of each partition on."""

    def __init__(self, begins: Mapping[int, int], *, most_records: int) -> None:
        self.begun = dict(begins)
        self.reached = dict(begins)
        # Before which offset records have expired, where any have that were to be read.
        self.expired: dict[int, int] = {}
        self._most_records = most_records
        self._lanes: dict[Lane, int] = {}
        self._names: list[Lane] = []
        self._by_source: dict[tuple[str, int], list[int]] = {}
        self._parts: dict[int, list[Origins]] = {number: [] for number in begins}
        self._asked: OrderedDict[Source, list[Derived]] = OrderedDict()
        self._records = 0

    @property
    def records(self) -> int:
        return self._records

    def add(self, partition: int, origins: Origins, *, reached: int) -> None:
        """What follows in a partition, up to an offset."""
        own = np.array([self._number(lane) for lane in origins.lanes], np.int64)
        part = Origins(
            offset=origins.offset,
            source_offset=origins.source_offset,
            lane=own[origins.lane] if len(origins) else origins.lane,
            lanes=(),
        )
        self.reached[partition] = reached
        if not len(part):
            return
        self._tell(partition, part)
        parts = self._parts[partition]
        parts.append(part)
        self._records += len(part)
        while self._may_join(parts[-_FAN_IN:]):
            parts[-_FAN_IN:] = [_joined(parts[-_FAN_IN:])]
        while self._records > self._most_records:
            self._forget_some()

    def skip(self, partition: int, to: int) -> None:
        """What is before an offset has expired."""
        self.expired[partition] = to
        if not self._parts[partition]:
            self.begun[partition] = to
        self.reached[partition] = to

    def add_partitions(self, count: int) -> None:
        """The topic has so many now."""
        for number in range(len(self._parts), count):
            self._parts[number] = []
            self.begun[number] = self.reached[number] = 0

    def find(self, source: Source) -> Sequence[Derived]:
        """All records of the source that the index has."""
        found = self._asked.get(source)
        if found is None:
            found = self._asked[source] = self._search(source)
            if len(self._asked) > _MOST_ASKED:
                self._asked.popitem(last=False)
        self._asked.move_to_end(source)
        return tuple(found)

    def _may_join(self, newest: Sequence[Origins]) -> bool:
        """Large parts stay as they are: a part is what is forgotten at once."""
        is_large = sum(map(len, newest)) > self._most_records // _FEWEST_PARTS
        return len(newest) == _FAN_IN and not is_large and _tier(newest[0]) <= max(map(_tier, newest[1:]))

    def _search(self, source: Source) -> list[Derived]:
        lanes = self._by_source.get((source.topic_id, source.partition), [])
        if not lanes:
            return []
        found: list[Derived] = []
        for partition, parts in self._parts.items():
            for part in parts:
                at = np.flatnonzero((part.source_offset == source.offset) & np.isin(part.lane, lanes))
                found += [self._derived(partition, part, int(each)) for each in at]
        return found

    def _tell(self, partition: int, part: Origins) -> None:
        """Add what was asked for."""
        if not self._asked:
            return
        at: Sequence[int] = range(len(part))
        if len(part) > _FEW:
            wanted = np.fromiter((each.offset for each in self._asked), np.int64, len(self._asked))
            at = np.flatnonzero(np.isin(part.source_offset, wanted)).tolist()
        for each in at:
            lane = self._lane(int(part.lane[each]))
            source = Source(lane.topic_id, lane.partition, int(part.source_offset[each]))
            found = self._asked.get(source)
            if found is not None:
                found.append(self._derived(partition, part, each))

    def _derived(self, partition: int, part: Origins, at: int) -> Derived:
        return Derived(
            query=self._lane(int(part.lane[at])).query, partition=partition, offset=int(part.offset[at])
        )

    def _number(self, lane: Lane) -> int:
        if lane not in self._lanes:
            self._lanes[lane] = len(self._lanes)
            self._names.append(lane)
            self._by_source.setdefault((lane.topic_id, lane.partition), []).append(self._lanes[lane])
        return self._lanes[lane]

    def _lane(self, number: int) -> Lane:
        return self._names[number]

    def _forget_some(self) -> None:
        """The oldest part of the partition that has the most."""
        number = max(self._parts, key=lambda each: sum(map(len, self._parts[each])))
        gone = self._parts[number].pop(0)
        self._records -= len(gone)
        self.begun[number] = int(gone.offset[-1]) + 1


def _in_columns(records: RecordSet, topic_id: str, partition: int, first: int) -> Origins:
    parts: list[Origins] = []
    for found in record_columns(
        records.content, records.batches, most_headers=_MOST_HEADERS, about_bytes=_DECODED_BYTES
    ):
        wanted = found.only(found.offset >= first)
        if len(wanted):
            parts.append(_of_columns(wanted, topic_id, partition))
    return _with_lanes(parts)


def _of_columns(records: RecordColumns, topic_id: str, partition: int) -> Origins:
    columns = coordinates_of(records, partition=partition, topic_id=topic_id)
    queries, topics = columns[layout.QUERY], columns[layout.SOURCE_TOPIC_ID]
    codes = np.asarray(queries.indices, np.int64)
    partitions = np.asarray(columns[layout.SOURCE_PARTITION], np.int64)
    used, places = np.unique(codes, return_index=True)
    lanes = tuple(
        Lane(
            queries.dictionary[int(code)].as_py(),
            printed_topic_id(topics.dictionary[int(topics.indices[int(place)].as_py())].as_py()),
            int(partitions[place]),
        )
        for code, place in zip(used, places, strict=True)
    )
    own = np.array([not lane.query and lane.topic_id == topic_id for lane in lanes], np.bool_)
    lane = np.searchsorted(used, codes)
    # A record that names no source is one itself.
    kept = ~own[lane]
    return Origins(
        offset=np.asarray(columns[layout.TOPIC_OFFSET], np.int64)[kept],
        source_offset=np.asarray(columns[layout.SOURCE_OFFSET], np.int64)[kept],
        lane=lane[kept],
        lanes=lanes,
    )


def _one_by_one(records: RecordSet, first: int) -> Origins:
    offsets: list[int] = []
    sources: list[int] = []
    numbers: list[int] = []
    lanes: dict[Lane, int] = {}
    for header in records.batches:
        check(memoryview(records.content), header)
        for record in read_records(records.content, header):
            offset = header.base_offset + record.offset_delta
            named = source_of(record.headers) if offset >= first else None
            if named is not None:
                offsets.append(offset)
                sources.append(named[1])
                numbers.append(lanes.setdefault(named[0], len(lanes)))
    return Origins(
        offset=numbers_of(offsets),
        source_offset=numbers_of(sources),
        lane=numbers_of(numbers),
        lanes=tuple(lanes),
    )


def _with_lanes(parts: Sequence[Origins]) -> Origins:
    """As one, with all their lanes."""
    lanes: dict[Lane, int] = {}
    numbered = []
    for part in parts:
        own = np.array([lanes.setdefault(lane, len(lanes)) for lane in part.lanes], np.int64)
        numbered.append(own[part.lane] if len(part) else part.lane)
    nothing = np.array([], np.int64)
    return Origins(
        offset=np.concatenate([nothing, *(part.offset for part in parts)]),
        source_offset=np.concatenate([nothing, *(part.source_offset for part in parts)]),
        lane=np.concatenate([nothing, *numbered]).astype(np.int64),
        lanes=tuple(lanes),
    )


def _joined(parts: Sequence[Origins]) -> Origins:
    return Origins(
        offset=np.concatenate([part.offset for part in parts]),
        source_offset=np.concatenate([part.source_offset for part in parts]),
        lane=np.concatenate([part.lane for part in parts]),
        lanes=(),
    )


def _tier(part: Origins) -> int:
    """Sizes that are about the same."""
    return len(part).bit_length() // 3
