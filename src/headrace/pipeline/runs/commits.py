"""Commits: how far a query has read its sources, and where its sinks ended at that time.

A commit says of its query:

- everything derived from before `positions` is in the sinks, below `sinks_to`;
- everything derived from `positions` on lies at or above `sinks_from`.

So `sinks_from` must be asked of the log before the batch that ends at `positions` has finished, and
`sinks_to` afterwards (`recording.py` keeps that order). If a sink still has its record before `sinks_to`, it
has lost nothing that the commit counts on; what else the query has written lies from `sinks_from` on.

A `History` holds some commits of a query, newest last: the newest ones in full, older ones further and
further apart, for sinks that lose their newest records in a power failure. Frozen values; offsets are by
topic id and partition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.pipeline.catalogue.status import Gap

# Topic id → partition → offset.
Offsets = Mapping[str, Mapping[int, int]]

_MOST_COMMITS: Final = 30
# Commits of many partitions are large, so there are fewer of them. An offset takes about 20 bytes.
_MOST_OFFSETS: Final = 40_000
_FEWEST_COMMITS: Final = 3
# Of the newest commits, so large a part is kept whole.
_DENSE_PART: Final = 3
_MOST_GAPS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """`at` in milliseconds. `batch` and `checkpoint` are for queries whose state is in a checkpoint."""

    at: int
    positions: dict[str, dict[int, int]]
    sinks_from: dict[str, dict[int, int]]
    sinks_to: dict[str, dict[int, int]]
    batch: int = -1
    checkpoint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """`start` is where the query began, or began again because no commit was usable; None: where its
    statement says. Gaps have the newest last. `statement` is the one that it belongs to (`StartPositions`).
    """

    commits: tuple[Commit, ...] = ()
    gaps: tuple[Gap, ...] = ()
    start: Commit | None = None
    statement: str = ""

    @property
    def newest(self) -> Commit | None:
        return self.commits[-1] if self.commits else None

    def with_commit(self, commit: Commit) -> History:
        commits = (*self.commits, commit)
        return dataclasses.replace(self, commits=_thinned(commits))

    def read_until(self, at: int) -> Offsets:
        """How far the sources were read at this time, as far as commits tell."""
        return next((commit.positions for commit in reversed(self.commits) if commit.at <= at), {})

    def without_newer(self, commit: Commit) -> History:
        """Only the commits up to this one: the others cannot be resumed from any more."""
        return dataclasses.replace(self, commits=self.commits[: self.commits.index(commit) + 1])

    def beginning_at(self, start: Commit) -> History:
        """Without commits: none can be resumed from any more."""
        return dataclasses.replace(self, commits=(), start=start)

    def with_gaps(self, gaps: tuple[Gap, ...]) -> History:
        """A gap that is found again, because nothing was committed since, is not counted twice."""
        found = {_place(gap) for gap in gaps}
        noticed = {_place(gap): gap.at for gap in self.gaps}
        kept = tuple(gap for gap in self.gaps if _place(gap) not in found)
        again = tuple(dataclasses.replace(gap, at=noticed.get(_place(gap), gap.at)) for gap in gaps)
        return dataclasses.replace(self, gaps=(*kept, *again)[-_MOST_GAPS:])


def encode(history: History) -> bytes:
    return msgspec.json.encode(history)


def decode(value: bytes) -> History:
    """Raises msgspec.DecodeError on anything else."""
    return msgspec.json.decode(value, type=History)


def offset_in(offsets: Offsets, topic_id: str, partition: int) -> int | None:
    return offsets.get(topic_id, {}).get(partition)


def _place(gap: Gap) -> tuple[str, int, int]:
    return gap.topic_id, gap.partition, gap.first


def _thinned(commits: tuple[Commit, ...]) -> tuple[Commit, ...]:
    """Drop commits whose neighbours are nearest to each other, measured by their age."""
    most = max(_FEWEST_COMMITS, min(_MOST_COMMITS, _MOST_OFFSETS // max(1, _offset_count(commits[-1]))))
    while len(commits) > most:
        dropped = _dropped(commits, newest=max(_FEWEST_COMMITS - 1, most // _DENSE_PART))
        commits = commits[:dropped] + commits[dropped + 1 :]
    return commits


def _dropped(commits: tuple[Commit, ...], *, newest: int) -> int:
    """Never the oldest, nor one of the newest."""
    now = commits[-1].at

    def distance(number: int) -> float:
        before, after = commits[number - 1].at, commits[number + 1].at
        # A clock can be set back.
        return (after - before) / (max(now - before, 0) + 1)

    return min(range(1, len(commits) - newest), key=distance)


def _offset_count(commit: Commit) -> int:
    offsets = (commit.positions, commit.sinks_from, commit.sinks_to)
    return sum(len(of_topic) for each in offsets for of_topic in each.values())
