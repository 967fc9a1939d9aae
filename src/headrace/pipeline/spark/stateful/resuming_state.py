"""Finds out where a run of a stateful query goes on, and makes its checkpoint ready for Spark.

Asks the log what is there (`decide` in `deciding.py` decides), puts unreadable entries aside, and begins a
new generation where the run goes back or begins anew. Reads topics and writes files; never writes to a topic.
The runs before must be dead.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.cluster import Cluster
from headrace.client.topics import Partition, TopicIdentity
from headrace.lake.coordinates import parse_batch
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.commits import Commit, History, Offsets, offset_in
from headrace.pipeline.runs.reading_back import records_since, source_header
from headrace.pipeline.runs.resuming import Resumption, TopicNow, resume
from headrace.pipeline.runs.witnesses import has_records
from headrace.pipeline.spark.stateful.checkpoint_files import (
    is_committed,
    positions_after,
    put_newest_aside,
    raise_positions,
)
from headrace.pipeline.spark.stateful.deciding import Course, Kept, decide
from headrace.pipeline.spark.stateful.deciding import Origin as RowOrigin
from headrace.pipeline.spark.stateful.generations import Generation, Generations, Origin, sound_batches

logger = logging.getLogger(__name__)

_REBUILDS: Final = "rebuilds its state from the beginning of its sources"
_PUT_ASIDE: Final = ", as its checkpoint cannot be used; that was put aside"

# Whether the rest of a generation's state, behind a batch, is there.
SoundCheck = Callable[[Generation, int], bool]

# In Spark's message when it cannot use what is in a checkpoint.
_BLAMES_THE_CHECKPOINT: Final = (
    "CANNOT_LOAD_STATE_STORE",
    "STATE_STORE_",
    "Failed to read log file",
    "Incomplete log file",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRows:
    """Between which offsets of the sinks rows may be that the run derives again, and in which batches.

    `derives_again`: rows of former generations, in other batches than before.
    """

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    last_batch: int
    derives_again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedState:
    """`base` is the note of the batch that the run goes on from. `gaps` are the offsets behind it that have
    expired; `remark` says what had to be healed.
    """

    generation: Generation
    base: Commit
    sink_rows: SinkRows | None
    sinks_at_start: Offsets
    trailing_batches: int
    gaps: tuple[Gap, ...] = ()
    remark: str = ""

    def note(
        self, batch: int, *, positions: dict[str, dict[int, int]], ends: dict[str, dict[int, int]]
    ) -> Commit:
        """Of a batch whose rows are all written: sources up to these positions, sinks up to these ends.

        What the next batch derives again may lie further back in the sinks.
        """
        again = _derived_again(self.generation, self.trailing_batches)
        sinks_from = self.generation.origin.base.sinks_from if batch + 1 in again else ends
        return Commit(
            at=_now_ms(),
            batch=batch,
            checkpoint=self.generation.id,
            positions=positions,
            sinks_from=sinks_from,
            sinks_to=ends,
        )


class StateResumption:
    def __init__(
        self,
        cluster: Cluster,
        *,
        query: str,
        sources: Sequence[TopicIdentity],
        sink: TopicIdentity,
        dead_letters: TopicIdentity,
        quiet_seconds: float = 0.0,
    ) -> None:
        """`dead_letters` is the topic of rows that cannot be written. `quiet_seconds`: how long both topics
        must have been silent, if the run before failed.
        """
        self._cluster = cluster
        self._query = query
        self._sink = sink
        self._written = (sink, dead_letters)
        self._quiet_seconds = quiet_seconds
        self._sources_now = self._now(sources)
        self._sink_now, self._letters_now = self._now(self._written)

    def resume(
        self,
        generations: Generations,
        history: History,
        *,
        start: Commit,
        trailing_batches: int,
        error: str = "",
        is_sound: SoundCheck = lambda _generation, _batch: True,
    ) -> ResumedState:
        """`history` are the commits in the log; `start` is where the query began; `error` is that of the run
        before. `trailing_batches`: how many batches a record's rows may come after its own, because they wait
        for a watermark. `is_sound` checks what belongs to the state but is not Spark's.
        """
        current = generations.current
        moved: list[str] = []
        if current is not None:
            moved = put_newest_aside(current.folder, current.aside)
            if any(text in error for text in _BLAMES_THE_CHECKPOINT):
                self._refuse_newest(current)
        decision = decide(
            self._kept(current, trailing_batches, is_sound) if current is not None else None,
            is_usable=self._is_usable,
            rows_behind=self._rows_behind,
        )
        remark = f"unreadable entries of its checkpoint were put aside: {', '.join(moved)}" if moved else ""
        base = decision.base
        gaps = self._gaps(base) if base is not None else ()
        if decision.course is Course.CONTINUE and not gaps and current is not None and base is not None:
            generation = current
        elif decision.course is not Course.BEGIN_ANEW and base is not None:
            generation = self._gone_back(generations, base, gaps, former=current)
            if base.batch < 0:
                remark = _REBUILDS + _PUT_ASIDE
            elif not gaps:
                remark = f"went back to the end of batch {base.batch}; the former checkpoint was put aside"
        else:
            base = self._beginning(start)
            # Rows may be there although nothing else tells of the run that wrote them: its first commit comes
            # some time after its first rows.
            was_lost = current is not None or self._has_run(history) or bool(self._rows_behind(base))
            generation = generations.begin(Origin(base=base, repeats=was_lost), former=current)
            if was_lost:
                remark = _REBUILDS + (_PUT_ASIDE if current is not None else "")
        if remark:
            logger.warning("Query %s: %s (%s)", self._query, remark, generation.folder.name)
        return ResumedState(
            generation=generation,
            base=base,
            sink_rows=self._sink_rows(generation, base, trailing_batches),
            sinks_at_start=self._ends(),
            trailing_batches=trailing_batches,
            gaps=gaps,
            remark=remark,
        )

    def _kept(self, current: Generation, trailing_batches: int, is_sound: SoundCheck) -> Kept:
        def notes() -> Iterator[Commit]:
            for batch in sound_batches(current):
                note = current.noted(batch)
                if note is not None and is_sound(current, batch):
                    yield note

        return Kept(
            id=current.id,
            newest=current.newest_batch,
            notes=notes(),
            is_begun=lambda batch: (
                positions_after(current.folder, batch) is not None and not is_committed(current.folder, batch)
            ),
            repeats=lambda batch: batch in _derived_again(current, trailing_batches),
        )

    def _refuse_newest(self, current: Generation) -> None:
        newest = next(sound_batches(current), None)
        if newest is not None:
            current.refuse(newest)

    def _is_usable(self, note: Commit) -> bool:
        return self._resumed(note).commit is not None

    def _resumed(self, note: Commit) -> Resumption:
        return resume(
            History(commits=(note,)),
            None,
            sources=self._sources_now,
            sinks=[self._sink_now],
            has_records=lambda offsets: has_records(self._cluster.bootstrap, [self._sink], offsets),
            now=_now_ms(),
        )

    def _gaps(self, base: Commit) -> tuple[Gap, ...]:
        """What has expired behind a batch. Before the first one, `StatefulRun` knows where it began."""
        return self._resumed(base).gaps if base.batch >= 0 else ()

    def _gone_back(
        self,
        generations: Generations,
        base: Commit,
        gaps: Sequence[Gap],
        *,
        former: Generation | None,
    ) -> Generation:
        generation = generations.begin(Origin(base=base, repeats=True), former=former)
        if gaps:
            firsts = {
                now.name: {n: first for n, (first, _) in now.stretches.items()} for now in self._sources_now
            }
            raise_positions(generation.folder, base.batch, firsts)
        return generation

    def _has_run(self, history: History) -> bool:
        """Whether runs with these very topics have committed anything."""
        sources = {source.topic_id for source in self._sources_now}
        return any(
            commit.positions.keys() == sources and self._sink.topic_id in commit.sinks_to
            for commit in history.commits
        )

    def _beginning(self, start: Commit) -> Commit:
        sinks = {topic.topic_id: dict(start.sinks_from.get(topic.topic_id, {})) for topic in self._written}
        positions: dict[str, dict[int, int]] = {source.topic_id: {} for source in self._sources_now}
        return Commit(at=0, positions=positions, sinks_from=sinks, sinks_to=sinks)

    def _rows_behind(self, base: Commit) -> frozenset[RowOrigin]:
        prefix = f"{self._query}/".encode()
        found: set[RowOrigin] = set()
        for record in records_since(
            self._cluster.bootstrap,
            self._starts(base),
            self._ends_by_place(),
            counts=lambda record: (source_header(record) or b"").startswith(prefix),
            quiet_seconds=self._quiet_seconds,
        ):
            origin = parse_batch(source_header(record) or b"")
            if origin is not None:
                found.add((origin.checkpoint, origin.batch))
        return frozenset(found)

    def _sink_rows(self, generation: Generation, base: Commit, trailing_batches: int) -> SinkRows | None:
        following = base.batch + 1
        again = _derived_again(generation, trailing_batches)
        derives_again = following in again
        # Asked again: rows may have arrived while the run before fell silent.
        self._sink_now, self._letters_now = self._now(self._written)
        starts, ends = self._starts(base), self._ends_by_place()
        if all(starts[place] >= ends[place] for place in starts):
            return None
        last = again.stop - 1 if derives_again else following
        return SinkRows(starts=starts, ends=ends, last_batch=last, derives_again=derives_again)

    @property
    def _written_now(self) -> tuple[TopicNow, TopicNow]:
        return self._sink_now, self._letters_now

    def _starts(self, base: Commit) -> dict[Partition, int]:
        return {
            (topic.name, partition): max(offset_in(base.sinks_from, topic.topic_id, partition) or 0, first)
            for topic in self._written_now
            for partition, (first, _) in topic.stretches.items()
        }

    def _ends_by_place(self) -> dict[Partition, int]:
        return {
            (topic.name, number): end
            for topic in self._written_now
            for number, (_, end) in topic.stretches.items()
        }

    def _ends(self) -> Offsets:
        return {
            topic.topic_id: {number: end for number, (_, end) in topic.stretches.items()}
            for topic in self._written_now
        }

    def _now(self, topics: Sequence[TopicIdentity]) -> list[TopicNow]:
        stretches = self._cluster.stretches(topics)
        return [
            TopicNow(name=topic.name, topic_id=topic.topic_id, stretches=stretches.get(topic.name, {}))
            for topic in topics
        ]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _derived_again(generation: Generation, trailing_batches: int) -> range:
    """The batches whose rows former generations may have written."""
    if not generation.origin.repeats:
        return range(0)
    first = generation.origin.base.batch + 1
    return range(first, first + 1 + trailing_batches)
