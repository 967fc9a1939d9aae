"""Twelve dashboard questions on a month of events, with the newest ones still on their way into the lake.

20,000,000 events over 30 days are in the table's files, 2,000,000 newer ones only in its topic
(`side_by_side/month_of_events.py`). Each question goes through `POST /sql` of a query process with the
default settings, and to its peers, in turn:

- `DuckDB by hand`: DuckDB in this process, warm, on the list of the version's files. It sees no tail.
- `DuckDB and tail`: the same with the tail's rows as an Arrow table in memory, as somebody would have it who
  had read the topic before.
- `Spark SQL`: warm, on the Delta table, `local[2]`. It sees no tail.

Before anything is measured, all must give the same answers: those of the lake alone, and those with the
tail. A figure is the median time of some repetitions, with the rows received; `geometric mean` is that of
the twelve questions, `CPU` what all of them together take of the processor, once each. Then 32 clients ask at
once. `memory` is the highest of the query process with its workers, each page counted once. Targets:
geometric mean at most 1.3 times DuckDB by hand and a tenth of Spark's; one type on one day within 50 ms;
2 GB.

    python benchmarks/dashboard_questions.py [--rows 20000000] [--tail 2000000] [--rounds 5] [--dir DIR]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb
import httpx
import psutil
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from side_by_side.background import Background
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.dashboard import QUESTIONS, TYPE_AND_DAY, DashboardQuestion
from side_by_side.month_of_events import TABLE, Size, make, process
from side_by_side.processes import cpu_time
from side_by_side.steady_events import percentile
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import HEADRACE, free_settings

from headrace.core import settings as configured
from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java
from headrace.pipeline.spark.session import create_session

BY_HAND: Final = "DuckDB by hand"
WITH_TAIL: Final = "DuckDB and tail"
SPARK: Final = "Spark SQL"
MEAN: Final = "geometric mean"
CPU: Final = "CPU"
REPEATS: Final = 5
SPARK_REPEATS: Final = 2
CLIENTS: Final = 32
_GIGABYTE: Final = 1 << 30
_PATIENCE: Final = 300.0
_SETTLED_SECONDS: Final = 30.0
# As `query/workers/limits.py` has it.
_NICENESS: Final = 5

Rows = list[list[Any]]


class Side(Protocol):
    """Somebody who answers."""

    name: str
    repeats: int

    def answer(self, question: DashboardQuestion) -> Rows: ...

    def cpu(self) -> float:
        """Seconds so far."""
        ...


class Headrace:
    name = HEADRACE
    repeats = REPEATS

    def __init__(self, settings: Settings, pid: int) -> None:
        self.url = f"http://{settings.host}:{settings.query_port}/sql"
        self._pid = pid
        self._client = httpx.Client(timeout=60, trust_env=False)

    def answer(self, question: DashboardQuestion, freshness: str = "live") -> Rows:
        rows: Rows = self.ask(question.sql, freshness)["rows"]
        return rows

    def ask(self, sql: str, freshness: str = "live") -> dict[str, Any]:
        answer = self._client.post(self.url, json={"query": sql, "freshness": freshness})
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(answer.text)
        content: dict[str, Any] = answer.json()
        return content

    def cpu(self) -> float:
        """Workers that were replaced count, too."""
        total = 0.0
        query = psutil.Process(self._pid)
        for each in (query, *query.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += sum(each.cpu_times()[:4])
        return total

    def close(self) -> None:
        self._client.close()


class ByHand:
    """`tail` are rows that are not in the files."""

    repeats = REPEATS

    def __init__(self, name: str, files: Sequence[str], tail: pa.Table | None = None) -> None:
        self.name = name
        self._database = duckdb.connect(config={"threads": os.cpu_count() or 1})
        self._database.execute("SET TimeZone = 'UTC'")
        listed = ", ".join(f"'{file}'" for file in files)
        read = f"read_parquet([{listed}], hive_partitioning = true, hive_types_autocast = false)"
        more = ""
        if tail is not None:
            self._database.register("tail", tail)
            more = "UNION ALL BY NAME SELECT * FROM tail"
        self._database.execute(f"CREATE VIEW {TABLE} AS SELECT * FROM {read} {more}")

    def answer(self, question: DashboardQuestion) -> Rows:
        return [list(row) for row in self._database.execute(question.sql).fetchall()]

    def cpu(self) -> float:
        return time.process_time()


class Spark:
    name = SPARK
    repeats = SPARK_REPEATS

    def __init__(self, spark: SparkSession, table: Path) -> None:
        self._spark = spark
        (self._jvm,) = [each.pid for each in psutil.Process().children() if each.name() == "java"]
        spark.read.format("delta").load(str(table)).createOrReplaceTempView(TABLE)

    def answer(self, question: DashboardQuestion) -> Rows:
        return [list(row) for row in self._spark.sql(question.spark).collect()]

    def cpu(self) -> float:
        return time.process_time() + cpu_time(self._jvm).total


class Memory(Background):
    """The highest memory of a process with all it started, each page counted once."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._process = psutil.Process(pid)
        self.highest = 0

    def _run(self) -> None:
        while not self._stopping.wait(0.25):
            total = 0
            for each in (self._process, *self._process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += each.memory_full_info().pss
            self.highest = max(self.highest, total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What many clients at once got."""

    questions: int
    seconds: float
    taken_ms: list[float]

    def __str__(self) -> str:
        ordered = sorted(self.taken_ms)
        return (
            f"{CLIENTS} clients: {self.questions / self.seconds:.1f} questions/s, "
            f"p50 {percentile(ordered, 0.5):,.0f} ms, p99 {percentile(ordered, 0.99):,.0f} ms"
        )


def measure(side: Side) -> dict[str, float]:
    """Milliseconds of each question."""
    figures: dict[str, float] = {}
    cpu = 0.0
    for question in QUESTIONS:
        times = []
        before = side.cpu()
        for _ in range(side.repeats):
            began = time.perf_counter()
            side.answer(question)
            times.append((time.perf_counter() - began) * 1000)
        cpu += (side.cpu() - before) / side.repeats
        figures[question.name] = statistics.median(times)
    return {**figures, MEAN: statistics.geometric_mean(figures.values()), CPU: cpu}


def check(headrace: Headrace, by_hand: ByHand, with_tail: ByHand, spark: Side | None) -> None:
    """Everybody gives the same answers."""
    for question in QUESTIONS:
        expected = by_hand.answer(question)
        if not expected:
            raise RuntimeError(f"{question.name} has no answer")
        found = {HEADRACE: headrace.answer(question, "lake")}
        if spark is not None:
            found[SPARK] = spark.answer(question)
        for name, rows in found.items():
            if difference := question.differ(rows, expected):
                raise RuntimeError(f"{question.name}: {name} and {by_hand.name} differ: {difference}")
        if difference := question.differ(headrace.answer(question), with_tail.answer(question)):
            raise RuntimeError(f"{question.name}: {HEADRACE} and {with_tail.name} differ: {difference}")


def many_clients(headrace: Headrace, seconds: float) -> Load:
    taken: list[float] = []
    deadline = time.monotonic() + seconds

    def ask(number: int) -> None:
        chosen = random.Random(number)
        with httpx.Client(timeout=_PATIENCE, trust_env=False) as client:
            while time.monotonic() < deadline:
                question = chosen.choice(QUESTIONS)
                began = time.perf_counter()
                client.post(headrace.url, json={"query": question.sql}).raise_for_status()
                taken.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(questions=len(taken), seconds=time.perf_counter() - began, taken_ms=taken)


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[tuple[Headrace, int]]:
    """The log, the registry, and the query process."""
    with process(settings, "log"), process(settings, "gateway"), process(settings, "query") as query:
        headrace = Headrace(settings, query.pid)
        yield headrace, query.pid
        headrace.close()


def wait_for_tail(headrace: Headrace, size: Size) -> float:
    """Until an answer has the whole tail; the seconds that took from the first question on."""
    began = time.monotonic()
    found: dict[str, Any] = {}

    def is_there() -> bool:
        found.update(headrace.ask(f"SELECT count(*) FROM {TABLE}"))
        return bool(found["rows"] == [[size.rows + size.tail]])

    wait_until(is_there, "the tail is read", seconds=_PATIENCE, pause=0.2, explain=lambda: str(found))
    return time.monotonic() - began


def figures() -> tuple[Figure, ...]:
    each = [Figure(name=question.name, unit="ms", decimals=1) for question in QUESTIONS]
    return (*each, Figure(name=MEAN, unit="ms", decimals=1), Figure(name=CPU, unit="s", decimals=2))


CLAIMS: Final = (
    Claim(figure=MEAN, of="ratio", peer=BY_HAND, bound="at most", target=1.3),
    Claim(figure=MEAN, of="ratio", peer=WITH_TAIL, bound="at most", target=1.3),
    Claim(figure=MEAN, of="ratio", peer=SPARK, bound="at most", target=0.1),
    Claim(figure=TYPE_AND_DAY, of="subject", bound="at most", target=50),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--tail", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15, help="of the many clients")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out (the table must be there)")
    parser.add_argument("--dir", type=Path, help="keep the generated data here, for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    arguments = parser.parse_args()
    size = Size(rows=arguments.rows, tail=arguments.tail)
    comparison = Comparison(
        f"{len(QUESTIONS)} dashboard questions, {size.rows:,} events and {size.tail:,} in the tail",
        figures=figures(),
        claims=CLAIMS,
        subject=HEADRACE,
    )
    with contextlib.ExitStack() as stack:
        folder = arguments.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        settings = free_settings(folder, spark_memory="3g")
        spark = None if arguments.no_spark else _spark(settings)
        make(settings, size, spark)
        table = settings.lake_dir / TABLE
        files = DeltaTable(table).file_uris()
        tail = pa.concat_tables(part.rows() for part in size.of_tail())
        headrace, pid = stack.enter_context(serving(settings))
        _give_way()
        by_hand, with_tail = ByHand(BY_HAND, files), ByHand(WITH_TAIL, files, tail)
        others: list[Side] = [] if spark is None else [Spark(spark, table)]
        print(f"{len(files)} files; the tail was read in {wait_for_tail(headrace, size):.1f} s", flush=True)
        # A dashboard is asked again and again; what was read a moment ago has been put together by then.
        time.sleep(_SETTLED_SECONDS)
        check(headrace, by_hand, with_tail, others[0] if others else None)
        with Memory(pid) as memory:
            sides: list[Side] = [headrace, *others, with_tail, by_hand]
            comparison.run(sides, lambda side, _: measure(side), rounds=arguments.rounds, warm_up=1)
            comparison.report(vars(arguments), arguments.json)
            print(many_clients(headrace, arguments.seconds))
        print(f"memory: {memory.highest / _GIGABYTE:.2f} GB, target at most 2 GB")
        if spark is not None:
            spark.stop()


def _give_way() -> None:
    """Like the platform's workers, so that whatever else runs here delays all sides alike."""
    for each in (psutil.Process(), *psutil.Process().children()):
        if each.pid == os.getpid() or each.name() == "java":
            for thread in each.threads():
                os.setpriority(os.PRIO_PROCESS, thread.id, _NICENESS)


def _spark(settings: Settings) -> SparkSession:
    cache = configured.load({}, environ=os.environ, folder=Path("/")).cache_dir
    spark = create_session(settings, java_home=find_java().home, jars=Artifacts(cache).spark_jars())
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
