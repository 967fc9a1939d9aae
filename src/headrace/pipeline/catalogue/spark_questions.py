"""Questions for Spark through the log: how the query process asks the pipeline process, and what it hears.

The compacted topic `_spark_questions` has two records for a question: `question/<id>`, which only the asking
side writes, and `answer/<id>`, which only the running side writes. The asking side keeps `alive_until` ahead
of the time while it waits, and removes its record when it has read the answer or no longer wants it; the
running side then stops the question, deletes its files and removes its own record.

Crash behaviour: a question whose asker has died ends when `alive_until` has passed. A process that finds a
question that another one had begun answers FAILED: nothing is run twice. A question is an order to read, and
a lost one costs its answer only; so nobody waits here for the log longer than for the answer.
"""

from __future__ import annotations

import logging
import time
from typing import Final, Literal, TypeVar

import msgspec

from headrace.client.followed import CompactedLog
from headrace.client.reading import Record

QUESTIONS_TOPIC: Final = "_spark_questions"
# Renewed every few seconds; a question without a sign of its asker for so long is stopped.
LEASE_SECONDS: Final = 12.0
# The running side says at least so often that it is at it.
SIGN_SECONDS: Final = 2.0
_TIMEOUT_SECONDS: Final = 10.0
_QUESTION: Final = b"question/"
_ANSWER: Final = b"answer/"

_Kind = TypeVar("_Kind")
State = Literal["QUEUED", "RUNNING", "DONE", "FAILED"]

_log = logging.getLogger(__name__)


class TableAt(msgspec.Struct, frozen=True, kw_only=True):
    """A table at one version. `location` is as Spark names it, `table_id` the id in Delta's metadata."""

    name: str
    location: str
    table_id: str
    version: int


class SparkQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """`sql` is Spark's, over the tables by their names. `alive_until` is in milliseconds since 1970."""

    id: str
    sql: str
    tables: tuple[TableAt, ...]
    seconds: float
    most_rows: int
    most_megabytes: int
    alive_until: int = 0


class SparkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`runner` is the process that has it. `files` are Parquet files of this machine, in their order."""

    id: str
    state: State
    runner: str
    # A sign: it grows.
    signs: int = 0
    # What is being done, for people.
    progress: str = ""
    error: str = ""
    message: str = ""
    remedy: str = ""
    folder: str = ""
    files: tuple[str, ...] = ()
    rows: int = 0


class SparkQuestionLog:
    """Both sides of the topic. All methods may be called from any thread."""

    def __init__(self, bootstrap: str) -> None:
        self.questions: dict[str, SparkQuestion] = {}
        self.answers: dict[str, SparkAnswer] = {}
        self._log = CompactedLog(
            bootstrap, QUESTIONS_TOPIC, self._fold, holds="questions for Spark", timeout=_TIMEOUT_SECONDS
        )

    def start(self) -> None:
        """Read what there is, and follow it. Raises log_unavailable."""
        self._log.start()

    def stop(self) -> None:
        self._log.stop()

    def all_questions(self) -> dict[str, SparkQuestion]:
        with self._log.progress:
            return dict(self.questions)

    def all_answers(self) -> dict[str, SparkAnswer]:
        with self._log.progress:
            return dict(self.answers)

    def answer(self, question_id: str) -> SparkAnswer | None:
        with self._log.progress:
            return self.answers.get(question_id)

    def ask(self, question: SparkQuestion) -> bool:
        """False if it may not have been written. Raises log_unavailable."""
        return self._log.append(_QUESTION + question.id.encode(), msgspec.json.encode(question))

    def renew(self, question: SparkQuestion) -> None:
        self._log.append_later(_QUESTION + question.id.encode(), msgspec.json.encode(question))

    def withdraw(self, question_id: str) -> None:
        self._log.append_later(_QUESTION + question_id.encode(), None)

    def say(self, answer: SparkAnswer) -> None:
        self._log.append_later(_ANSWER + answer.id.encode(), msgspec.json.encode(answer))

    def forget_answer(self, question_id: str) -> None:
        self._log.append_later(_ANSWER + question_id.encode(), None)

    def _fold(self, record: Record) -> None:
        key, value = record.key() or b"", record.value()
        try:
            if key.startswith(_QUESTION):
                _put(self.questions, key.removeprefix(_QUESTION), value, SparkQuestion)
            elif key.startswith(_ANSWER):
                _put(self.answers, key.removeprefix(_ANSWER), value, SparkAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("A record of %s is no question and no answer: %s", QUESTIONS_TOPIC, error)


def lease() -> int:
    """`alive_until`, from now."""
    return now_ms() + int(LEASE_SECONDS * 1000)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _put(known: dict[str, _Kind], key: bytes, value: bytes | None, kind: type[_Kind]) -> None:
    if value is None:
        known.pop(key.decode(), None)
    else:
        known[key.decode()] = msgspec.json.decode(value, type=kind)
