"""Where a run begins. The last test runs queries that are killed on logs that lose their newest records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.runs.commits import Commit, History, Offsets
from headrace.pipeline.runs.identities import Collected
from headrace.pipeline.runs.reading_back import ReadBack
from headrace.pipeline.runs.recording import Finished, Recording, ends_of_records
from headrace.pipeline.runs.resuming import Resumption, TopicNow, resume, resumed_history

SOURCE, SINK = "source-id", "sink-id"
_TO_THE_END = 7


def _now(topic_id: str, **stretches: tuple[int, int]) -> TopicNow:
    return TopicNow(
        name=topic_id,
        topic_id=topic_id,
        stretches={int(name[1:]): stretch for name, stretch in stretches.items()},
    )


def _commit(position: int, sink: tuple[int, int], *, source: str = SOURCE, at: int = 0) -> Commit:
    return Commit(
        at=at,
        positions={source: {0: position}},
        sinks_from={SINK: {0: sink[0]}},
        sinks_to={SINK: {0: sink[1]}},
    )


def _resume(
    *commits: Commit,
    start: Commit | None = None,
    source: TopicNow | None = None,
    sink: TopicNow | None = None,
    standing: set[int] | None = None,
) -> Resumption:
    """`standing` are the offsets of the sink with a record; None: all."""

    def has_records(offsets: Offsets) -> bool:
        return all(
            standing is None or offset in standing for of in offsets.values() for offset in of.values()
        )

    return resume(
        History(commits=commits),
        start,
        sources=[source or _now(SOURCE, p0=(0, 100))],
        sinks=[sink or _now(SINK, p0=(0, 100))],
        has_records=has_records,
        now=7,
    )


def test_the_newest_commit_counts() -> None:
    found = _resume(_commit(5, (4, 6)), _commit(9, (7, 10)))
    assert found.commit == _commit(9, (7, 10))
    assert found.positions == {SOURCE: {0: 9}}
    assert found.sinks_from == {SINK: {0: 7}}


def test_a_sink_that_came_back_shorter_needs_an_older_commit() -> None:
    found = _resume(_commit(5, (4, 6)), _commit(9, (5, 10)), standing=set(range(9)))
    assert found.commit == _commit(5, (4, 6))


def test_the_witness_is_the_last_record_of_the_batch_not_the_first() -> None:
    found = _resume(_commit(5, (4, 6)), _commit(9, (5, 10)), standing=set(range(7)))
    assert found.commit == _commit(5, (4, 6))


def test_a_witness_that_expired_is_not_missed() -> None:
    found = _resume(_commit(9, (5, 10)), sink=_now(SINK, p0=(10, 10)), standing=set())
    assert found.commit is not None
    assert found.sinks_from == {SINK: {0: 10}}


def test_a_recreated_sink_is_filled_again_from_where_the_query_began() -> None:
    start = Commit(at=0, positions={SOURCE: {0: 3}}, sinks_from={SINK: {0: 50}}, sinks_to={})
    found = _resume(_commit(9, (7, 10)), start=start, sink=_now("another", p0=(0, 0)))
    assert found.commit is None
    assert found.positions == {SOURCE: {0: 3}}
    assert found.sinks_from == {"another": {0: 0}}
    assert found.gaps == ()


def test_a_recreated_topic_of_dead_letters_stays_empty() -> None:
    letters = TopicNow(name="dlq", topic_id="another", stretches={0: (0, 3)}, starts_empty=True)
    found = resume(
        History(commits=(_commit(9, (7, 10)),)),
        None,
        sources=[_now(SOURCE, p0=(0, 100))],
        sinks=[_now(SINK, p0=(0, 100)), letters],
        has_records=lambda offsets: offsets == {SINK: {0: 9}, "another": {}},
        now=0,
    )
    assert found.positions == {SOURCE: {0: 9}}
    assert found.sinks_from == {SINK: {0: 7}, "another": {0: 0}}


def test_a_recreated_source_is_read_from_its_beginning_and_the_sink_from_where_the_former_one_ended() -> None:
    start = Commit(at=0, positions={SOURCE: {0: 3}}, sinks_from={}, sinks_to={})
    found = _resume(_commit(9, (7, 10)), start=start, source=_now("another", p0=(0, 4)))
    assert found.commit is None
    assert found.positions == {"another": {0: 0}}
    assert found.sinks_from == {SINK: {0: 10}}


def test_a_first_run_begins_where_the_statement_was_answered() -> None:
    start = Commit(at=0, positions={SOURCE: {0: 40}}, sinks_from={SINK: {0: 12}}, sinks_to={})
    found = _resume(start=start)
    assert found.positions == {SOURCE: {0: 40}}
    assert found.sinks_from == {SINK: {0: 12}}


def test_new_partitions_begin_at_their_beginning() -> None:
    source, sink = _now(SOURCE, p0=(0, 100), p1=(3, 8)), _now(SINK, p0=(0, 100), p1=(0, 5))
    found = _resume(_commit(9, (7, 10)), source=source, sink=sink)
    assert found.positions == {SOURCE: {0: 9, 1: 3}}
    assert found.sinks_from == {SINK: {0: 7, 1: 0}}


def test_what_expires_in_a_new_partition_before_it_is_read_is_a_gap() -> None:
    source = _now(SOURCE, p0=(0, 100), p1=(3, 8), p2=(0, 8))
    start = Commit(at=0, positions={SOURCE: {0: 40}}, sinks_from={}, sinks_to={})
    for found in (_resume(_commit(9, (7, 10)), source=source), _resume(start=start, source=source)):
        assert [(gap.partition, gap.first, gap.end) for gap in found.gaps] == [(1, 0, 3)]
    assert _resume(source=source).gaps == (), "nobody knows which partitions are new"


def test_offsets_that_expired_unread_are_a_gap() -> None:
    found = _resume(_commit(9, (7, 10)), source=_now(SOURCE, p0=(30, 100)))
    assert found.positions == {SOURCE: {0: 30}}
    (gap,) = found.gaps
    assert (gap.topic, gap.topic_id, gap.partition, gap.first, gap.end, gap.at) == (
        SOURCE,
        SOURCE,
        0,
        9,
        30,
        7,
    )


def test_a_position_beyond_the_end_of_its_source_is_not_used() -> None:
    found = _resume(_commit(50, (4, 6)), _commit(101, (7, 10)))
    assert found.positions == {SOURCE: {0: 50}}


@dataclass
class _Log:
    """Partitions as lists of (offset, origin); a cut partition goes on behind what it had reserved."""

    partitions: list[list[tuple[int, tuple[int, int]]]]
    ends: list[int] = field(default_factory=lambda: [0, 0])

    def append(self, partition: int, origin: tuple[int, int]) -> None:
        self.partitions[partition].append((self.ends[partition], origin))
        self.ends[partition] += 1

    def cut(self, partition: int, lost: int) -> None:
        kept = len(self.partitions[partition]) - lost
        del self.partitions[partition][max(kept, 0) :]
        self.ends[partition] += 3

    def has(self, offsets: Offsets) -> bool:
        return all(
            any(offset == there for there, _ in self.partitions[number])
            for number, offset in offsets.get(SINK, {}).items()
        )

    def read_back(self, found: Resumption) -> ReadBack:
        written = {0: Collected(), 1: Collected()}
        sinks_to = {SINK: dict(found.sinks_from[SINK])}
        for number, records in enumerate(self.partitions):
            for offset, (partition, origin) in records:
                if offset < found.sinks_from[SINK][number]:
                    continue
                sinks_to[SINK][number] = offset + 1
                if origin >= found.positions[SOURCE][partition]:
                    written[partition].add(origin, 0)
        return ReadBack(
            written={SOURCE: {number: each.written() for number, each in written.items()}},
            sinks_to=sinks_to,
        )


class _Commits:
    def __init__(self) -> None:
        self.history = History()

    def add(self, _key: str, commit: Commit) -> None:
        self.history = self.history.with_commit(commit)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.booleans(), st.integers(0, 4), st.integers(0, 4), st.booleans()),
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_every_record_is_derived_once_whatever_breaks(
    rounds: list[tuple[int, bool, int, int, bool]], random: random.Random
) -> None:
    """Each round: so many batches, killed within the next or not, so many records lost of each partition."""
    sink, commits = _Log([[], []]), _Commits()
    source_ends = [20, 15]
    for batches, is_killed, *lost, commits_are_lost in [*rounds, (_TO_THE_END, False, 0, 0, False)]:
        before = commits.history
        _run(sink, commits, source_ends, batches, is_killed=is_killed, random=random)
        for number, count in enumerate(lost):
            if count:
                sink.cut(number, count)
        if commits_are_lost:
            commits.history = before
    expected = sorted((number, offset) for number in (0, 1) for offset in range(source_ends[number]))
    assert sorted(origin for records in sink.partitions for _, origin in records) == expected


def _run(
    sink: _Log,
    commits: _Commits,
    source_ends: list[int],
    batches: int,
    *,
    is_killed: bool,
    random: random.Random,
) -> None:
    found = resume(
        commits.history,
        None,
        sources=[_now(SOURCE, p0=(0, source_ends[0]), p1=(0, source_ends[1]))],
        sinks=[_now(SINK, p0=(0, sink.ends[0]), p1=(0, sink.ends[1]))],
        has_records=sink.has,
        now=0,
    )
    commits.history = resumed_history(commits.history, found, now=0)
    back = sink.read_back(found)
    at_start = {SINK: dict(enumerate(sink.ends))}
    finished: list[Finished] = []
    recording = Recording(
        "q",
        commits,
        resumption=found,
        read_back=back,
        finished=lambda: finished[-1] if finished else None,
        ends=lambda: ends_of_records({SINK: dict(enumerate(sink.ends))}, at_start, back),
        wall_clock_ms=lambda: 0,
    )
    positions = dict(found.positions[SOURCE])

    def write_a_batch(number: int, *, is_cut_short: bool) -> None:
        many = 100 if number == _TO_THE_END - 1 else random.randint(0, 4)
        to = {each: min(positions[each] + many, source_ends[each]) for each in (0, 1)}
        rows = [
            (each, offset)
            for each in (0, 1)
            for offset in range(positions[each], to[each])
            if not back.written[SOURCE][each].has(offset, 0)
        ]
        # A look-up shuffles: rows go to any partition in any order.
        random.shuffle(rows)
        for row in rows[: random.randint(0, len(rows))] if is_cut_short else rows:
            sink.append(random.randint(0, 1), row)
            if random.random() < 0.2:
                recording.note_now()
        if not is_cut_short:
            positions.update(to)
            finished.append(Finished(batch=number, positions={SOURCE: dict(to)}))

    for number in range(batches):
        write_a_batch(number, is_cut_short=False)
        if random.random() < 0.7:
            recording.note_now()
    if is_killed:
        write_a_batch(batches, is_cut_short=True)
