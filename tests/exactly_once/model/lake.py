"""The lake of the model: a table that reads topic `c`, with dead letters of its own.

Where it goes on, which rows are doubtful and what a commit says is decided by the shipped code (`lake/`). A
commit of a table is whole or not there; a power cut may take the newest ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from headrace.lake.coordinates import SourceCoordinates, parse_source
from headrace.lake.delta_log import Commit
from headrace.lake.positions import Position, Progress, Reached, Source
from headrace.lake.resuming import resume
from headrace.lake.sent_letters import SentLetters
from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.log import Log, Row, Topic

TOPIC: Final = "c"
LETTERS: Final = "lake-letters"
# What the lake cannot take.
BAD: Final = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    metadata: str | None
    rows: tuple[Row, ...] = ()
    operation: str = "WRITE"


@dataclass(slots=True, kw_only=True)
class LakeRun:
    topic_id: str
    progress: Progress
    sent: SentLetters


class AskedTopic:
    """A topic, as the shipped code asks for it."""

    def __init__(self, topic: Topic) -> None:
        self.topic_id = topic.id
        self._topic = topic
        self.starts = {number: each.start for number, each in enumerate(topic.partitions)}

    def lacking(self, offsets: Mapping[int, int]) -> set[int]:
        return {
            number for number, offset in offsets.items() if offset not in self._topic.partitions[number].rows
        }


class Lake:
    def __init__(self, log: Log, without: Clause | None) -> None:
        self._log = log
        self._without = without
        self.versions = [Version(metadata=None, operation="CREATE TABLE")]
        self.synced = 1
        self.run: LakeRun | None = None
        # Dead letters that a dead run has sent.
        self.under_way: list[Row] = []

    # ---- the table's commits, as the shipped code asks for them

    def newest_version(self) -> int:
        return len(self.versions) - 1

    def commit(self, version: int) -> Commit | None:
        found = self.versions[version]
        return Commit(version=version, operation=found.operation, parameters={}, user_metadata=found.metadata)

    @property
    def rows(self) -> list[Row]:
        return [row for version in self.versions for row in version.rows]

    # ---- a run

    def start(self, chance: Random) -> None:
        for letter in self.under_way:
            if chance.random() < 0.5:
                self._log.topics[LETTERS].append(letter)
        self.under_way.clear()
        topic, letters = self._log.topics[TOPIC], self._log.topics[LETTERS]
        resumption = resume(self, topic=AskedTopic(topic), dead_letters=AskedTopic(letters))
        progress = resumption.progress
        looks_up = self._without is not Clause.LAKE_LOOKS_UP_AFTER_CUT
        if resumption.is_doubtful and looks_up:
            progress = progress.bounded(self._highest_of_rows())
        self.run = LakeRun(topic_id=topic.id, progress=progress, sent=self._sent_letters(progress))

    def batch(self, sizes: dict[int, int], chance: Random, *, dies: bool = False) -> bool:
        """One batch, or its beginning. Whether there was anything to read."""
        run = self.run
        assert run is not None
        topic = self._log.topics[TOPIC]
        at = {
            number: run.progress.positions.offsets.get(number, 0) for number in range(len(topic.partitions))
        }
        records = [
            (number, offset, row)
            for number, position in at.items()
            for offset, row in topic.partitions[number].read(
                position, min(position + sizes.get(number, 0), topic.partitions[number].stable_end)
            )
        ]
        if not records:
            return False
        highest = {number: offset for number, offset, _ in records}
        known = {_coordinates(row) for row in self.rows}
        rows: list[Row] = []
        letters: list[Row] = []
        for number, offset, row in records:
            identity = _coordinates(row, (topic.id, number, offset))
            if row.value == BAD:
                if (number, offset) not in run.sent.places:
                    letters.append(_letter(row, (topic.id, number, offset)))
            elif not (self._is_suspect(run.progress, identity) and identity in known):
                known.add(identity)
                rows.append(_with(row, identity))
        if self._without is Clause.LAKE_DEAD_LETTERS_FIRST:
            self._commit(run, highest, rows)
            if dies:
                self.under_way, self.run = letters, None
                return True
            self._send(letters, len(letters), chance)
            return True
        self._send(letters, chance.randint(0, len(letters)) if dies else len(letters), chance)
        if dies:
            self.under_way, self.run = letters, None
            return True
        run.sent = SentLetters(places=run.sent.places, ends=_ends(self._log.topics[LETTERS]))
        self._commit(run, highest, rows)
        return True

    def kill(self) -> None:
        self.run = None

    def is_outdated(self) -> bool:
        return self.run is not None and self.run.topic_id != self._log.topics[TOPIC].id

    def cut(self, at: int) -> None:
        assert self.synced <= at
        del self.versions[at:]
        self.synced = len(self.versions)
        self.under_way.clear()
        self.run = None

    # ---- parts

    def _commit(self, run: LakeRun, highest: dict[int, int], rows: list[Row]) -> None:
        before = run.progress
        run.progress = run.sent.noted(before.advanced(highest))
        # The mutant writes the positions with the next batch.
        said = before if self._without is Clause.LAKE_POSITIONS_WITH_ROWS else run.progress
        self.versions.append(Version(metadata=said.as_metadata(), rows=tuple(rows)))

    def _send(self, letters: list[Row], number: int, chance: Random) -> None:
        for _ in range(number):
            self._log.topics[LETTERS].append(letters.pop(chance.randrange(len(letters))))

    def _sent_letters(self, progress: Progress) -> SentLetters:
        topic, letters = self._log.topics[TOPIC], self._log.topics[LETTERS]
        places = set()
        starts = progress.dead_letters_from.of(letters.id)
        for number, partition in enumerate(letters.partitions):
            for _, row in partition.read(starts.get(number, 0)):
                _, topic_id, place, offset, _ = row.source.split("/")
                position = progress.positions.offsets.get(int(place), 0)
                if topic_id == topic.id and int(offset) >= position:
                    places.add((int(place), int(offset)))
        return SentLetters(places=frozenset(places), ends=_ends(letters))

    def _is_suspect(self, progress: Progress, identity: SourceCoordinates) -> bool:
        return progress.is_suspect(_source(identity), _position(identity))

    def _highest_of_rows(self) -> dict[Source, Position]:
        highest: dict[Source, Position] = {}
        for row in self.rows:
            identity = _coordinates(row)
            source = _source(identity)
            highest[source] = max(highest.get(source, _position(identity)), _position(identity))
        return highest


def _coordinates(row: Row, place: tuple[str, int, int] | None = None) -> SourceCoordinates:
    """Its header; a record of somebody else has its own place."""
    if row.source:
        return parse_source(row.source.encode())
    assert place is not None
    topic_id, partition, offset = place
    return SourceCoordinates(query="", topic_id=topic_id, partition=partition, offset=offset, ordinal=0)


def _with(row: Row, identity: SourceCoordinates) -> Row:
    lineage = row.lineage or identity.as_header().decode()
    return Row(
        key=row.key, value=row.value, writer=row.writer, source=identity.as_header().decode(), lineage=lineage
    )


def _letter(row: Row, place: tuple[str, int, int]) -> Row:
    topic_id, partition, offset = place
    source = f"lake/{topic_id}/{partition}/{offset}/0"
    return Row(key=row.key, value=row.value, writer=row.writer, source=source, lineage=row.lineage or source)


def _ends(topic: Topic) -> Reached:
    """Where its records end, which may be before a hole."""
    ends = {
        number: max((offset + 1 for offset in each.rows), default=each.start)
        for number, each in enumerate(topic.partitions)
    }
    return Reached(topic_id=topic.id, offsets=ends)


def _source(identity: SourceCoordinates) -> Source:
    return Source(query=identity.query, topic_id=identity.topic_id, partition=identity.partition)


def _position(identity: SourceCoordinates) -> Position:
    return Position(offset=identity.offset, ordinal=identity.ordinal)
