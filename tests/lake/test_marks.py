"""The rule that makes at-least-once end as exactly once, against a model that remembers every row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.marks import Lane, Marks, Position, Source, marks_from_metadata, marks_from_rows

_SOURCE = Source(query="q", topic_id="t", partition=0)


def _lane(topic_partition: int, source: Source = _SOURCE) -> Lane:
    return Lane(source=source, topic_partition=topic_partition)


def _at(offset: int, ordinal: int = 0) -> Position:
    return Position(offset=offset, ordinal=ordinal)


def test_a_row_at_or_below_its_mark_was_written_before() -> None:
    marks = Marks(layout="a:1").advanced({_lane(0): _at(10, 1)})
    assert marks.holds(_lane(0), _at(10, 1)) is True
    assert marks.holds(_lane(0), _at(9, 7)) is True
    assert marks.holds(_lane(0), _at(10, 2)) is False
    assert marks.holds(_lane(1), _at(3)) is False


def test_another_incarnation_of_the_source_is_another_source() -> None:
    marks = Marks(layout="a:1").advanced({_lane(0): _at(500)})
    made_again = Source(query="q", topic_id="another id", partition=0)
    assert marks.holds(_lane(0, made_again), _at(0)) is False


def test_a_mark_never_falls() -> None:
    marks = Marks(layout="a:1").advanced({_lane(0): _at(10)}).advanced({_lane(0): _at(4)})
    assert marks.holds(_lane(0), _at(10)) is True


def test_after_a_change_of_layout_only_the_rows_can_tell() -> None:
    marks = Marks(layout="a:2").advanced({_lane(0): _at(90), _lane(1): _at(99)}).for_layout("b:3")
    assert marks.holds(_lane(2), _at(95)) is None
    assert marks.holds(_lane(0), _at(95)) is None
    assert marks.holds(_lane(0), _at(100)) is False


def test_a_suspect_that_was_new_does_not_let_later_repeats_pass() -> None:
    marks = Marks(layout="a:2").advanced({_lane(0): _at(99)}).for_layout("b:3").advanced({_lane(2): _at(50)})
    assert marks.holds(_lane(2), _at(51)) is None


def test_marks_read_back_from_a_commit() -> None:
    marks = (
        Marks(layout="a:2").advanced({_lane(0): _at(90, 3)}).for_layout("b:3").advanced({_lane(1): _at(200)})
    )
    assert marks_from_metadata(marks.as_metadata()) == marks


def test_a_commit_of_someone_else_has_no_marks() -> None:
    for text in (None, "", "a note", "{}", "[1]", '{"headrace": 99}'):
        assert marks_from_metadata(text) is None


_SOURCES = [Source(query="q", topic_id="t", partition=number) for number in range(2)]


@st.composite
def _runs(draw: st.DrawFn) -> list[tuple[str, int, list[tuple[int, int, int]]]]:
    """Runs of an upstream query: each has a layout and repeats from some earlier offset; rows in batches."""
    runs = []
    reached = [0, 0]
    for _ in range(draw(st.integers(1, 5))):
        partitions = draw(st.integers(1, 3))
        rows: list[tuple[int, int, int]] = []
        for source in range(2):
            begin = draw(st.integers(0, reached[source]))
            end = draw(st.integers(begin, begin + 8))
            reached[source] = max(reached[source], end)
            # The key, and so the partition, is a property of the record: the same at every repetition.
            rows += [(source, offset, (offset * 7 + source) % partitions) for offset in range(begin, end)]
        runs.append((f"topic:{partitions}", partitions, rows))
    return runs


@given(runs=_runs(), data=st.data())
def test_whatever_is_repeated_is_written_once(
    runs: list[tuple[str, int, list[tuple[int, int, int]]]], data: st.DataObject
) -> None:
    """Each partition of the topic keeps its order; partitions are read at any pace, in any batches."""
    table: set[tuple[int, int]] = set()
    written: list[tuple[int, int]] = []
    marks = Marks()
    for layout, partitions, rows in runs:
        marks = marks.for_layout(layout)
        if data.draw(st.booleans(), label="marks are computed from the rows"):
            highest: dict[Source, Position] = {}
            for source, offset in table:
                known = highest.get(_SOURCES[source], _at(-1))
                highest[_SOURCES[source]] = max(known, _at(offset))
            marks = marks_from_rows(highest).for_layout(layout)
        queues = {p: [row for row in rows if row[2] == p] for p in range(partitions)}
        while any(queues.values()):
            batch: list[tuple[int, int, int]] = []
            for queue in queues.values():
                taken = data.draw(st.integers(0, len(queue)))
                batch += queue[:taken]
                del queue[:taken]
            fresh: dict[tuple[int, int], Lane] = {}
            for source, offset, partition in batch:
                lane = _lane(partition, _SOURCES[source])
                held = marks.holds(lane, _at(offset))
                if held is None:
                    held = (source, offset) in table
                if not held:
                    fresh[(source, offset)] = lane
            highest_of_batch: dict[Lane, Position] = {}
            for (_, offset), lane in fresh.items():
                highest_of_batch[lane] = max(highest_of_batch.get(lane, _at(-1)), _at(offset))
            written += fresh
            table.update(fresh)
            marks = marks.advanced(highest_of_batch)
    produced = {(source, offset) for _, _, rows in runs for source, offset, _ in rows}
    assert sorted(written) == sorted(produced)
