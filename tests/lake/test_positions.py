"""What a commit says about the topic: positions, the place of dead letters, and bounds."""

from __future__ import annotations

from headrace.lake.positions import Position, Progress, Reached, Source, progress_from_metadata
from headrace.lake.read_columns import ReadColumns
from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct

_SOURCE = Source(query="q", topic_id="t", partition=0)


def _at(offset: int, ordinal: int = 0) -> Position:
    return Position(offset=offset, ordinal=ordinal)


def test_positions_are_behind_the_highest_record_and_never_fall() -> None:
    progress = Progress(positions=Reached(topic_id="t")).advanced({0: 9, 1: 4})
    assert progress.advanced({1: 2, 2: 0}).positions == Reached(topic_id="t", offsets={0: 10, 1: 5, 2: 1})


def test_what_expired_before_a_table_began_is_no_gap() -> None:
    begun = Progress(positions=Reached(topic_id="t", offsets={0: 7, 2: 0})).begun({0: 3, 1: 5, 2: 9})
    assert begun.positions == Reached(topic_id="t", offsets={0: 7, 1: 5, 2: 0})


def test_positions_of_another_incarnation_are_none() -> None:
    assert Reached(topic_id="t", offsets={0: 5}).of("another id") == {}


def test_a_row_above_its_bound_is_certainly_new() -> None:
    progress = Progress().bounded({_SOURCE: _at(10, 1)})
    assert progress.is_suspect(_SOURCE, _at(10, 1))
    assert progress.is_suspect(_SOURCE, _at(9, 7))
    assert not progress.is_suspect(_SOURCE, _at(10, 2))


def test_another_incarnation_of_the_source_is_another_source() -> None:
    progress = Progress().bounded({_SOURCE: _at(500)})
    assert not progress.is_suspect(Source(query="q", topic_id="another id", partition=0), _at(0))


def test_progress_reads_back_from_a_commit() -> None:
    progress = (
        Progress(positions=Reached(topic_id="t"))
        .advanced({0: 89, 12: 3})
        .with_dead_letters(
            begin=Reached(topic_id="d", offsets={0: 4}), end=Reached(topic_id="d", offsets={0: 7})
        )
        .bounded({_SOURCE: _at(90, 3)})
    )
    assert progress_from_metadata(progress.as_metadata()) == progress
    assert progress_from_metadata(Progress().as_metadata()) == Progress()


def test_a_commit_of_someone_else_says_nothing() -> None:
    for text in (None, "", "a note", "{}", "[1]", '{"headrace": 99}', '{"headrace": 1, "lanes": []}'):
        assert progress_from_metadata(text) is None


def test_a_commit_says_as_what_records_are_read_if_they_are_transformed() -> None:
    columns = Struct(
        fields=(
            Field(name="a", type=Decimal(precision=9, scale=2)),
            Field(name="b", type=Array(element=Map(value=Simple.TIMESTAMP_NTZ))),
        )
    )
    for reads in (ReadColumns(value=columns), ReadColumns(value=columns, key=Struct(fields=())), None):
        progress = Progress(positions=Reached(topic_id="t", offsets={0: 7})).reading(reads)
        assert progress_from_metadata(progress.as_metadata()) == progress
        # Whatever becomes of it.
        assert progress.advanced({0: 9}).reads == reads
