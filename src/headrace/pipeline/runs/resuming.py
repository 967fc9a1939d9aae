"""Where a run begins: decided from the commits of the runs before it and from what the log has now.

The newest usable commit counts. A commit is usable if it is of the same sources and sinks (topic ids), if
each sink still has the record before `sinks_to`, its *witness*, and if no position lies beyond the end of its
source. A sink that lost records in a power failure lacks the witnesses of the newest commits; offsets are
never used again, so nothing else can stand in their place. A sink that was recreated has another id, so that
it is filled again.

If there is no usable commit, the query begins where it first began, and reads the sinks from there. A commit
of former sources (all of them recreated since) is of use, too: nothing of the present ones lies before its
`sinks_to`. A partition without a position is read from its beginning; if it was added to a topic that has
positions, its beginning is 0, and whatever expires before it is read is a gap.

Pure: witnesses are asked for by calling a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.commits import Commit, History, Offsets, offset_in


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNow:
    """One topic: the first offset that is still there and the next offset, by partition.

    A sink that is recreated is filled again, unless it `starts_empty`, as dead-letter topics do: whoever
    deletes one wants to be rid of what is in it.
    """

    name: str
    topic_id: str
    stretches: Mapping[int, tuple[int, int]]
    starts_empty: bool = False


# Whether the log still has a record at each of these offsets.
HasRecords = Callable[[Offsets], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where to go on reading the sources, and from where on the sinks may hold what is derived from there.

    Both have every partition that exists now. `commit` is None if none is usable. `gaps` are the offsets
    that expired unread.
    """

    commit: Commit | None
    positions: dict[str, dict[int, int]]
    sinks_from: dict[str, dict[int, int]]
    gaps: tuple[Gap, ...] = ()


def resume(
    history: History,
    start: Commit | None,
    *,
    sources: Sequence[TopicNow],
    sinks: Sequence[TopicNow],
    has_records: HasRecords,
    now: int,
) -> Resumption:
    """`start` is where the statement says that the query begins; None: at the beginning of everything."""
    beginning = Commit(at=0, positions={}, sinks_from={}, sinks_to={})
    base = history.start or start or beginning
    present = {source.topic_id for source in sources}
    for commit in reversed(history.commits):
        if not _is_of(commit, sinks) or not has_records(_witnesses(commit, sinks)):
            continue
        if commit.positions.keys() == present:
            if _lies_within(commit.positions, sources):
                return _resumed(commit, commit.positions, commit.sinks_from, sources, sinks, noticed=now)
        elif present.isdisjoint(commit.positions):
            return _resumed(None, base.positions, commit.sinks_to, sources, sinks, noticed=None)
    # A refill cannot get back what has expired, so only a first run has gaps.
    first_run = None if history.commits else now
    return _resumed(None, base.positions, base.sinks_from, sources, sinks, noticed=first_run)


def resumed_history(history: History, resumption: Resumption, *, now: int) -> History:
    """What counts from now on: commits that are not usable today must not look usable tomorrow."""
    kept = history.with_gaps(resumption.gaps)
    if resumption.commit is not None:
        return kept.without_newer(resumption.commit)
    positions, sinks_from = resumption.positions, resumption.sinks_from
    return kept.beginning_at(Commit(at=now, positions=positions, sinks_from=sinks_from, sinks_to={}))


def _is_of(commit: Commit, sinks: Sequence[TopicNow]) -> bool:
    return all(sink.topic_id in commit.sinks_to for sink in sinks if not sink.starts_empty)


def _witnesses(commit: Commit, sinks: Sequence[TopicNow]) -> dict[str, dict[int, int]]:
    """The last record of each sink that the commit counts on, unless it has expired."""
    return {
        sink.topic_id: {
            partition: end - 1
            for partition, end in commit.sinks_to.get(sink.topic_id, {}).items()
            if end > sink.stretches.get(partition, (0, 0))[0]
        }
        for sink in sinks
    }


def _lies_within(positions: Offsets, sources: Sequence[TopicNow]) -> bool:
    return all(
        position <= source.stretches.get(partition, (0, 0))[1]
        for source in sources
        for partition, position in positions[source.topic_id].items()
    )


def _resumed(
    commit: Commit | None,
    begun: Offsets,
    sinks_from: Offsets,
    sources: Sequence[TopicNow],
    sinks: Sequence[TopicNow],
    *,
    noticed: int | None,
) -> Resumption:
    """`noticed` is the time of the gaps; None if what has expired does not count as one."""
    positions: dict[str, dict[int, int]] = {}
    gaps = []
    for source in sources:
        mine = positions[source.topic_id] = {}
        # Of partitions that were added since then, nothing was read.
        added = 0 if begun.get(source.topic_id) else None
        for partition, (first, end) in source.stretches.items():
            position = offset_in(begun, source.topic_id, partition)
            position = added if position is None else position
            mine[partition] = first if position is None else min(max(position, first), end)
            if position is not None and position < first and noticed is not None:
                gaps.append(
                    Gap(
                        topic=source.name,
                        topic_id=source.topic_id,
                        partition=partition,
                        first=position,
                        end=first,
                        at=noticed,
                    )
                )
    return Resumption(
        commit=commit,
        positions=positions,
        sinks_from={
            sink.topic_id: {
                partition: max(offset_in(sinks_from, sink.topic_id, partition) or 0, first)
                for partition, (first, _) in sink.stretches.items()
            }
            for sink in sinks
        },
        gaps=tuple(gaps),
    )
