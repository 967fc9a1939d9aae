"""The way of a question through the log, with a real broker and something to hold on to instead of Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.spark_questions import (
    SparkAnswer,
    SparkQuestion,
    SparkQuestionLog,
    lease,
    now_ms,
)
from headrace.pipeline.spark.questions.service import SparkQuestions
from headrace.query.spark.asking import SparkAsker, SparkLimits
from headrace.testing import EmbeddedBroker
from tests.query.records import wait_until


class HeldRunning:
    """Runs a question until it is released or cancelled, and writes files of so many bytes."""

    def __init__(self, *, size: int = 10) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self._size = size
        self._release = threading.Event()
        self._cancelled: set[str] = set()

    def release(self) -> None:
        self._release.set()

    def run(self, question: SparkQuestion, folder: Path) -> tuple[list[Path], int]:
        self.began.append(question.id)
        folder.mkdir(parents=True)
        file = folder / "part-0.parquet"
        file.write_bytes(b"x" * self._size)
        try:
            while not self._release.wait(0.02):
                if question.id in self._cancelled:
                    raise HeadraceError("query_failed", "Spark: the job was cancelled.")
        finally:
            self.ended.append(question.id)
        return [file], 1

    def cancel(self, question_id: str) -> None:
        self._cancelled.add(question_id)

    def progress(self, _: str) -> str:
        return "1 of 2 tasks are done"


@contextmanager
def served(broker: EmbeddedBroker, folder: Path, running: HeldRunning) -> Iterator[SparkQuestions]:
    with SparkQuestions(SparkQuestionLog(broker.bootstrap), running, folder / "answers") as service:
        yield service


@dataclasses.dataclass(slots=True, kw_only=True)
class Asking:
    """A question that is asked in a thread."""

    asker: SparkAsker
    pipeline: list[str | None]
    states: list[str] = dataclasses.field(default_factory=list)
    is_cancelled: bool = False

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self.outcome)
        thread.start()
        return thread

    async def ask(self) -> SparkAnswer:
        return await self.asker.ask(
            "SELECT 1", [], is_cancelled=lambda: self.is_cancelled, on_state=self.states.append
        )


@contextmanager
def asking(broker: EmbeddedBroker, **limits: float) -> Iterator[tuple[asyncio.Runner, Asking]]:
    with asyncio.Runner() as runner:
        pipeline: list[str | None] = ["first"]
        asker = SparkAsker(broker.bootstrap, lambda: pipeline[0], SparkLimits(**limits))  # type: ignore[arg-type]
        yield runner, Asking(asker=asker, pipeline=pipeline)
        runner.run(asker.close())


def answers_below(folder: Path) -> list[Path]:
    return list((folder / "answers").glob("*"))


def test_an_answer_comes_back_and_its_files_go(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning()
    running.release()
    with served(broker, tmp_path, running), asking(broker) as (runner, question):
        answer = runner.run(question.ask())
        assert [Path(file).read_bytes() for file in answer.files] == [b"x" * 10]
        assert answer.rows == 1
        runner.run(question.asker.forget(answer.id, answer))
        assert answers_below(tmp_path) == []
        log = SparkQuestionLog(broker.bootstrap)
        log.start()
        wait_until(lambda: not log.all_questions() and not log.all_answers(), "nothing is left in the topic")
        log.stop()


def test_a_cancelled_question_ends_and_leaves_nothing(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning()
    with served(broker, tmp_path, running), asking(broker) as (runner, question):

        async def cancelled() -> None:
            task = asyncio.create_task(question.ask())
            while not running.began:
                await asyncio.sleep(0.01)
            question.is_cancelled = True
            await task

        with pytest.raises(HeadraceError) as raised:
            runner.run(cancelled())
        assert raised.value.code == "query_cancelled"
        wait_until(lambda: running.ended == running.began, "the question has ended")
        wait_until(lambda: not answers_below(tmp_path), "its files are gone")


def test_who_goes_away_while_waiting_ends_the_question(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning()
    with served(broker, tmp_path, running), asking(broker) as (runner, question):

        async def gone() -> None:
            task = asyncio.create_task(question.ask())
            while not running.began:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])

        runner.run(gone())
        wait_until(lambda: running.ended == running.began, "the question has ended")
        wait_until(lambda: not answers_below(tmp_path), "its files are gone")


def test_an_asker_that_died_is_not_waited_for(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning()
    with served(broker, tmp_path, running):
        log = SparkQuestionLog(broker.bootstrap)
        log.start()
        question = SparkQuestion(
            id="q", sql="", tables=(), seconds=60, most_rows=1, most_megabytes=1, alive_until=now_ms() + 1500
        )
        log.ask(question)
        wait_until(lambda: running.ended == ["q"], "the question has ended")
        wait_until(lambda: not answers_below(tmp_path) and not log.all_questions(), "nothing is left")
        log.stop()


def test_an_answer_that_nobody_fetches_is_deleted(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning()
    running.release()
    with served(broker, tmp_path, running):
        log = SparkQuestionLog(broker.bootstrap)
        log.start()
        question = SparkQuestion(
            id="q", sql="", tables=(), seconds=60, most_rows=1, most_megabytes=1, alive_until=now_ms() + 3000
        )
        log.ask(question)
        wait_until(lambda: _state(log, "q") == "DONE", "the answer is there")
        assert len(answers_below(tmp_path)) == 1
        wait_until(lambda: not answers_below(tmp_path), "its files are gone")
        wait_until(lambda: not log.all_answers(), "nothing is left in the topic")
        log.stop()


def test_without_a_pipeline_process_the_error_comes_at_once_and_needs_no_log() -> None:
    with asyncio.Runner() as runner:
        asker = SparkAsker("127.0.0.1:1", lambda: None, SparkLimits())
        with pytest.raises(HeadraceError) as raised:
            runner.run(asker.ask("SELECT 1", [], is_cancelled=lambda: False, on_state=lambda _: None))
        assert raised.value.code == "query_unavailable"
        assert "not ready" in raised.value.message


@pytest.mark.parametrize("successor", ["second", None])
def test_a_pipeline_process_that_ends_in_the_middle_is_an_error(
    broker: EmbeddedBroker, tmp_path: Path, successor: str | None
) -> None:
    running = HeldRunning()
    with served(broker, tmp_path, running), asking(broker) as (runner, question):

        async def ended() -> None:
            task = asyncio.create_task(question.ask())
            while not running.began:
                await asyncio.sleep(0.01)
            question.pipeline[0] = successor
            await task

        with pytest.raises(HeadraceError) as raised:
            runner.run(ended())
        assert raised.value.code == "query_unavailable"
        wait_until(lambda: not answers_below(tmp_path), "its files are gone")


def test_a_restarted_pipeline_process_runs_nothing_twice(broker: EmbeddedBroker, tmp_path: Path) -> None:
    log = SparkQuestionLog(broker.bootstrap)
    log.start()
    begun = SparkQuestion(
        id="begun", sql="", tables=(), seconds=60, most_rows=1, most_megabytes=1, alive_until=lease()
    )
    left = msgspec.structs.replace(begun, id="left", alive_until=now_ms() - 1)
    for question in (begun, left):
        log.ask(question)
    log.say(SparkAnswer(id="begun", state="RUNNING", runner="the former one"))
    wait_until(lambda: log.answer("begun") is not None, "the answer is there")
    stray = tmp_path / "answers" / "stray"
    stray.mkdir(parents=True)
    running = HeldRunning()
    with served(broker, tmp_path, running):
        wait_until(lambda: _state(log, "begun") == "FAILED", "the question has failed")
        wait_until(lambda: "left" not in log.all_questions(), "the old question is gone")
        assert running.began == []
        assert not stray.exists()
    log.stop()


def test_one_runs_at_a_time_and_too_many_are_refused(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning()
    with served(broker, tmp_path, running), asking(broker, waiting=2) as (runner, question):

        async def three() -> list[SparkAnswer]:
            both = [asyncio.create_task(question.ask()) for _ in range(2)]
            while not any("ahead" in state for state in question.states):
                await asyncio.sleep(0.01)
            assert len(running.began) == 1
            with pytest.raises(HeadraceError) as raised:
                await question.ask()
            assert raised.value.code == "too_many_questions"
            running.release()
            return list(await asyncio.gather(*both))

        answers = runner.run(three())
        assert len(running.began) == 2
        assert any("queued" in state for state in question.states)
        for answer in answers:
            runner.run(question.asker.forget(answer.id, answer))


def test_time_and_size_are_limited(broker: EmbeddedBroker, tmp_path: Path) -> None:
    running = HeldRunning(size=3 * 1024 * 1024)
    with served(broker, tmp_path, running):
        with asking(broker, seconds=0.5) as (runner, question), pytest.raises(HeadraceError) as raised:
            runner.run(question.ask())
        assert raised.value.code == "query_timed_out"
        assert "stopped after 0.5 s" in raised.value.message
        with asking(broker, megabytes=1) as (runner, question), pytest.raises(HeadraceError) as raised:
            runner.run(question.ask())
        assert raised.value.code == "answer_too_large"
        assert "more than 1 MB" in raised.value.message
        wait_until(lambda: not answers_below(tmp_path), "the files are gone")


def _state(log: SparkQuestionLog, question_id: str) -> str:
    answer = log.answer(question_id)
    return answer.state if answer is not None else ""
