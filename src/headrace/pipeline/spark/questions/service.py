"""The running side of questions for Spark: takes them from the log one at a time, and sees to their ends.

A thread of its own looks every fifth of a second at the questions that are asked: it starts the oldest,
stops the one that runs if its time is up, its answer grows too large, or nobody wants it any more, gives
signs to those who wait, and deletes the files of answers that were read. Invariants: one question runs at a
time; a question that is stopped is answered only once its thread has ended; what another process had begun
fails, and is not run again; the folder of answers has nothing but those of questions that are asked, also
after a crash (it is emptied at the start). A failure here affects no query of the platform.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, Self

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.spark_questions import (
    SIGN_SECONDS,
    SparkAnswer,
    SparkQuestion,
    SparkQuestionLog,
    now_ms,
)
from headrace.pipeline.spark.questions.running import too_large

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 5.0
_MEGABYTE: Final = 1024 * 1024


class Runs(Protocol):
    """`QuestionRunning`."""

    def run(self, question: SparkQuestion, folder: Path) -> tuple[list[Path], int]: ...

    def cancel(self, question_id: str) -> None: ...

    def progress(self, question_id: str) -> str: ...


@dataclass(slots=True, kw_only=True)
class _Current:
    """The question that runs. `stopped` says why it was told to end."""

    question: SparkQuestion
    folder: Path
    began: float
    thread: threading.Thread = field(default_factory=threading.Thread)
    stopped: HeadraceError | None = None
    outcome: tuple[list[Path], int] | HeadraceError | None = None


class SparkQuestions:
    """From its `with` to the end of it. `folder` belongs to this object."""

    def __init__(self, log: SparkQuestionLog, running: Runs, folder: Path) -> None:
        self._log = log
        self._running = running
        self._folder = folder
        self._runner = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._current: _Current | None = None
        # What was said last, and when.
        self._said: dict[str, SparkAnswer] = {}
        self._said_at: dict[str, float] = {}
        self._thread = threading.Thread(target=self._keep_looking, name="spark-questions", daemon=True)

    def __enter__(self) -> Self:
        """Raises log_unavailable."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._log.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        current = self._current
        if current is not None:
            self._stop(current, _ended())
            current.thread.join(_STOP_SECONDS)
        self._log.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _keep_looking(self) -> None:
        failed = ""
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.look()
                failed = ""
            except Exception as error:
                # The log or Spark may be in trouble: the next look finds out.
                if str(error) != failed:
                    _log.exception("A look at the questions for Spark failed.")
                failed = str(error)

    def look(self) -> None:
        """One look at what is asked."""
        now = now_ms()
        asked = {key: each for key, each in self._log.all_questions().items() if each.alive_until > now}
        self._clean_up(asked)
        if self._current is not None:
            self._watch(self._current, asked)
        waiting = [each for key, each in asked.items() if key not in self._said]
        for question in waiting:
            before = self._log.answer(question.id)
            if before is not None and before.runner != self._runner and before.state != "QUEUED":
                # Another process had begun with it.
                self._say(_failed(question, self._runner, _ended()))
            else:
                self._say(SparkAnswer(id=question.id, state="QUEUED", runner=self._runner))
        if self._current is None:
            self._begin_next(asked)
        self._give_signs()

    def _begin_next(self, asked: dict[str, SparkQuestion]) -> None:
        for question_id, said in self._said.items():
            if said.state == "QUEUED" and question_id in asked:
                break
        else:
            return
        question = asked[question_id]
        current = _Current(question=question, folder=self._folder / uuid.uuid4().hex, began=time.monotonic())
        self._folder.mkdir(parents=True, exist_ok=True)
        self._current = current
        self._say(
            SparkAnswer(id=question.id, state="RUNNING", runner=self._runner, progress="Spark plans it")
        )
        current.thread = threading.Thread(
            target=self._run, args=(current,), name="spark-question", daemon=True
        )
        current.thread.start()

    def _run(self, current: _Current) -> None:
        try:
            current.outcome = self._running.run(current.question, current.folder)
        except HeadraceError as error:
            current.outcome = error
        except Exception as error:
            _log.exception("A question for Spark failed.")
            current.outcome = HeadraceError("pipeline_failed", f"The question failed: {error}.")

    def _watch(self, current: _Current, asked: dict[str, SparkQuestion]) -> None:
        question = current.question
        if current.thread.is_alive():
            if current.stopped is None:
                current.stopped = self._reason_to_stop(current, asked)
            if current.stopped is not None:
                self._running.cancel(question.id)
            return
        self._current = None
        outcome = current.stopped or current.outcome
        if isinstance(outcome, tuple):
            files, rows = outcome
            answer = SparkAnswer(
                id=question.id,
                state="DONE",
                runner=self._runner,
                folder=str(current.folder),
                files=tuple(str(file) for file in files),
                rows=rows,
            )
        else:
            shutil.rmtree(current.folder, ignore_errors=True)
            answer = _failed(question, self._runner, outcome or _ended())
        if question.id in asked:
            self._say(answer)
        else:
            shutil.rmtree(current.folder, ignore_errors=True)
            self._forget(question.id)

    def _reason_to_stop(self, current: _Current, asked: dict[str, SparkQuestion]) -> HeadraceError | None:
        question = current.question
        if question.id not in asked:
            return HeadraceError("query_cancelled", "The query was cancelled.")
        if time.monotonic() - current.began > question.seconds:
            return HeadraceError(
                "query_timed_out",
                f"The query was stopped after {question.seconds:g} s in Spark.",
                remedy="Narrow it, or raise the setting `query_spark_seconds`.",
            )
        if _size(current.folder) > question.most_megabytes * _MEGABYTE:
            return too_large(question)
        return None

    def _stop(self, current: _Current, reason: HeadraceError) -> None:
        current.stopped = current.stopped or reason
        if current.thread.is_alive():
            self._running.cancel(current.question.id)
        else:
            self._say(_failed(current.question, self._runner, reason))

    def _clean_up(self, asked: dict[str, SparkQuestion]) -> None:
        """What was asked by somebody who has the answer, or is gone."""
        for question_id in self._log.all_questions().keys() - asked.keys():
            self._log.withdraw(question_id)
        running = self._current.question.id if self._current is not None else ""
        for question_id in (self._log.all_answers().keys() | self._said.keys()) - asked.keys() - {running}:
            said = self._said.get(question_id)
            if said is not None and said.folder:
                shutil.rmtree(said.folder, ignore_errors=True)
            self._forget(question_id)

    def _forget(self, question_id: str) -> None:
        self._said.pop(question_id, None)
        self._said_at.pop(question_id, None)
        self._log.forget_answer(question_id)

    def _say(self, answer: SparkAnswer) -> None:
        self._said[answer.id] = answer
        self._said_at[answer.id] = time.monotonic()
        self._log.say(answer)

    def _give_signs(self) -> None:
        ahead = 0
        for question_id, said in list(self._said.items()):
            if said.state not in ("QUEUED", "RUNNING"):
                continue
            if time.monotonic() - self._said_at[question_id] > SIGN_SECONDS:
                running = said.state == "RUNNING"
                progress = self._running.progress(question_id) if running else f"{ahead} ahead of it"
                self._say(_signed(said, progress))
            ahead += 1


def _signed(said: SparkAnswer, progress: str) -> SparkAnswer:
    return SparkAnswer(
        id=said.id, state=said.state, runner=said.runner, signs=said.signs + 1, progress=progress
    )


def _failed(question: SparkQuestion, runner: str, error: HeadraceError) -> SparkAnswer:
    return SparkAnswer(
        id=question.id,
        state="FAILED",
        runner=runner,
        error=error.code,
        message=error.message,
        remedy=error.remedy,
    )


def _ended() -> HeadraceError:
    return HeadraceError(
        "query_unavailable",
        "The pipeline process ended while it ran the question.",
        remedy="It restarts by itself: ask again in a moment.",
    )


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            # Spark moves files when a task ends.
            continue
    return total
