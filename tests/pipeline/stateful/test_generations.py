"""Generations of a checkpoint: one is in use, the former stays beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.stateful.generations import (
    KEPT_BATCHES,
    Generations,
    Origin,
    sound_batches,
)


def commit(batch: int) -> Commit:
    return Commit(
        at=0, batch=batch, positions={"in": {0: batch}}, sinks_from={}, sinks_to={"out": {0: batch}}
    )


@pytest.fixture
def generations(tmp_path: Path) -> Generations:
    return Generations(tmp_path / "folder" / "ids")


def finish(folder: Path, *batches: int) -> None:
    """What Spark writes for a batch without state."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "metadata").write_text('{"id":"1"}')
    for batch in batches:
        (folder / f"offsets/{batch}").write_text(f'v1\n{{}}\n{{"in":{{"0":{batch}}}}}')
        (folder / f"commits/{batch}").write_text("v1\n{}")


def test_there_is_none_before_the_first(generations: Generations) -> None:
    assert generations.current is None


def test_the_newest_is_in_use_and_only_the_former_is_kept(generations: Generations) -> None:
    ids = []
    for _ in range(12):
        former = generations.current
        made = generations.begin(Origin(base=commit(-1)), former=former)
        assert generations.current == made
        ids.append(made.id)
        kept = sorted(path.name for path in made.folder.parent.iterdir())
        assert len(kept) == (1 if former is None else 2)
    assert len(set(ids)) == 12


def test_one_that_was_not_finished_does_not_count(generations: Generations) -> None:
    made = generations.begin(Origin(base=commit(-1)), former=None)
    made.folder.with_name("ids.1-abc.unfinished").mkdir()
    made.folder.with_name("ids.2-abc").mkdir()  # without an origin
    assert generations.current == made
    following = generations.begin(Origin(base=commit(-1)), former=made)
    assert generations.current == following
    assert not made.folder.with_name("ids.1-abc.unfinished").exists()


def test_going_back_takes_what_is_before_and_gets_a_new_id(generations: Generations) -> None:
    former = generations.begin(Origin(base=commit(-1)), former=None)
    finish(former.folder, 0, 1, 2, 3)
    for batch in range(4):
        former.note(commit(batch))
    made = generations.begin(Origin(base=commit(1), repeats=True), former=former)
    assert made.id != former.id
    assert list(sound_batches(made)) == [1, 0, -1]
    assert [made.noted(batch) for batch in range(4)] == [commit(0), commit(1), None, None]
    assert list(sound_batches(former)) == [3, 2, 1, 0, -1]


def test_a_note_that_is_cut_off_is_none(generations: Generations) -> None:
    made = generations.begin(Origin(base=commit(-1)), former=None)
    made.note(commit(7))
    assert made.noted(7) == commit(7)
    (made.folder / "headrace/notes/7").write_bytes(b'{"at":0,"bat')
    assert made.noted(7) is None
    (made.folder / "headrace/notes/7").write_bytes(b"")
    assert made.noted(7) is None


def test_notes_are_kept_as_long_as_states(generations: Generations) -> None:
    made = generations.begin(Origin(base=commit(-1)), former=None)
    for batch in range(KEPT_BATCHES + 5):
        made.note(commit(batch))
    assert made.noted(4) is None
    assert made.noted(5) == commit(5)


def test_a_state_that_spark_refuses_is_not_tried_again(generations: Generations) -> None:
    made = generations.begin(Origin(base=commit(-1)), former=None)
    finish(made.folder, 0, 1, 2)
    made.refuse(2)
    assert list(sound_batches(made)) == [1, 0, -1]
    made.refuse(1)
    assert list(sound_batches(made)) == []
