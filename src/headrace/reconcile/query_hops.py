"""Compares a query's source with its sink: every source record up to a recorded position must have come out
once, as a record or as a dead letter.

In steps, each only if the one before it does not settle the matter:

1. Fingerprints of source offsets, range by range: those of the source from its batch headers, those of the
   results from the rows of a lake table that reads the sink, if there is one. Without a table, the numbers of
   records, from batch headers too.
2. Without a table: fingerprints of the results from the headers of the sink's records.
3. The ranges that differ, record by record.

A look-up and a filter leave the coordinates of records as they are. If a query may drop records
(`Relation.ANY`), nothing can be said to be missing; doubles are found by step 3 over everything, which
`is_full` asks for. Reads only; the platform may run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.batches import count_records
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import SourceCoordinates
from headrace.reconcile.findings import Basis, Double, Finding, PartitionCounts
from headrace.reconcile.fingerprints import (
    RANGE,
    Fingerprint,
    RangeKey,
    differing,
    of_offset,
    range_of,
    summed,
)
from headrace.reconcile.hops import QueryHop, Relation
from headrace.reconcile.recent import Recent, recent
from headrace.reconcile.recorded import Point
from headrace.reconcile.tables import TableRows
from headrace.reconcile.topics import (
    Stretches,
    derived_records,
    fingerprints,
    letters,
    offsets,
    within_range,
)

# Ranges whose identities are in memory at a time.
_RANGES_AT_ONCE: Final = 20

_ONLY_TOTALS: Final = (
    "only the totals were: a double record, or one of somebody else, can make up for a missing one. "
    "--full compares each record."
)

# Source partition, offset and ordinal.
_Row = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopics:
    """The topics of a hop as they are now; there may be no dead-letter topic yet."""

    source: TopicIdentity
    sink: TopicIdentity
    dead_letters: TopicIdentity | None


class QueryComparison:
    """One comparison of one hop, up to one point, and of what has come since.

    `began` is where the query began reading its source, `certain` its newest recorded positions, which may
    lie behind the point.
    """

    def __init__(
        self,
        cluster: Cluster,
        hop: QueryHop,
        topics: QueryTopics,
        point: Point,
        *,
        began: Mapping[int, int],
        certain: Mapping[int, int],
        rows: TableRows | None,
    ) -> None:
        self._cluster = cluster
        self._hop = hop
        self._topics = topics
        self._rows = rows
        there = cluster.stretches([topics.source]).get(topics.source.name, {})
        positions = point.positions.get(topics.source.topic_id, {})
        all_of_it = {
            partition: (max(first, began.get(partition, 0)), end) for partition, (first, end) in there.items()
        }
        self._within: Stretches = {
            partition: (first, min(end, max(first, positions.get(partition, 0))))
            for partition, (first, end) in all_of_it.items()
        }
        self._since: Stretches = {
            partition: (self._within[partition][1], end) for partition, (_, end) in all_of_it.items()
        }
        self._certain = certain
        self._recent = Recent()
        # To its end, not only to that of the point: a repaired record lies behind it.
        self._sink_within: Stretches = cluster.stretches([topics.sink]).get(topics.sink.name, {})
        sinks_from = point.sinks_from.get(topics.sink.topic_id, {})
        self._sink_since: Stretches = {
            partition: (min(end, max(first, sinks_from.get(partition, 0))), end)
            for partition, (first, end) in self._sink_within.items()
        }
        self._has_expired = any(first > 0 for first, _ in self._sink_within.values())
        dead: dict[SourceCoordinates, list[str]] = defaultdict(list)
        for letter in letters(cluster, topics.dead_letters):
            if letter.source is not None and self._is_of_query(letter.source):
                dead[letter.source].append(f"{hop.dead_letters} {letter.place}")
        self._letters = {(source.partition, source.offset) for source in dead}
        self._dead = {place for place in self._letters if self._is_compared(*place)}
        self._double_letters = [
            Double(id=source.as_header().decode(), times=len(places), places=tuple(places))
            for source, places in dead.items()
            if len(places) > 1
        ]

    def run(self, *, is_full: bool) -> Finding:
        if self._hop.relation is Relation.STATE:
            return self._finding(
                Basis.NOTHING, unchecked=f"{self._hop.reason}, so it names no source record."
            )
        if self._hop.relation is Relation.ANY:
            return self._any_number(is_full=is_full)
        self._recent = self._read_recent()
        accepted = fingerprints(self._cluster, self._topics.source, self._within)
        if self._rows is None and not is_full and not self._has_expired:
            written = self._counted()
            if _records(accepted) == written + len(self._dead):
                # What came since the point was compared record by record.
                return self._finding(
                    Basis.COUNTS if accepted else Basis.IDENTITIES,
                    written=written,
                    partitions=self._partitions(accepted, None),
                    unchecked=_ONLY_TOTALS if accepted else "",
                )
        if self._rows is not None:
            basis = Basis.FINGERPRINTS
            found = self._rows.by_source(self._hop.query, self._topics.source.topic_id, self._within)
        else:
            basis, found = Basis.IDENTITIES, self._sink_fingerprints()
            if self._has_expired:
                accepted, found = self._narrowed(accepted, found)
        ranges = sorted(accepted) if is_full else differing(accepted, self._with_dead_letters(found))
        missing, doubles = self._one_by_one(ranges)
        return self._finding(
            Basis.IDENTITIES if ranges else basis,
            written=_records(found),
            partitions=self._partitions(accepted, found),
            missing=missing,
            doubles=doubles,
            unchecked=self._left_out() if self._has_expired and self._rows is None else "",
        )

    def _any_number(self, *, is_full: bool) -> Finding:
        reason = f"{self._hop.reason}: what is missing cannot be told from what it drops"
        if not is_full:
            return self._finding(Basis.NOTHING, unchecked=f"{reason}; --full looks for doubles.")
        everything = [
            (partition, number)
            for partition, (first, end) in self._within.items()
            for number in range(first // RANGE, -(-end // RANGE))
        ]
        doubles = [double for _, in_sink in self._in_sink(everything) for double in self._doubles(in_sink)]
        return self._finding(Basis.IDENTITIES, doubles=doubles, unchecked=f"{reason}.")

    def _counted(self) -> int:
        """The sink's records from before the point: those below `sinks_from`, and ours of those since."""
        before = {
            partition: (first, self._sink_since[partition][0])
            for partition, (first, _) in self._sink_within.items()
        }
        count = count_records(self._cluster, self._topics.sink, before, only_committed=False)
        since = derived_records(self._cluster, self._topics.sink, self._sink_since, only_committed=False)
        return count + sum(each.source is not None and self._is_mine(each.source) for each in since)

    def _read_recent(self) -> Recent:
        return recent(
            self._cluster,
            source=self._topics.source,
            sink=self._topics.sink,
            since=self._since,
            sink_since=self._sink_since,
            certain=self._certain,
            dead=self._letters,
            is_of_query=self._is_of_query,
        )

    def _sink_fingerprints(self) -> dict[RangeKey, Fingerprint]:
        return summed(
            (range_of(source.partition, source.offset), of_offset(source.offset))
            for source, _ in self._results()
            if source.ordinal == 0
        )

    def _one_by_one(self, ranges: Sequence[RangeKey]) -> tuple[list[tuple[int, int]], list[Double]]:
        missing: list[tuple[int, int]] = []
        doubles: list[Double] = []
        for some, in_sink in self._in_sink(ranges):
            there = {(partition, offset) for partition, offset, _ in in_sink}
            for key in some:
                within = within_range(key, RANGE, self._within)
                lacking = [
                    place
                    for place in offsets(self._cluster, self._topics.source, within)
                    if place not in there and place not in self._dead
                ]
                missing += self._not_in_table(lacking)
            doubles += self._doubles(in_sink)
        return missing, doubles

    def _not_in_table(self, lacking: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Records may have expired in the sink, or may have been lost there, while the table has the rows."""
        if self._rows is None or not lacking:
            return lacking
        ids = {place: self._id(*place) for place in lacking}
        times = self._rows.times(ids.values())
        return [place for place, id_ in ids.items() if not times[id_]]

    def _doubles(self, in_sink: Mapping[_Row, list[str]]) -> Iterator[Double]:
        for row, places in sorted(in_sink.items()):
            if len(places) > 1:
                id_ = self._id(*row).as_header().decode()
                yield Double(id=id_, times=len(places), places=tuple(places))

    def _in_sink(
        self, ranges: Sequence[RangeKey]
    ) -> Iterator[tuple[Sequence[RangeKey], Mapping[_Row, list[str]]]]:
        """Some ranges at a time, and where the sink has their results. One pass over the sink each."""
        for start in range(0, len(ranges), _RANGES_AT_ONCE):
            some = ranges[start : start + _RANGES_AT_ONCE]
            wanted = frozenset(some)
            found: dict[_Row, list[str]] = defaultdict(list)
            for source, place in self._results():
                if range_of(source.partition, source.offset) in wanted:
                    found[source.partition, source.offset, source.ordinal].append(place)
            yield some, found

    def _results(self) -> Iterator[tuple[SourceCoordinates, str]]:
        for record in derived_records(
            self._cluster, self._topics.sink, self._sink_within, only_committed=False
        ):
            if record.source is not None and self._is_mine(record.source):
                yield record.source, record.place

    def _is_mine(self, source: SourceCoordinates) -> bool:
        return self._is_of_query(source) and self._is_compared(source.partition, source.offset)

    def _is_of_query(self, source: SourceCoordinates) -> bool:
        return source.query == self._hop.query and source.topic_id == self._topics.source.topic_id

    def _is_compared(self, partition: int, offset: int) -> bool:
        first, end = self._within.get(partition, (0, 0))
        return first <= offset < end

    def _id(self, partition: int, offset: int, ordinal: int = 0) -> SourceCoordinates:
        return SourceCoordinates(
            query=self._hop.query,
            topic_id=self._topics.source.topic_id,
            partition=partition,
            offset=offset,
            ordinal=ordinal,
        )

    def _with_dead_letters(self, found: Mapping[RangeKey, Fingerprint]) -> dict[RangeKey, Fingerprint]:
        dead = ((range_of(*place), of_offset(place[1])) for place in self._dead)
        return summed([*found.items(), *dead])

    def _narrowed(
        self, accepted: Mapping[RangeKey, Fingerprint], found: Mapping[RangeKey, Fingerprint]
    ) -> tuple[dict[RangeKey, Fingerprint], dict[RangeKey, Fingerprint]]:
        """Only the ranges behind the first one of each partition that the sink still has results of."""
        lowest: dict[int, int] = {}
        for partition, number in found:
            lowest[partition] = min(number, lowest.get(partition, number))
        self._within = {
            partition: (max(first, (lowest[partition] + 1) * RANGE) if partition in lowest else end, end)
            for partition, (first, end) in self._within.items()
        }
        self._dead = {place for place in self._dead if place[1] >= self._within[place[0]][0]}

        def kept(parts: Mapping[RangeKey, Fingerprint]) -> dict[RangeKey, Fingerprint]:
            return {key: each for key, each in parts.items() if key[0] in lowest and key[1] > lowest[key[0]]}

        return kept(accepted), kept(found)

    def _left_out(self) -> str:
        """What `_narrowed` has left out."""
        compared = ", ".join(
            f"partition {partition} from offset {first:,} on"
            for partition, (first, end) in sorted(self._within.items())
            if first < end
        )
        return (
            f"results have expired in the sink {self._hop.sink}, so that ranges of {RANGE:,} source offsets "
            f"are left out as a whole. Compared: {compared or 'nothing'}."
        )

    def _partitions(
        self, accepted: Mapping[RangeKey, Fingerprint], found: Mapping[RangeKey, Fingerprint] | None
    ) -> tuple[PartitionCounts, ...]:
        since = self._recent
        return tuple(
            PartitionCounts(
                partition=partition,
                first=first,
                end=self._since[partition][1],
                accepted=_records(accepted, partition) + since.accepted[partition],
                written=None if found is None else _records(found, partition) + since.written[partition],
                dead_letters=sum(each == partition for each, _ in self._dead) + since.dead_letters[partition],
            )
            for partition, (first, _) in sorted(self._within.items())
        )

    def _finding(
        self,
        basis: Basis,
        *,
        written: int = 0,
        partitions: tuple[PartitionCounts, ...] = (),
        missing: Sequence[tuple[int, int]] = (),
        doubles: Sequence[Double] = (),
        unchecked: str = "",
    ) -> Finding:
        return Finding(
            query=self._hop.query,
            source=self._hop.source,
            sink=self._hop.sink,
            basis=basis,
            written=written + self._recent.written.total(),
            partitions=partitions,
            missing=(*missing, *self._recent.missing),
            doubles=(*doubles, *self._recent.doubles, *self._double_letters),
            waiting=self._recent.waiting,
            unchecked=unchecked,
        )


def _records(parts: Mapping[RangeKey, Fingerprint], partition: int | None = None) -> int:
    return sum(each.records for (number, _), each in parts.items() if partition in (None, number))
