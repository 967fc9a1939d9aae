"""Leader epochs: assignment, end offsets, truncation at both ends, the checkpoint file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.partition.leader_epochs import CorruptCheckpointError, LeaderEpochs


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start_offset in entries:
        assert epochs.assign(epoch, start_offset)
    return epochs


def test_nothing_is_known_at_first() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest is None
    assert epochs.entries == ()
    assert epochs.epoch_for(0) is None
    assert epochs.end_offset_for(0, 10) == (-1, -1)


def test_assigning_the_same_epoch_again_changes_nothing() -> None:
    epochs = epochs_of((2, 10))
    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 50)
    assert epochs.entries == ((2, 10),)


@pytest.mark.parametrize(
    ("new", "left"),
    [
        pytest.param((5, 40), ((1, 0), (3, 20), (5, 40)), id="newer"),
        pytest.param((5, 20), ((1, 0), (5, 20)), id="nothing was written under the last one"),
        pytest.param((3, 10), ((1, 0), (3, 10)), id="the last one begins earlier"),
        pytest.param((2, 30), ((1, 0), (2, 30)), id="older than the last one"),
        pytest.param((0, 0), ((0, 0),), id="older than all"),
    ],
)
def test_entries_that_contradict_the_new_one_go(
    new: tuple[int, int], left: tuple[tuple[int, int], ...]
) -> None:
    epochs = epochs_of((1, 0), (3, 20))
    assert epochs.assign(*new)
    assert epochs.entries == left


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_cannot_be(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        LeaderEpochs().assign(*entry)


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        pytest.param(-1, (-1, -1), id="undefined"),
        pytest.param(-5, (-5, 5), id="before all, though it cannot be"),
        pytest.param(0, (0, 5), id="before all: where the log begins"),
        pytest.param(1, (1, 20), id="ends where the next begins"),
        pytest.param(2, (1, 20), id="between two: the one below"),
        pytest.param(3, (3, 40), id="the last but one"),
        pytest.param(7, (7, 99), id="the last ends with the log"),
        pytest.param(8, (-1, -1), id="not reached"),
    ],
)
def test_where_an_epoch_ends(epoch: int, answer: tuple[int, int]) -> None:
    assert epochs_of((1, 5), (3, 20), (7, 40)).end_offset_for(epoch, 99) == answer


@pytest.mark.parametrize(("offset", "epoch"), [(4, None), (5, 1), (19, 1), (20, 3), (1_000, 7)])
def test_which_epoch_wrote_an_offset(offset: int, epoch: int | None) -> None:
    assert epochs_of((1, 5), (3, 20), (7, 40)).epoch_for(offset) == epoch


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, ((1, 5), (3, 20), (7, 40))),
        (5, ((1, 5), (3, 20), (7, 40))),
        (6, ((1, 6), (3, 20), (7, 40))),
        (20, ((3, 20), (7, 40))),
        (39, ((3, 39), (7, 40))),
        (90, ((7, 90),)),
    ],
)
def test_cutting_the_start(start: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = epochs_of((1, 5), (3, 20), (7, 40))
    before = epochs.entries
    assert epochs.truncate_from_start(start) == (before != left)
    assert epochs.entries == left


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (41, ((1, 5), (3, 20), (7, 40))),
        (40, ((1, 5), (3, 20))),
        (21, ((1, 5), (3, 20))),
        (5, ()),
        (0, ()),
    ],
)
def test_cutting_the_end(end: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = epochs_of((1, 5), (3, 20), (7, 40))
    before = epochs.entries
    assert epochs.truncate_from_end(end) == (before != left)
    assert epochs.entries == left


def test_the_file_is_the_text_that_kafka_writes() -> None:
    epochs = epochs_of((0, 0), (3, 120))
    assert epochs.to_bytes() == b"0\n2\n0 0\n3 120\n"
    assert LeaderEpochs().to_bytes() == b"0\n0\n"


@given(entries=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), max_size=8))
def test_the_file_there_and_back(entries: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs()
    for entry in entries:
        epochs.assign(*entry)
    assert list(epochs.entries) == sorted(epochs.entries, key=lambda entry: entry[1])
    loaded = epochs_of((9, 9))
    loaded.load(epochs.to_bytes())
    assert loaded.entries == epochs.entries


@pytest.mark.parametrize(
    "damaged",
    [b"", b"0\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\nx 0\n", b"0\n1\n-1 0\n", b"\xff\n0\n"],
)
def test_a_damaged_file_is_refused_and_leaves_nothing(damaged: bytes) -> None:
    epochs = epochs_of((1, 5))
    with pytest.raises(CorruptCheckpointError):
        epochs.load(damaged)
    assert epochs.entries == ()
