"""The order of commits: when the ends of the sinks were taken, and for which batch they are good."""

from __future__ import annotations

from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.runs.identities import Collected
from headrace.pipeline.runs.reading_back import ReadBack
from headrace.pipeline.runs.recording import Finished, Recording, ends_of_records
from headrace.pipeline.runs.resuming import Resumption

SOURCE, SINK = "source-id", "sink-id"


class _Run:
    """A run that began at offset 10 of its source and 100 of its sink."""

    def __init__(self, *written: int) -> None:
        self.commits: list[Commit] = []
        self.batch: Finished | None = None
        self.end = 100
        # Called while the ends are being asked for.
        self.meanwhile = lambda: None
        collected = Collected()
        for offset in written:
            collected.add(offset, 0)
        self.recording = Recording(
            "q",
            self,
            resumption=Resumption(commit=None, positions={SOURCE: {0: 10}}, sinks_from={SINK: {0: 90}}),
            read_back=ReadBack(written={SOURCE: {0: collected.written()}}, sinks_to={SINK: {0: 100}}),
            finished=lambda: self.batch,
            ends=self._ends,
            wall_clock_ms=lambda: 5,
        )

    def add(self, _key: str, commit: Commit) -> None:
        self.commits.append(commit)

    def finish(self, number: int, position: int) -> None:
        self.batch = Finished(batch=number, positions={SOURCE: {0: position}})

    def stretches(self) -> list[tuple[int, int, int]]:
        return [
            (each.positions[SOURCE][0], each.sinks_from[SINK][0], each.sinks_to[SINK][0])
            for each in self.commits
        ]

    def _ends(self) -> dict[str, dict[int, int]]:
        end = self.end
        self.meanwhile()
        return {SINK: {0: end}}


def test_the_ends_before_a_batch_are_where_the_next_ones_begin() -> None:
    run = _Run()
    run.recording.note_now()
    run.end = 120
    run.finish(0, 30)
    run.recording.note_now()
    run.end = 150
    run.finish(1, 60)
    run.recording.note_now()
    assert run.stretches() == [(30, 100, 120), (60, 120, 150)]


def test_ends_that_were_taken_while_a_batch_finished_are_not_used() -> None:
    run = _Run()
    run.finish(0, 30)
    # The batch that begins at 40 may have begun to write before the end was taken.
    run.meanwhile = lambda: run.finish(1, 40)
    run.recording.note_now()
    run.meanwhile = lambda: None
    run.end = 130
    run.recording.note_now()
    assert run.stretches() == [(30, 90, 100), (40, 90, 130)]


def test_what_earlier_runs_wrote_is_not_left_behind_before_the_run_has_passed_it() -> None:
    run = _Run(10, 11, 39)
    run.recording.note_now()
    for number, position in enumerate((20, 39, 40)):
        run.finish(number, position)
        run.recording.note_now()
    assert [sinks_from for _, sinks_from, _ in run.stretches()] == [90, 90, 100]


def test_a_batch_that_moves_no_position_is_not_committed() -> None:
    run = _Run()
    for number in range(3):
        run.finish(number, 30)
        run.recording.note_now()
    assert len(run.commits) == 1


def test_commits_pause() -> None:
    run = _Run()
    for now in range(10):
        run.finish(now, 30 + now)
        run.recording.note(now * 0.5)
    assert [position for position, _, _ in run.stretches()] == [30, 34, 38]


def test_the_end_of_a_log_in_a_hole_is_that_of_its_records() -> None:
    back = ReadBack(written={}, sinks_to={SINK: {0: 7, 1: 5}})
    at_start = {SINK: {0: 1000, 1: 1000}}
    assert ends_of_records({SINK: {0: 1000, 1: 1001}}, at_start, back) == {SINK: {0: 7, 1: 1001}}
