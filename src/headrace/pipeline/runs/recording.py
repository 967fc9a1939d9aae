"""Records the commits of one run, in the order that makes them true (`commits.py`).

`note` is called every now and then while the run goes on. It compares the finished batches with those it saw
before: the ends of the sinks that were taken while batch k was the newest finished one are `sinks_from` of a
later batch, because whatever that later batch does not cover is written after it. It looks at the finished
batch again after it has asked for the ends: if another one has finished meanwhile, they came too late.

A run that begins with records which the runs before it have written already skips them, and writes nothing
for them. Until its position has passed the last of them, `sinks_from` stays where this run began to read the
sinks: they lie there. The ids in a commit are those of the topics that the run was started with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.pipeline.runs.commits import Commit, offset_in
from headrace.pipeline.runs.reading_back import ReadBack
from headrace.pipeline.runs.resuming import Resumption

_PAUSE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The newest finished batch: its number, and the next offset of each source partition."""

    batch: int
    positions: dict[str, dict[int, int]]


# The newest finished batch of the run; None before the first.
FinishedBatch = Callable[[], Finished | None]
# The ends of the sinks now, by topic id and partition.
SinkEnds = Callable[[], dict[str, dict[int, int]]]


class Commits(Protocol):
    """The part of `CommitLog` that a recording uses."""

    def add(self, key: str, commit: Commit) -> None: ...


class Recording:
    """The commits of one run under `key`."""

    def __init__(
        self,
        key: str,
        log: Commits,
        *,
        resumption: Resumption,
        read_back: ReadBack,
        finished: FinishedBatch,
        ends: SinkEnds,
        wall_clock_ms: Callable[[], int],
        checkpoint: str = "",
    ) -> None:
        self._key = key
        self._log = log
        self._read_back = read_back
        self._finished = finished
        self._ends = ends
        self._wall_clock_ms = wall_clock_ms
        self._checkpoint = checkpoint
        self._began_from = resumption.sinks_from
        # Good for a batch after `_seen`.
        self._taken = resumption.sinks_from
        self._seen: Finished | None = None
        self._due = 0.0

    def note(self, now: float) -> bool:
        """Write a commit if a batch has finished. `now` is monotonic. Raises log_unavailable.

        Returns False if it is too early to ask again.
        """
        if now < self._due:
            return False
        self._due = now + _PAUSE_SECONDS
        self.note_now()
        return True

    def note_now(self) -> None:
        finished = self._finished()
        ends = self._ends()
        if finished is not None and finished != self._seen:
            if self._seen is None or finished.positions != self._seen.positions:
                self._log.add(self._key, self._commit(finished, ends))
            self._seen = finished
        if self._finished() == finished:
            self._taken = ends

    def _commit(self, finished: Finished, ends: Mapping[str, Mapping[int, int]]) -> Commit:
        taken = self._taken if self._has_passed(finished) else self._began_from
        return Commit(
            at=self._wall_clock_ms(),
            positions=finished.positions,
            sinks_from={topic_id: dict(of_topic) for topic_id, of_topic in taken.items()},
            sinks_to={topic_id: dict(of_topic) for topic_id, of_topic in ends.items()},
            batch=finished.batch,
            checkpoint=self._checkpoint,
        )

    def _has_passed(self, finished: Finished) -> bool:
        """Whether everything that earlier runs wrote is derived from before these positions."""
        return all(
            (offset_in(finished.positions, topic_id, partition) or 0) >= written.end
            for topic_id, of_topic in self._read_back.written.items()
            for partition, written in of_topic.items()
        )


def ends_of_records(
    ends: Mapping[str, Mapping[int, int]],
    at_start: Mapping[str, Mapping[int, int]],
    read_back: ReadBack,
) -> dict[str, dict[int, int]]:
    """`ends`, but before a hole in which a log ended when the run began and still ends.

    After a power failure a log goes on behind the offsets that it had reserved. As long as nothing follows,
    there is no record before its end that could be a witness; but there is one before the hole.
    """
    return {
        topic_id: {
            partition: (
                read_back.sinks_to.get(topic_id, {}).get(partition, end)
                if at_start.get(topic_id, {}).get(partition) == end
                else end
            )
            for partition, end in of_topic.items()
        }
        for topic_id, of_topic in ends.items()
    }
