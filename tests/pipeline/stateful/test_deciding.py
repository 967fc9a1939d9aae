"""Where a run goes on, decided from what is left of its checkpoint and of its sinks."""

from __future__ import annotations

from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.stateful.deciding import Course, Decision, Kept, Origin, decide


def note(batch: int) -> Commit:
    """The sink has ten rows a batch."""
    end = {"sink": {0: 10 * (batch + 1)}}
    return Commit(at=0, batch=batch, positions={}, sinks_from=end, sinks_to=end)


def decided(
    *notes: int,
    newest: int,
    begun: int | None = None,
    usable_to: int = 1_000,
    behind: frozenset[Origin] = frozenset(),
    repeats: int | None = None,
) -> Decision:
    kept = Kept(
        id="now",
        newest=newest,
        notes=[note(batch) for batch in notes],
        is_begun=lambda batch: batch == begun,
        repeats=lambda batch: batch == repeats,
    )
    return decide(kept, is_usable=lambda each: each.batch <= usable_to, rows_behind=lambda _: behind)


def test_without_a_checkpoint_a_run_begins_at_the_beginning() -> None:
    found = decide(None, is_usable=lambda _: True, rows_behind=lambda _: frozenset())
    assert found == Decision(course=Course.BEGIN_ANEW, base=None)


def test_after_a_clean_stop_it_continues() -> None:
    assert decided(5, 4, newest=5) == Decision(course=Course.CONTINUE, base=note(5))


def test_a_begun_batch_is_repeated_with_its_rows() -> None:
    found = decided(5, 4, newest=6, begun=6, behind=frozenset({("now", 6)}))
    assert found == Decision(course=Course.CONTINUE, base=note(5))


def test_a_begun_batch_without_rows_is_repeated() -> None:
    assert decided(5, newest=6, begun=6).course is Course.CONTINUE


def test_rows_of_a_batch_that_the_checkpoint_does_not_know_make_it_go_back() -> None:
    """The entry of batch 6 was lost: the next batch 6 covers other records."""
    found = decided(5, 4, newest=5, behind=frozenset({("now", 6)}))
    assert found == Decision(course=Course.GO_BACK, base=note(5))


def test_rows_of_several_batches_cannot_be_one_repeated_batch() -> None:
    found = decided(5, newest=6, begun=6, behind=frozenset({("now", 6), ("now", 7)}))
    assert found.course is Course.GO_BACK


def test_rows_of_another_checkpoint_make_it_go_back() -> None:
    found = decided(5, newest=6, begun=6, behind=frozenset({("before", 6)}))
    assert found.course is Course.GO_BACK


def test_if_the_sink_lost_rows_it_goes_back_to_the_last_batch_that_is_all_there() -> None:
    found = decided(5, 4, 3, 2, newest=5, usable_to=3)
    assert found == Decision(course=Course.GO_BACK, base=note(3))


def test_if_the_sink_lost_rows_of_a_finished_batch_its_begun_successor_is_no_help() -> None:
    found = decided(5, 4, newest=6, begun=6, usable_to=4)
    assert found == Decision(course=Course.GO_BACK, base=note(4))


def test_a_batch_whose_state_is_damaged_is_done_again() -> None:
    """Batch 5 is committed, but only the states of 4 and before can be loaded."""
    assert decided(4, 3, newest=5) == Decision(course=Course.GO_BACK, base=note(4))


def test_if_nothing_can_be_used_it_begins_anew() -> None:
    assert decided(5, 4, newest=5, usable_to=3) == Decision(course=Course.BEGIN_ANEW, base=None)
    assert decided(newest=5) == Decision(course=Course.BEGIN_ANEW, base=None)


def test_a_run_that_was_going_back_already_does_not_go_back_again() -> None:
    """Its first batch knows of the rows of the former checkpoint."""
    found = decided(3, newest=4, begun=4, behind=frozenset({("before", 4), ("now", 4)}), repeats=4)
    assert found == Decision(course=Course.CONTINUE, base=note(3))


def test_a_run_that_was_going_back_and_lost_its_range_goes_back_again() -> None:
    """Its rows are of a batch that covered other records than the next one will."""
    found = decided(3, newest=3, behind=frozenset({("before", 4), ("now", 4)}), repeats=4)
    assert found == Decision(course=Course.GO_BACK, base=note(3))


def test_finished_batches_of_a_run_that_is_going_back_are_no_reason_to_go_back_again() -> None:
    """Rows that wait for a watermark come a batch later; until then the sink is read from further back."""
    found = decided(4, 3, newest=4, behind=frozenset({("before", 4), ("now", 4)}), repeats=5)
    assert found == Decision(course=Course.CONTINUE, base=note(4))
