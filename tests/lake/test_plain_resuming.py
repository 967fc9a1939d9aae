"""What a table of plain files has when the topic or the dead letters came back shorter, or are new ones."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from headrace.lake.plain_resuming import read_before, refuses_derived, resumed
from headrace.lake.positions import Offsets, Progress, Reached, progress_from_metadata
from headrace.lake.resuming import history, resume
from tests.lake.delta_folders import MadeCommits


@dataclass
class Topic:
    """Its partitions end at `ends`."""

    topic_id: str
    ends: Offsets
    starts: Offsets = field(default_factory=lambda: {0: 0, 1: 0})

    def lacking(self, offsets: Offsets) -> AbstractSet[int]:
        return {number for number, offset in offsets.items() if offset >= self.ends[number]}


LETTERS = Topic("letters", {0: 9})


def reached(topic_id: str, **offsets: int) -> Progress:
    numbers = {int(name[1:]): offset for name, offset in offsets.items()}
    return Progress(positions=Reached(topic_id=topic_id, offsets=numbers))


def table(*progresses: Progress) -> MadeCommits:
    commits = MadeCommits()
    commits.add("CREATE TABLE")
    for progress in progresses:
        commits.add("WRITE", progress)
    return commits


def start(commits: MadeCommits, topic: Topic, letters: Topic = LETTERS) -> Progress:
    said = next(history(commits))
    return resumed(resume(commits, topic=topic, dead_letters=letters).progress, said.progress, topic)


def test_ordinary_runs_have_no_bounds() -> None:
    whole = Topic("id", {0: 10, 1: 10})
    assert start(table(), whole).bounds == {}
    progress = start(table(reached("id", p0=3), reached("id", p0=5, p1=2)), whole)
    assert (progress.positions.offsets, progress.bounds) == ({0: 5, 1: 2}, {})


def test_a_shorter_topic_is_read_again_but_not_written_again() -> None:
    commits = table(reached("id", p0=3, p1=1), reached("id", p0=5, p1=2))
    shorter = Topic("id", {0: 4, 1: 10})
    progress = start(commits, shorter)
    assert progress.positions.offsets == {0: 3, 1: 2}
    assert read_before(progress.bounds) == {0: 5}
    assert refuses_derived(progress.bounds)
    # The next run has only read a part of it, and the topic has got new records.
    commits.add("WRITE", progress.advanced({0: 3}))
    again = start(commits, Topic("id", {0: 20, 1: 10}))
    assert again.positions.offsets == {0: 4, 1: 2}
    assert read_before(again.bounds) == {0: 5}
    commits.add("WRITE", again.advanced({0: 8}))
    last = start(commits, Topic("id", {0: 20, 1: 10}))
    assert read_before(last.bounds) == {}
    assert refuses_derived(last.bounds), "what was lost may be derived again at any time"


def test_dead_letters_that_are_gone_make_nothing_undecidable() -> None:
    first = reached("id", p0=3)
    second = reached("id", p0=5).with_dead_letters(
        begin=Reached(topic_id="letters", offsets={0: 0}), end=Reached(topic_id="letters", offsets={0: 4})
    )
    progress = start(table(first, second), Topic("id", {0: 10, 1: 0}), Topic("letters", {0: 2}))
    assert progress.positions.offsets[0] == 3
    assert read_before(progress.bounds) == {0: 5}
    assert not refuses_derived(progress.bounds)


def test_a_recreated_topic_is_read_from_its_beginning() -> None:
    commits = table(reached("old", p0=5))
    progress = start(commits, Topic("new", {0: 2, 1: 0}))
    assert progress.positions == Reached(topic_id="new", offsets={})
    assert read_before(progress.bounds) == {}
    assert refuses_derived(progress.bounds)
    kept = progress_from_metadata(progress.as_metadata())
    assert kept is not None
    assert kept.bounds == progress.bounds
    commits.add("WRITE", progress.advanced({0: 1}))
    third = start(commits, Topic("third", {0: 2, 1: 0}))
    assert {source.topic_id for source in third.bounds} == {"third"}
