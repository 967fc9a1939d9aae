"""Where a table goes on: after commits of others, with topics that were recreated or came back shorter, and
whatever crashes, against a model that remembers every record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lake.delta_log import Commit
from headrace.lake.positions import Position, Progress, Reached, Source
from headrace.lake.resuming import history, keeps_positions, resume
from headrace.lake.sent_letters import SentLetters
from tests.lake.delta_folders import MadeCommits


@dataclass
class Topic:
    """A topic in memory: what each partition has, by offset. Offsets are never used again."""

    topic_id: str
    partitions: list[dict[int, int]]
    ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends = [0] * len(self.partitions)

    @property
    def starts(self) -> dict[int, int]:
        return dict.fromkeys(range(len(self.partitions)), 0)

    def lacking(self, offsets: Mapping[int, int]) -> set[int]:
        return {number for number, offset in offsets.items() if offset not in self.partitions[number]}

    def append(self, partition: int, what: int) -> None:
        self.partitions[partition][self.ends[partition]] = what
        self.ends[partition] += 1

    def cut(self, partition: int, lost: int) -> list[int]:
        """Lose the newest records; later ones go on behind a hole."""
        offsets = sorted(self.partitions[partition])[::-1][:lost]
        self.ends[partition] += 5
        return [self.partitions[partition].pop(offset) for offset in offsets]


def _progress(*positions: int, topic_id: str = "t") -> Progress:
    offsets = dict(enumerate(positions))
    return Progress(positions=Reached(topic_id=topic_id, offsets=offsets))


def _topic(*records: int) -> Topic:
    topic = Topic("t", [{} for _ in records])
    for partition, count in enumerate(records):
        for number in range(count):
            topic.append(partition, number)
    return topic


_NO_LETTERS = Topic("d", [{}])


def _offsets(commits: MadeCommits, topic: Topic) -> tuple[dict[int, int], bool]:
    found = resume(commits, topic=topic, dead_letters=_NO_LETTERS)
    assert found.progress.positions.topic_id == topic.topic_id
    return dict(found.progress.positions.offsets), found.is_doubtful


def test_a_new_table_begins_at_the_beginning_without_doubt() -> None:
    commits = MadeCommits()
    commits.add("CREATE TABLE")
    assert _offsets(commits, _topic(5)) == ({}, False)


def test_the_newest_commit_of_ours_counts() -> None:
    commits = MadeCommits()
    commits.add("CREATE TABLE")
    commits.add("WRITE", _progress(3, 1))
    commits.add("WRITE", _progress(3, 4))
    assert _offsets(commits, _topic(9, 9)) == ({0: 3, 1: 4}, False)


@pytest.mark.parametrize("operation", ["OPTIMIZE", "VACUUM END", "DELETE", "UPDATE"])
def test_commits_that_add_no_rows_change_nothing(operation: str) -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    commits.add(operation)
    assert _offsets(commits, _topic(9)) == ({0: 3}, False)


@pytest.mark.parametrize(
    "operation", ["SET TBLPROPERTIES", "ADD COLUMNS", "RENAME COLUMN", "DROP CONSTRAINT"]
)
def test_another_definition_keeps_the_positions_but_ends_the_run(operation: str) -> None:
    """Else rows that somebody has deleted would come back."""
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    commits.add("DELETE")
    commits.redefine(operation)
    assert _offsets(commits, _topic(9)) == ({0: 3}, False)
    assert [keeps_positions(commit) for commit in commits.commits[1:]] == [True, False]


@pytest.mark.parametrize("operation", ["REPLACE TABLE", "CREATE OR REPLACE TABLE", "CLONE"])
def test_a_table_that_was_replaced_while_it_was_empty_is_filled_again(operation: str) -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    commits.redefine(operation)
    assert _offsets(commits, _topic(9)) == ({}, True)


def test_a_restored_table_goes_on_from_the_restored_version() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    restored = commits.add("OPTIMIZE")
    commits.add("WRITE", _progress(7))
    commits.add("RESTORE", version=str(restored), timestamp=None)
    assert _offsets(commits, _topic(9)) == ({0: 3}, False)
    commits.add("WRITE", _progress(5))
    assert _offsets(commits, _topic(9)) == ({0: 5}, False)


def test_a_restore_that_carries_positions_hides_what_came_before_it() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(2))
    restored = commits.add("WRITE", _progress(3))
    commits.add("WRITE", _progress(7))
    commits.add("RESTORE", _progress(3), version=restored)
    assert _offsets(commits, _topic(9)) == ({0: 3}, False)
    shorter = _topic(9)
    # The record before the restored position is gone; that before the position of version 2 is not.
    del shorter.partitions[0][2]
    assert _offsets(commits, shorter) == ({0: 2}, True)


def test_a_restore_of_itself_ends_the_history() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(2))
    commits.add("RESTORE", version=1)
    assert _offsets(commits, _topic(9)) == ({}, True)


def test_rows_of_others_make_doubtful() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    commits.add("WRITE", mode="Append")
    assert _offsets(commits, _topic(9)) == ({0: 3}, True)


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("WRITE", {"mode": "Overwrite"}),
        ("CREATE OR REPLACE TABLE AS SELECT", {}),
        ("RESTORE", {"version": None, "timestamp": "2026-03-14"}),
        ("CONVERT", {}),
    ],
)
def test_otherwise_everything_is_read_again_and_looked_up(
    operation: str, parameters: dict[str, str | None]
) -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    commits.add(operation, **parameters)
    assert _offsets(commits, _topic(9)) == ({}, True)


def test_a_log_that_was_cleaned_up_says_nothing() -> None:
    class CleanedUp(MadeCommits):
        def commit(self, version: int) -> Commit | None:
            return super().commit(version) if version > 1 else None

    commits = CleanedUp()
    for _ in range(4):
        commits.add("OPTIMIZE")
    assert _offsets(commits, _topic(9)) == ({}, True)


def test_a_recreated_topic_is_read_from_its_beginning_and_looked_up() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3, topic_id="former"))
    assert _offsets(commits, _topic(9)) == ({}, True)


def test_a_partition_that_came_back_shorter_is_read_from_an_older_position() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(2, 2))
    commits.add("WRITE", _progress(5, 4))
    commits.add("WRITE", _progress(8, 6))
    topic = _topic(8, 6)
    topic.cut(0, 2)
    topic.append(0, 99)
    assert _offsets(commits, topic) == ({0: 5, 1: 6}, True)
    topic.cut(0, 5)
    assert _offsets(commits, topic) == ({0: 2, 1: 6}, True)
    topic.cut(0, 2)
    assert _offsets(commits, topic) == ({1: 6}, True), "nothing is left to rely on: from the beginning"


def test_a_new_partition_begins_at_0_wherever_the_topic_begins_by_now() -> None:
    commits = MadeCommits()
    commits.add("WRITE", _progress(3))
    assert _offsets(commits, _topic(9, 4)) == ({0: 3, 1: 0}, False)


def _bounds(rows: Counter[int]) -> dict[Source, Position]:
    source = Source(query="q", topic_id="s", partition=0)
    return {source: Position(offset=max(rows), ordinal=0)} if rows else {}


class Lake:
    """A table, its topic and its dead letters in memory, written as `pipeline/spark/lake/writer.py` does it.

    A record is a number, which is its identity, too; every seventh is bad.
    """

    def __init__(self) -> None:
        self.incarnations = 0
        self.topic = Topic("t0", [{}, {}])
        self.letters = Topic("d", [{}])
        self.letter_places: dict[int, tuple[str, int, int]] = {}
        self.commits = MadeCommits()
        self.commits.add("CREATE TABLE")
        # The rows that each version of the table has.
        self.rows: list[Counter[int]] = [Counter()]
        self.produced = 0
        self.lost: list[int] = []
        self.start()

    def produce(self, count: int) -> None:
        for _ in range(count):
            self.topic.append(self.produced % len(self.topic.partitions), self.produced)
            self.produced += 1

    def derive_again(self) -> None:
        """The query upstream writes again what its topic lost, somewhere else and in another order."""
        for number in self.lost[::-1]:
            self.topic.append((number + 1) % len(self.topic.partitions), number)
        self.lost.clear()

    def recreate(self, partitions: int) -> None:
        self.incarnations += 1
        self.topic = Topic(f"t{self.incarnations}", [{} for _ in range(partitions)])
        self.lost = []
        for number in reversed(range(self.produced)):
            self.topic.append(number % partitions, number)
        self.start()

    def cut(self, partition: int, lost: int) -> None:
        self.lost += self.topic.cut(partition % len(self.topic.partitions), lost)
        self.start()

    def cut_letters(self, lost: int) -> None:
        self.letters.cut(0, lost)
        self.start()

    def lose_commits(self, count: int) -> None:
        kept = max(1, len(self.rows) - count)
        del self.rows[kept:]
        del self.commits.commits[kept:]
        self.start()

    def restore(self, version: int) -> None:
        version %= len(self.rows)
        self.rows.append(Counter(self.rows[version]))
        self.commits.add("RESTORE", version=version)
        self.start()

    def restore_with_positions(self, version: int) -> None:
        """As `restoring.py` does it."""
        version %= len(self.rows)
        said = next(history(self.commits, version), None)
        if said is None:
            return
        progress = said.progress.bounded(_bounds(self.rows[version])) if said.is_doubtful else said.progress
        self.rows.append(Counter(self.rows[version]))
        self.commits.add("RESTORE", progress, version=version)
        self.start()

    def start(self) -> None:
        found = resume(self.commits, topic=self.topic, dead_letters=self.letters)
        self.progress = found.progress
        if found.is_doubtful:
            self.progress = self.progress.bounded(_bounds(self.rows[-1]))
        begin = self.progress.dead_letters_from.of("d").get(0, 0)
        places = {
            (partition, offset)
            for at, number in self.letters.partitions[0].items()
            for topic_id, partition, offset in [self.letter_places[number]]
            if at >= begin
            and topic_id == self.topic.topic_id
            and offset >= self.progress.positions.offsets.get(partition, 0)
        }
        self.sent = SentLetters(places=frozenset(places), ends=self._letter_ends())

    def batch(self, sizes: tuple[int, int, int], crash: str) -> bool:
        """Whether there was something to do."""
        highest: dict[int, int] = {}
        read: list[tuple[int, int, int]] = []
        for partition, records in enumerate(self.topic.partitions):
            begin = self.progress.positions.offsets.get(partition, 0)
            taken = sorted(offset for offset in records if offset >= begin)[: sizes[partition]]
            read += [(partition, offset, records[offset]) for offset in taken]
            if taken:
                highest[partition] = taken[-1]
        if not read:
            return False
        source = Source(query="q", topic_id="s", partition=0)
        fresh: list[int] = []
        for partition, offset, number in read:
            if number % 7 == 0:
                if (partition, offset) not in self.sent.places:
                    letter = len(self.letter_places)
                    self.letter_places[letter] = (self.topic.topic_id, partition, offset)
                    self.letters.append(0, letter)
                    if crash == "while sending":
                        self.start()
                        return True
            elif not self.progress.is_suspect(source, Position(offset=number, ordinal=0)) or (
                number not in self.rows[-1] and number not in fresh
            ):
                fresh.append(number)
        if any(number % 7 == 0 for _, _, number in read):
            self.sent = SentLetters(places=self.sent.places, ends=self._letter_ends())
        if crash == "before the commit":
            self.start()
            return True
        self.progress = self.sent.noted(self.progress.advanced(highest))
        self.commits.add("WRITE", self.progress)
        self.rows.append(self.rows[-1] + Counter(fresh))
        if crash == "after the commit":
            self.start()
        return True

    def _letter_ends(self) -> Reached:
        return Reached(topic_id="d", offsets={0: self.letters.ends[0]})

    def check(self) -> None:
        good = {number for number in range(self.produced) if number % 7}
        assert self.rows[-1] == Counter(good), "each row once"
        # Every bad record that the topic has, has one dead letter; what was lost and is there again, too.
        there = Counter(self.letter_places[number] for number in self.letters.partitions[0].values())
        for partition, records in enumerate(self.topic.partitions):
            for offset, number in records.items():
                if number % 7 == 0:
                    assert there[self.topic.topic_id, partition, offset] == 1, (partition, offset)


def test_dead_letters_of_a_run_before_the_last_are_not_sent_again() -> None:
    lake = Lake()
    lake.produce(30)
    lake.batch((15, 0, 0), "before the commit")
    # The next run does not get as far as the first one.
    lake.batch((3, 0, 0), "after the commit")
    _finish(lake)


def test_dead_letters_of_records_that_are_read_again_are_not_sent_again() -> None:
    lake = Lake()
    lake.produce(30)
    lake.batch((3, 0, 0), "")
    lake.batch((6, 0, 0), "")
    lake.cut(0, 7)
    assert lake.progress.positions.offsets == {0: 3, 1: 0}
    _finish(lake)


def test_without_commits_dead_letters_are_read_from_their_beginning() -> None:
    commits = MadeCommits()
    letters = Reached(topic_id="d", offsets={0: 4})
    commits.add("WRITE", _progress(3).with_dead_letters(begin=letters, end=Reached()))
    assert resume(commits, topic=_topic(9), dead_letters=_NO_LETTERS).progress.dead_letters_from == letters
    found = resume(commits, topic=_topic(1), dead_letters=_NO_LETTERS)
    assert found.progress.dead_letters_from == Reached()
    assert found.is_doubtful


def _finish(lake: Lake) -> None:
    lake.derive_again()
    lake.start()
    for _ in range(50):
        lake.batch((50, 50, 50), "")
    lake.check()


_SIZES = st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
_CRASHES = st.sampled_from(["", "", "while sending", "before the commit", "after the commit"])
_ACTIONS = st.one_of(
    st.tuples(st.just("produce"), st.integers(4, 15)),
    st.tuples(st.just("batch"), _SIZES, _CRASHES),
    st.tuples(st.just("batch"), _SIZES, _CRASHES),
    st.tuples(st.just("batch"), _SIZES, _CRASHES),
    st.tuples(st.just("cut"), st.integers(0, 2), st.integers(1, 6)),
    st.tuples(st.just("derive_again")),
    st.tuples(st.just("cut_letters"), st.integers(1, 3)),
    st.tuples(st.just("lose_commits"), st.integers(1, 3)),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("restore_with_positions"), st.integers(0, 20)),
    st.tuples(st.just("recreate"), st.integers(1, 3)),
)


@settings(max_examples=400, deadline=None)
@given(actions=st.lists(_ACTIONS, min_size=6, max_size=30))
def test_whatever_happens_each_row_and_each_dead_letter_is_there_once(actions: list[tuple[Any, ...]]) -> None:
    lake = Lake()
    for name, *arguments in actions:
        getattr(lake, name)(*arguments)
    _finish(lake)
