"""A lake with a table of awkward values, and both engines over it: DuckDB's workers and a real Spark."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from headrace.pipeline.catalogue.spark_questions import SparkAnswer, SparkQuestion, TableAt
from headrace.pipeline.spark.questions.running import QuestionRunning
from headrace.query.desk import Desk
from headrace.query.questions import Question, QuestionLimits
from headrace.query.result_formats import ROWS, unpickled
from headrace.query.spark.desk import SparkDesk

DAY = date(2026, 1, 31)
TEXTS = [
    "ListingView", "Search", "search", "", " padded ", "a'b", "back\\slash", "100%", "under_score",
    "tab\there", "Größe", "é", "日本語", "emoji 🙂", "new\nline", "ab", "ABBA", "%", "_", "\\", "a\\%b", None,
]  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.0, -1.5, 2.5, 3.5, -2.5, 1e16, 1e300, -1e300, 1.005, 2.675, 1e-300, 0.1, float("nan"),
    float("inf"), float("-inf"), 123456.789, -0.5, 0.5, 1234.5, None,
]  # fmt: skip


def awkward_rows() -> pa.Table:
    """22 rows; the last is null everywhere but in its number."""
    size = len(TEXTS)
    whole = [0, 1, -1, 2, -2, 7, -7, 2**31 - 1, -(2**31), 10, 5, 3, -3, 100, 99, 12, 6, 4, 8, 9, 11, None]
    decimals = [
        None if each is None else Decimal(each % 100000).scaleb(-2) * (1 if each >= 0 else -1)
        for each in whole
    ]
    days = [
        None if number == size - 1 else date(2026, 1 + number % 12, 1 + number % 28) for number in range(size)
    ]
    times = [
        None
        if day is None
        else datetime(day.year, day.month, day.day, number, 59 - number, number, 123000 * (number % 2))
        for number, day in enumerate(days)
    ]
    return pa.table(
        {
            "KIND": pa.array(["even" if number % 2 == 0 else "odd" for number in range(size)]),
            "ID": pa.array(range(size), pa.int64()),
            "T": pa.array(TEXTS),
            "N": pa.array(whole, pa.int32()),
            "B": pa.array([None if each is None else each * 1_000_003 for each in whole], pa.int64()),
            "P": pa.array(decimals, pa.decimal128(10, 2)),
            "X": pa.array(DOUBLES, pa.float64()),
            "D": pa.array(days, pa.date32()),
            "AT_UTC": pa.array(
                [None if each is None else each.replace(tzinfo=UTC) for each in times],
                pa.timestamp("us", "UTC"),
            ),
            "AT_LOCAL": pa.array(times, pa.timestamp("us")),
            "YES": pa.array([None if number == size - 1 else number % 3 == 0 for number in range(size)]),
            "DAY_TEXT": pa.array([None if day is None else day.isoformat() for day in days]),
            "S": pa.array([{"a": number, "b": [number]} for number in range(size)]),
        }
    )


def make_lake(lake: Path) -> None:
    rows = awkward_rows()
    write_deltalake(lake / "awkward", rows.slice(0, 9), partition_by=["KIND"])
    write_deltalake(lake / "awkward", rows.slice(9), partition_by=["KIND"], mode="append")
    others = pa.table(
        {"ID": pa.array([1, 2, 2, 40, None], pa.int64()), "NAME": ["one", "two", "zwei", None, "none"]}
    )
    write_deltalake(lake / "others", others)


class DirectAsker:
    """Without the log: Spark in a thread of this process."""

    def __init__(self, running: QuestionRunning, folder: Path) -> None:
        self._running = running
        self._folder = folder

    async def ask(
        self,
        sql: str,
        tables: Sequence[TableAt],
        *,
        is_cancelled: Callable[[], bool],  # noqa: ARG002
        on_state: Callable[[str], None],  # noqa: ARG002
    ) -> SparkAnswer:
        question = SparkQuestion(
            id=uuid.uuid4().hex, sql=sql, tables=tuple(tables), seconds=60, most_rows=1000, most_megabytes=10
        )
        folder = self._folder / question.id
        files, rows = await asyncio.to_thread(self._running.run, question, folder)
        return SparkAnswer(
            id=question.id,
            state="DONE",
            runner="",
            folder=str(folder),
            files=tuple(str(file) for file in files),
            rows=rows,
        )

    async def forget(self, _: str, answer: SparkAnswer | None) -> None:
        if answer is not None:
            shutil.rmtree(answer.folder)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    summary: dict[str, Any]


class TwoEngines:
    def __init__(
        self, runner: asyncio.Runner, desk: Desk, spark: SparkDesk, running: QuestionRunning
    ) -> None:
        self._runner = runner
        self._running = running
        self._desk = desk
        self._spark = spark

    def duckdb(self, sql: str, parameters: Sequence[object] = ()) -> Asked:
        return self._runner.run(self._ask(self._desk, sql, parameters))

    def spark(self, sql: str, parameters: Sequence[object] = ()) -> Asked:
        return self._runner.run(self._ask(self._spark, sql, parameters))

    def run_in_spark(self, text: str, folder: Path) -> None:
        """What somebody wrote to the topic."""
        question = SparkQuestion(id="q", sql=text, tables=(), seconds=60, most_rows=10, most_megabytes=1)
        self._running.run(question, folder)

    async def _ask(self, desk: Desk | SparkDesk, sql: str, parameters: Sequence[object]) -> Asked:
        answer = await desk.ask(Question(sql=sql, parameters=tuple(parameters), answer_format=ROWS))
        try:
            content = b"".join([part async for part in answer.parts()])
        finally:
            answer.close()
        return Asked(
            columns=answer.columns,
            types=answer.types,
            rows=list(unpickled(content)),
            summary=dict(answer.summary or {}),
        )


@contextmanager
def two_engines(spark: SparkSession, folder: Path) -> Iterator[TwoEngines]:
    make_lake(folder / "lake")
    with asyncio.Runner() as runner:
        desk = Desk(
            folder / "lake",
            limits=QuestionLimits(rows=1000),
            slots=2,
            most_waiting=8,
            folder=folder / "workers",
        )
        runner.run(desk.start())
        running = QuestionRunning(spark)
        asker: Any = DirectAsker(running, folder / "answers")
        spark_desk = SparkDesk(desk, asker)
        try:
            yield TwoEngines(runner, desk, spark_desk, running)
        finally:
            runner.run(spark_desk.stop())
            runner.run(desk.stop())
