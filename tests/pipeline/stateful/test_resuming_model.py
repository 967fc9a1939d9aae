"""Whatever is lost of checkpoint and sink, and wherever a run is killed: each row is in the sink once.

The resumption and its files are the real ones. Spark is a model that writes the files of a checkpoint in
Spark's order, can be killed at every step, and repeats a batch as Spark does. The log is a list with holes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.topics import Partition, TopicIdentity
from headrace.pipeline.runs.commits import Commit, History, Offsets
from headrace.pipeline.spark.stateful import resuming_state
from headrace.pipeline.spark.stateful.checkpoint_files import batches_in, is_committed, positions_after
from headrace.pipeline.spark.stateful.generations import Generation, Generations
from headrace.pipeline.spark.stateful.resuming_state import ResumedState, StateResumption

SOURCE = TopicIdentity(name="in", topic_id="in-id", partitions=1)
SINK = TopicIdentity(name="out", topic_id="out-id", partitions=1)
LETTERS = TopicIdentity(name="in_dlq", topic_id="letters-id", partitions=1)
KEYS = "abc"
LARGEST_BATCH = 3

# By count: a row of each key that the batch touched. By origin: a row of each record, in its batch or, if it
# waits for a watermark, in the next one.
Kind = str
KINDS = ("count", "origin", "waiting")


class KilledError(Exception):
    pass


@dataclass(frozen=True, kw_only=True)
class Row:
    checkpoint: str
    batch: int
    key: str
    value: int

    def headers(self) -> list[tuple[str, bytes]]:
        return [("headrace-source", f"q/{self.checkpoint}/batch/{self.batch}/0".encode())]


class World:
    """A log with one source and one sink, and the folder of one query."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        self.generations = Generations(folder / "ids")
        self.source: list[str] = []
        self.sink: dict[int, Row] = {}
        self.sink_end = 0
        self.bootstrap = "log"

    # The log, as `StateResumption` asks it.

    def stretches(self, topics: Sequence[TopicIdentity]) -> dict[str, dict[int, tuple[int, int]]]:
        ends = {SOURCE.name: len(self.source), SINK.name: self.sink_end, LETTERS.name: 0}
        return {topic.name: {0: (0, ends[topic.name])} for topic in topics}

    def has_records(self, _bootstrap: str, _sinks: object, offsets: Offsets) -> bool:
        return all(offset in self.sink for of_topic in offsets.values() for offset in of_topic.values())

    def records_since(
        self,
        _bootstrap: str,
        starts: Mapping[Partition, int],
        _ends: object,
        *,
        counts: Callable[[Any], bool],
        quiet_seconds: float,
    ) -> Iterator[Row]:
        assert quiet_seconds == 0
        first = starts[SINK.name, 0]
        yield from (row for offset, row in self.sink.items() if offset >= first and counts(row))

    # A run.

    @property
    def trailing(self) -> int:
        return 1 if self.kind == "waiting" else 0

    def start(self) -> ResumedState:
        cluster: Any = self
        resumption = StateResumption(cluster, query="q", sources=[SOURCE], sink=SINK, dead_letters=LETTERS)
        start = Commit(at=0, positions={}, sinks_from={"out-id": {0: 0}}, sinks_to={})
        # Without commits: the first one comes some time after the first rows.
        return resumption.resume(self.generations, History(), start=start, trailing_batches=self.trailing)

    def run(self, *, batches: int, killed_at: int) -> None:
        """Until it has nothing to do, was killed, or has done so many batches."""
        resumed = self.start()
        steps = iter(range(killed_at, -1, -1))

        def step() -> None:
            if next(steps, None) is None:
                raise KilledError

        try:
            for _ in range(batches):
                if not self.batch(resumed, step):
                    return
        except KilledError:
            return

    def batch(self, resumed: ResumedState, step: Callable[[], None]) -> bool:
        folder = resumed.generation.folder
        for name in ("offsets", "commits", "state/0/0"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text('{"id":"1"}')
        step()
        begun = batches_in(folder / "offsets")
        committed = batches_in(folder / "commits")
        assert not begun or positions_after(folder, begun[-1]) is not None, "Spark would fail"
        assert not committed or is_committed(folder, committed[-1]), "Spark would fail"
        if begun and begun[-1] != (committed[-1] if committed else -1):
            number = begun[-1]
            assert number == (committed[-1] if committed else -1) + 1
        else:
            number = begun[-1] + 1 if begun else 0
        start = end_of(folder, number - 1)
        state = load(folder, number)
        if not begun or begun[-1] < number:
            again = self.derives_again(resumed, number)
            end = len(self.source) if again else min(len(self.source), start + LARGEST_BATCH)
            if end == start and not state["waiting"]:
                return False
            ranges = json.dumps({"in": {"0": end}})
            (folder / f"offsets/{number}").write_text(f"v1\n{{}}\n{ranges}")
            step()
        rows, after = self.derived(state, start, end_of(folder, number))
        (folder / f"state/0/0/{number + 1}.changelog").write_text(json.dumps(after))
        step()
        for key, value in self.missing(rows, resumed, number):
            self.sink[self.sink_end] = Row(
                checkpoint=resumed.generation.id, batch=number, key=key, value=value
            )
            self.sink_end += 1
            step()
        ends = {SINK.topic_id: {0: max((offset + 1 for offset in self.sink), default=0)}}
        position = {SOURCE.topic_id: {0: end_of(folder, number)}}
        resumed.generation.note(resumed.note(number, positions=position, ends=ends))
        step()
        (folder / f"commits/{number}").write_text("v1\n{}")
        step()
        return True

    def derived(self, state: Any, start: int, end: int) -> tuple[list[tuple[str, int]], Any]:
        records = list(enumerate(self.source))[start:end]
        counts = Counter(state["counts"])
        counts.update(key for _, key in records)
        waiting = [[key, number] for number, key in records] if self.kind == "waiting" else []
        after = {"counts": dict(counts), "waiting": waiting}
        match self.kind:
            case "count":
                return [(key, counts[key]) for key in sorted({key for _, key in records})], after
            case "origin":
                return [(key, number) for number, key in records], after
            case _:
                return [(key, number) for key, number in state["waiting"]], after

    def derives_again(self, resumed: ResumedState, number: int) -> bool:
        rows = resumed.sink_rows
        return rows is not None and rows.derives_again and number <= rows.last_batch

    def missing(
        self, rows: list[tuple[str, int]], resumed: ResumedState, number: int
    ) -> list[tuple[str, int]]:
        """What `present_rows.py` does with frames."""
        within = resumed.sink_rows
        if within is None or number > within.last_batch:
            return rows
        first, end = within.starts[SINK.name, 0], within.ends[SINK.name, 0]
        present = [row for offset, row in sorted(self.sink.items()) if first <= offset < end]
        now = resumed.generation.id
        own = [row for row in present if (row.checkpoint, row.batch) == (now, number)]
        if self.kind == "count":
            rows = [row for row in rows if row[0] not in {each.key for each in own}]
            if within.derives_again:
                newest = {each.key: each.value for each in present if each.checkpoint != now}
                rows = [row for row in rows if newest.get(row[0]) != row[1]]
            return rows
        known = [each for each in present if each in own or (within.derives_again and each.checkpoint != now)]
        return [row for row in rows if row not in {(each.key, each.value) for each in known}]

    # What is lost.

    def lose(self, what: str, count: int) -> None:
        current = self.generations.current
        match what:
            case "sink":
                for offset in sorted(self.sink)[len(self.sink) - count :]:
                    del self.sink[offset]
                # The log goes on behind what it had reserved.
                self.sink_end += 5
            case "everything":
                shutil.rmtree(self.generations._checkpoint.parent, ignore_errors=True)
            case _ if current is not None:
                lose_newest(current, what, count)

    def settle(self) -> None:
        for _ in range(30):
            before = (dict(self.sink), self.generations.current)
            self.run(batches=30, killed_at=10_000)
            if before == (self.sink, self.generations.current):
                return
        raise AssertionError("it does not come to rest")


def lose_newest(generation: Generation, what: str, count: int) -> None:
    """Remove or cut off the newest files of one kind."""
    folder = {
        "offsets": "offsets",
        "commits": "commits",
        "notes": "headrace/notes",
        "state": "state/0/0",
    }[what.removesuffix(", cut off")]
    files = sorted((generation.folder / folder).glob("[0-9]*"), key=lambda path: int(path.stem))
    for path in files[len(files) - count :]:
        if what.endswith("cut off"):
            path.write_text("")
        else:
            path.unlink()


def end_of(folder: Path, batch: int) -> int:
    if batch < 0:
        return 0
    positions = positions_after(folder, batch)
    assert positions is not None, "Spark would fail"
    return positions["in"][0]


def load(folder: Path, version: int) -> Any:
    if version == 0:
        return {"counts": {}, "waiting": []}
    return json.loads((folder / f"state/0/0/{version}.changelog").read_text())


LOSSES = [
    "sink",
    "offsets",
    "offsets, cut off",
    "commits",
    "commits, cut off",
    "notes",
    "notes, cut off",
    "state",
    "state, cut off",
    "everything",
]


@dataclass(frozen=True, kw_only=True)
class Life:
    """Of one run: what is produced before, how far it comes, and what is lost afterwards."""

    produced: list[str]
    batches: int
    killed_at: int
    lost: list[tuple[str, int]]


LIVES = st.builds(
    Life,
    produced=st.lists(st.sampled_from(KEYS), max_size=5),
    batches=st.integers(1, 3),
    killed_at=st.one_of(st.integers(0, 12), st.just(1_000)),
    lost=st.lists(st.tuples(st.sampled_from(LOSSES), st.integers(1, 2)), max_size=2),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(lives=st.lists(LIVES, max_size=5))
def test_each_row_is_there_once(kind: Kind, lives: list[Life]) -> None:
    check(kind, lives)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2_000)
@given(lives=st.lists(LIVES, max_size=12))
def test_each_row_is_there_once_in_long_histories(kind: Kind, lives: list[Life]) -> None:
    check(kind, lives)


def check(kind: Kind, lives: list[Life]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        world = World(Path(folder), kind)
        patched.setattr(resuming_state, "has_records", world.has_records)
        patched.setattr(resuming_state, "records_since", world.records_since)
        for life in lives:
            world.source += life.produced
            world.run(batches=life.batches, killed_at=life.killed_at)
            for what, count in life.lost:
                world.lose(what, count)
        world.settle()
        rows = [row for _, row in sorted(world.sink.items())]
        if kind != "count":
            assert Counter((row.key, row.value) for row in rows) == Counter(
                (key, number) for number, key in enumerate(world.source)
            )
            return
        assert max(Counter((row.checkpoint, row.batch, row.key) for row in rows).values(), default=1) == 1
        assert {row.key: row.value for row in rows} == Counter(world.source)
        for key in KEYS:
            values = [row.value for row in rows if row.key == key]
            assert values == sorted(set(values)), "a count was written twice, or went back"
