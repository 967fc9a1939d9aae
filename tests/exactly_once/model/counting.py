"""A stateful query of the model: counts the records of topic `c` by key, with a row for each key of a batch.

Its checkpoint has, for each batch, the range that it covers, the state before it, and once it is finished
where the sink ended then. A row is known by checkpoint, batch and key. What the files of a real checkpoint
can come to is the subject of the model in `tests/pipeline/stateful`; this one is about a count behind a
chain.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.log import Log, Row, Topic

SOURCE: Final = "c"
SINK: Final = "counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A batch of a checkpoint. `sink_to` is None until it is finished."""

    begin: dict[int, int]
    end: dict[int, int]
    before: Counter[str]
    after: Counter[str]
    sink_from: dict[int, int]
    sink_to: dict[int, int] | None = None


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    id: str
    source_id: str
    sink_id: str
    entries: list[Entry] = field(default_factory=list)


class Count:
    def __init__(self, log: Log, without: Clause | None) -> None:
        self._log = log
        self._without = without
        self.checkpoint: Checkpoint | None = None
        self.synced = 0
        self.is_running = False
        self.pending: list[Row] = []
        self.under_way: list[Row] = []
        self._made = 0

    def start(self, chance: Random) -> None:
        for row in self.under_way:
            if chance.random() < 0.5:
                self._log.topics[SINK].append(row)
        self.under_way.clear()
        kept = self.checkpoint
        source, sink = self._log.topics[SOURCE], self._log.topics[SINK]
        if kept is None or (kept.source_id, kept.sink_id) != (source.id, sink.id):
            self._make([])
        else:
            finished = [entry for entry in kept.entries if entry.sink_to is not None]
            usable = len(finished)
            while usable and not self._is_usable(finished[usable - 1]):
                usable -= 1
            if usable < len(finished):
                # The next batch covers other records than the one of that number did: another checkpoint.
                self._make(finished[:usable])
            elif usable == 0 and not self._is_usable_start(kept):
                self._make([])
        self.is_running = True
        self._repeat()

    def begin_batch(self, sizes: dict[int, int]) -> bool:
        kept = self.checkpoint
        assert kept is not None
        if kept.entries and kept.entries[-1].sink_to is None:
            return False
        last = kept.entries[-1] if kept.entries else None
        source = self._log.topics[SOURCE]
        begin = {
            number: (last.end if last else {}).get(number, 0) for number in range(len(source.partitions))
        }
        end = {
            number: max(position, min(position + sizes.get(number, 0), source.partitions[number].stable_end))
            for number, position in begin.items()
        }
        if begin == end:
            return False
        before = last.after if last else Counter()
        entry = Entry(
            begin=begin,
            end=end,
            before=before,
            after=before + self._touched(begin, end),
            sink_from=self._log.topics[SINK].ends(),
        )
        kept.entries.append(entry)
        self.pending = self._rows(entry, skipped=frozenset())
        return True

    def land(self, chance: Random) -> None:
        if self.pending:
            self._log.topics[SINK].append(self.pending.pop(chance.randrange(len(self.pending))))

    def finish(self, chance: Random) -> None:
        kept = self.checkpoint
        if kept is None or not kept.entries or kept.entries[-1].sink_to is not None:
            return
        while self.pending:
            self.land(chance)
        kept.entries[-1] = dataclasses.replace(
            kept.entries[-1], sink_to=_ends_of_records(self._log.topics[SINK])
        )

    def kill(self) -> None:
        self.under_way += self.pending
        self.pending = []
        self.is_running = False

    def cut(self, at: int) -> None:
        """A power cut took the newest entries, or all."""
        self.kill()
        self.under_way.clear()
        kept = self.checkpoint
        if kept is not None:
            if at < len(kept.entries):
                # What the lost batches wrote is not known to the ones that follow.
                self._make(kept.entries[:at])
            self.synced = len(self.checkpoint.entries) if self.checkpoint else 0

    def is_outdated(self) -> bool:
        kept = self.checkpoint
        assert kept is not None
        source = self._log.topics[SOURCE]
        known = kept.entries[-1].end if kept.entries else {}
        return (kept.source_id, kept.sink_id) != (source.id, self._log.topics[SINK].id) or (
            bool(known) and len(known) != len(source.partitions)
        )

    # ---- parts

    def _repeat(self) -> None:
        """The batch that was begun: the same range and state, without the rows that are there."""
        kept = self.checkpoint
        assert kept is not None
        if not kept.entries or kept.entries[-1].sink_to is not None:
            return
        entry = kept.entries[-1]
        end = entry.end
        if self._without is Clause.STATE_REPEATS_RANGES:
            source = self._log.topics[SOURCE]
            end = {number: source.partitions[number].stable_end for number in entry.end}
        # It reads the range again, which may have lost records.
        after = entry.before + self._touched(entry.begin, end)
        entry = kept.entries[-1] = dataclasses.replace(entry, end=end, after=after)
        sink = self._log.topics[SINK]
        mark = f"count/{kept.id}/{len(kept.entries) - 1}/"
        there = {
            row.key
            for number, partition in enumerate(sink.partitions)
            for _, row in partition.read(entry.sink_from.get(number, 0))
            if row.source.startswith(mark)
        }
        skips = self._without is not Clause.STATE_SKIPS_WRITTEN
        self.pending = self._rows(entry, skipped=frozenset(there) if skips else frozenset())

    def _rows(self, entry: Entry, *, skipped: frozenset[str]) -> list[Row]:
        kept = self.checkpoint
        assert kept is not None
        batch = len(kept.entries) - 1
        touched = self._touched(entry.begin, entry.end)
        return [
            Row(key=key, value=str(entry.after[key]), writer="count", source=f"count/{kept.id}/{batch}/{key}")
            for key in touched
            if key not in skipped
        ]

    def _touched(self, begin: dict[int, int], end: dict[int, int]) -> Counter[str]:
        source = self._log.topics[SOURCE]
        return Counter(
            row.key
            for number, position in begin.items()
            for _, row in source.partitions[number].read(position, end[number])
        )

    def _is_usable(self, entry: Entry) -> bool:
        """Whether the sink has all that was written up to its end, and the source all that it has read."""
        if self._without is Clause.STATE_REWINDS:
            return True
        assert entry.sink_to is not None
        return _has(self._log.topics[SINK], entry.sink_to) and _has(self._log.topics[SOURCE], entry.end)

    def _is_usable_start(self, kept: Checkpoint) -> bool:
        """A begun first batch can be repeated if its source is what it was."""
        if self._without is Clause.STATE_REWINDS:
            return True
        return all(_has(self._log.topics[SOURCE], entry.end) for entry in kept.entries)

    def _make(self, entries: list[Entry]) -> None:
        self._made += 1
        source, sink = self._log.topics[SOURCE], self._log.topics[SINK]
        self.checkpoint = Checkpoint(
            id=str(self._made),
            source_id=source.id,
            sink_id=sink.id,
            entries=[entry for entry in entries if entry.sink_to is not None],
        )
        self.synced = min(self.synced, len(self.checkpoint.entries))


def _has(topic: Topic, ends: dict[int, int]) -> bool:
    """Whether each partition still has the last record before an end."""
    return all(
        end <= topic.partitions[number].start or end - 1 in topic.partitions[number].rows
        for number, end in ends.items()
        if number < len(topic.partitions)
    )


def _ends_of_records(topic: Topic) -> dict[int, int]:
    return {
        number: max((offset + 1 for offset in each.rows), default=each.start)
        for number, each in enumerate(topic.partitions)
    }
