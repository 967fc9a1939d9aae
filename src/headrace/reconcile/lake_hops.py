"""Compares a topic with the table that reads it: every record up to the table's positions must be one row or
one dead letter.

Fingerprints of places first: those of the topic from its batch headers, those of the rows from the columns
that say where in the topic each row was read. Where they differ, record by record: a row is found by its
source coordinates, or by its place if it has none of ours, so a row that was read at another place before
(the topic was recreated, or came back shorter) counts. Reads only; the platform may run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from headrace.client.batches import count_records
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import SourceCoordinates
from headrace.reconcile.findings import Basis, Double, Finding, PartitionCounts
from headrace.reconcile.fingerprints import RANGE, RangeKey, differing, of_offset, range_of, summed
from headrace.reconcile.hops import LakeHop
from headrace.reconcile.tables import TableRows
from headrace.reconcile.topics import Stretches, derived_records, fingerprints, letters, within_range

# What the lake writes as the query of a record that has no coordinates of ours.
_NO_QUERY: Final = ""


class LakeComparison:
    """One comparison of one version of a table with its topic. `positions` are those of that version."""

    def __init__(
        self,
        cluster: Cluster,
        hop: LakeHop,
        topic: TopicIdentity,
        dead_letters: TopicIdentity | None,
        *,
        positions: Mapping[int, int],
        rows: TableRows,
    ) -> None:
        self._cluster = cluster
        self._hop = hop
        self._topic = topic
        self._rows = rows
        there = cluster.stretches([topic]).get(topic.name, {})
        self._within: Stretches = {
            partition: (first, min(end, positions.get(partition, 0)))
            for partition, (first, end) in there.items()
        }
        self._since: Stretches = {
            partition: (max(first, self._within[partition][1]), end)
            for partition, (first, end) in there.items()
        }
        dead: dict[tuple[int, int], list[str]] = defaultdict(list)
        for letter in letters(cluster, dead_letters):
            place = letter.read_from
            if letter.query == hop.query and place is not None and place.topic_id == topic.topic_id:
                first, end = self._within.get(place.partition, (0, 0))
                if first <= place.offset < end:
                    dead[place.partition, place.offset].append(f"{hop.dead_letters} {letter.place}")
        self._dead = dead

    def run(self, *, is_full: bool) -> Finding:
        if self._hop.drops:
            return self._doubles_only(is_full=is_full)
        records = fingerprints(self._cluster, self._topic, self._within)
        rows = self._rows.by_place(self._within)
        dead = ((range_of(*place), of_offset(place[1])) for place in self._dead)
        found = summed([*rows.items(), *dead])
        ranges = sorted(records) if is_full else differing(records, found)
        missing: list[tuple[int, int]] = []
        doubles = [
            Double(id=f"{self._hop.source} {place[0]}:{place[1]}", times=len(places), places=tuple(places))
            for place, places in self._dead.items()
            if len(places) > 1
        ]
        known: dict[SourceCoordinates, int] = dict(self._rows.doubles()) if is_full else {}
        for key in ranges:
            lacking, times = self._one_by_one(key)
            missing += lacking
            known |= times
        doubles += [
            Double(id=id_.as_header().decode(), times=times)
            for id_, times in sorted(known.items(), key=lambda item: item[0].as_header())
        ]
        return Finding(
            query=self._hop.query,
            source=self._hop.source,
            sink=self._hop.table,
            basis=Basis.IDENTITIES if ranges else Basis.FINGERPRINTS,
            written=sum(each.records for each in rows.values()),
            partitions=tuple(
                PartitionCounts(
                    partition=partition,
                    first=first,
                    end=end,
                    accepted=sum(each.records for (p, _), each in records.items() if p == partition),
                    written=sum(each.records for (p, _), each in rows.items() if p == partition),
                    dead_letters=sum(p == partition for p, _ in self._dead),
                )
                for partition, (first, end) in sorted(self._within.items())
            ),
            missing=tuple(missing),
            doubles=tuple(doubles),
            waiting=count_records(self._cluster, self._topic, self._since),
        )

    def _doubles_only(self, *, is_full: bool) -> Finding:
        reason = f"{self._hop.drops}: what is missing cannot be told from what it drops"
        doubles = [
            Double(id=id_.as_header().decode(), times=times)
            for id_, times in (self._rows.doubles() if is_full else {}).items()
        ]
        return Finding(
            query=self._hop.query,
            source=self._hop.source,
            sink=self._hop.table,
            basis=Basis.IDENTITIES if is_full else Basis.NOTHING,
            doubles=tuple(doubles),
            waiting=count_records(self._cluster, self._topic, self._since),
            unchecked=f"{reason}." if is_full else f"{reason}; --full looks for doubles.",
        )

    def _one_by_one(self, key: RangeKey) -> tuple[list[tuple[int, int]], dict[SourceCoordinates, int]]:
        """The records of a range without a row, and those with several."""
        ids = {
            (record.partition, record.offset): record.source or self._own_id(record.partition, record.offset)
            for record in derived_records(
                self._cluster, self._topic, within_range(key, RANGE, self._within), only_committed=True
            )
        }
        times = self._rows.times(ids.values())
        missing = [place for place, id_ in ids.items() if not times[id_] and place not in self._dead]
        return missing, {id_: count for id_, count in times.items() if count > 1}

    def _own_id(self, partition: int, offset: int) -> SourceCoordinates:
        return SourceCoordinates(
            query=_NO_QUERY, topic_id=self._topic.topic_id, partition=partition, offset=offset, ordinal=0
        )
