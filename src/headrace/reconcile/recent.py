"""What was accepted since the point of a comparison: the end of the source, record by record.

What a query derives from there on lies at or above the point's `sinks_from`, so only that part of the sink is
read. A record without a result is missing if the query has recorded a position behind it; otherwise it is on
its way, and only counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from headrace.client.batches import count_records
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import SourceCoordinates
from headrace.reconcile.findings import Double
from headrace.reconcile.topics import Stretches, derived_records, offsets

# Source partition and offset.
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """By source partition: what was accepted, written and rejected; `waiting` have no result yet."""

    accepted: Counter[int] = field(default_factory=Counter)
    written: Counter[int] = field(default_factory=Counter)
    dead_letters: Counter[int] = field(default_factory=Counter)
    missing: tuple[_Place, ...] = ()
    doubles: tuple[Double, ...] = ()

    @property
    def waiting(self) -> int:
        known = self.written.total() + self.dead_letters.total() + len(self.missing)
        return max(0, self.accepted.total() - known)


def recent(
    cluster: Cluster,
    *,
    source: TopicIdentity,
    sink: TopicIdentity,
    since: Stretches,
    sink_since: Stretches,
    certain: Mapping[int, int],
    dead: Collection[_Place],
    is_of_query: Callable[[SourceCoordinates], bool],
) -> Recent:
    """`since` is that part of the source, `sink_since` of the sink; `certain` are the newest positions."""

    def is_within(place: _Place) -> bool:
        first, end = since.get(place[0], (0, 0))
        return first <= place[1] < end

    found: dict[SourceCoordinates, list[str]] = defaultdict(list)
    for record in derived_records(cluster, sink, sink_since, only_committed=False):
        id_ = record.source
        if id_ is not None and is_of_query(id_) and is_within((id_.partition, id_.offset)):
            found[id_].append(record.place)
    written = {(id_.partition, id_.offset) for id_ in found}
    rejected = {place for place in dead if is_within(place)}
    finished = {
        partition: (first, min(end, certain.get(partition, first)))
        for partition, (first, end) in since.items()
    }
    return Recent(
        accepted=Counter(
            {
                partition: count_records(cluster, source, {partition: part})
                for partition, part in since.items()
            }
        ),
        written=Counter(partition for partition, _ in written),
        dead_letters=Counter(partition for partition, _ in rejected - written),
        missing=tuple(
            place
            for place in offsets(cluster, source, finished)
            if place not in written and place not in rejected
        ),
        doubles=tuple(
            Double(id=id_.as_header().decode(), times=len(places), places=tuple(places))
            for id_, places in found.items()
            if len(places) > 1
        ),
    )
