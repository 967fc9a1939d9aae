"""A steady stream into the lake: 20,000 Avro records a second for five minutes, with and without merging.

A topic with 4 partitions gets records at a steady rate, and a connector writes them to a table by type and
date. Beside it, the example's statements convert events to Avro, which are posted over HTTP at 50 a second.
Each side is a platform of its own: `headrace` merges small files in the background, as by default, its peer
does not (`lake_maintenance=off`). After `--settle` seconds of traffic the measurement begins:

- `visible`: from the acknowledgement of a record until a version of the table has it, by counts: the table is
  looked at ten times a second, and the n-th row is taken for the n-th record.
- `lag growth`: the median lag in records in the last fifth of the time, less that in the first fifth.
- `memory growth`: likewise of the resident size of the pipeline process and its JVM.
- `CPU`: of the pipeline process and its JVM. Its ratio is the cost of merging.
- `Avro p99`: from POST until readable in the Avro topic.

Targets: visible p99 at most 5 s, merging at most 1.15 times the CPU, Avro p99 at most 50 ms.

    python benchmarks/lake_sustained.py [--rate 20000] [--seconds 300] [--settle 40] [--rounds 1]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import bisect
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import psutil
from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from lake_throughput import TOPIC, connector, encoded_values
from side_by_side.background import Background
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import PARTITIONS
from side_by_side.steady_events import Reader, Sender, percentile
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.client.cluster import Cluster
from headrace.pipeline import marketplace

UNMERGED: Final = "without merging"
POSTS: Final = 50
TICK: Final = 0.02
LOOK: Final = 0.1
FIGURES: Final = (
    Figure(name="visible p50", unit="s", decimals=2),
    Figure(name="visible p99", unit="s", decimals=2),
    Figure(name="lag growth", unit="records"),
    Figure(name="memory", unit="MiB"),
    Figure(name="memory growth", unit="MiB"),
    Figure(name="CPU", unit="s", decimals=1),
    Figure(name="files", unit=""),
    Figure(name="Avro p50", unit="ms", decimals=1),
    Figure(name="Avro p99", unit="ms", decimals=1),
    Figure(name="sent", unit="records/s"),
)
CLAIMS: Final = (
    Claim(figure="visible p99", of="subject", bound="at most", target=5),
    Claim(figure="CPU", of="ratio", bound="at most", target=1.15),
    Claim(figure="Avro p99", of="subject", bound="at most", target=50),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    name: str
    maintenance: str


class Stream(Background):
    """Sends records at a steady rate. `times[n]` is when so many were acknowledged as `counts[n]` says."""

    def __init__(self, bootstrap: str, values: list[bytes], rate: int) -> None:
        super().__init__()
        self._values = values
        self._rate = rate
        self._acknowledged = 0
        self.times: list[float] = [0.0]
        self.counts: list[int] = [0]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 10,
                "batch.size": 200_000,
                "on_delivery": self._delivered,
            }
        )

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            raise RuntimeError(f"a record was refused: {error}")
        self._acknowledged += 1

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stopping.wait(TICK):
            due = int((time.monotonic() - began) * self._rate)
            for number in range(sent, due):
                self._producer.produce(
                    TOPIC, self._values[number % len(self._values)], partition=number % PARTITIONS
                )
            sent = due
            self._producer.poll(0)
            self.times.append(time.monotonic())
            self.counts.append(self._acknowledged)
        if left := self._producer.flush(30):
            raise RuntimeError(f"{left} records were not acknowledged")


class Table(Background):
    """Looks at the table: how many rows it has, how long they took, how much the pipeline needs."""

    def __init__(self, folder: Path, stream: Stream, pid: int) -> None:
        super().__init__()
        self._folder = folder
        self._stream = stream
        self._process = psutil.Process(pid)
        self.rows = 0
        # With the time of each look.
        self.lags: list[int] = []
        self.memory: list[float] = []
        self._ages: list[tuple[int, float]] = []

    def _run(self) -> None:
        while not self._stopping.wait(LOOK):
            self.look()

    def look(self) -> None:
        with suppress(TableNotFoundError):
            rows = DeltaTable(str(self._folder)).count()
            now = time.monotonic()
            if rows > self.rows:
                self._ages += self._arrived(self.rows, rows, now)
                self.rows = rows
        self.lags.append(self._stream.acknowledged - self.rows)
        self.memory.append(_resident(self._process))

    def newest(self) -> int:
        """How many rows there are now."""
        self.look()
        return self.rows

    def forget(self) -> None:
        """Count from here."""
        self.lags.clear()
        self.memory.clear()
        self._ages.clear()

    def percentile(self, share: float) -> float:
        """Of the ages of the rows when they became visible."""
        ordered = sorted(self._ages, key=lambda each: each[1])
        total, wanted = 0, share * sum(count for count, _ in ordered)
        for count, age in ordered:
            total += count
            if total >= wanted:
                return age
        raise RuntimeError("no row arrived")

    def _arrived(self, first: int, end: int, now: float) -> list[tuple[int, float]]:
        """How many rows of which age arrived."""
        counts, times = self._stream.counts, self._stream.times
        found: list[tuple[int, float]] = []
        at = bisect.bisect_right(counts, first)
        while first < end and at < len(counts):
            until = min(counts[at], end)
            found.append((until - first, now - times[at]))
            first, at = until, at + 1
        return found


def _resident(process: psutil.Process) -> float:
    size = 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            size += each.memory_info().rss
    return size / 2**20


def _growth(values: list[float] | list[int]) -> float:
    fifth = max(len(values) // 5, 1)
    return statistics.median(values[-fifth:]) - statistics.median(values[:fifth])


def measure(side: Side, arguments: argparse.Namespace) -> dict[str, float]:
    with started_platform(lake_maintenance=side.maintenance) as platform:
        settings = platform.settings
        values = encoded_values(platform)
        Cluster(settings.bootstrap).create_topic(TOPIC, partitions=PARTITIONS)
        Cluster(settings.bootstrap).create_topic(settings.events_topic, partitions=PARTITIONS)
        platform.start_query(marketplace.statements(settings.events_topic))
        url = f"http://{settings.host}:{settings.connect_port}/connectors/sustained/config"
        httpx.put(url, json=connector("sustained"), timeout=60, trust_env=False).raise_for_status()
        sender = Sender(settings)
        reader = Reader(settings.bootstrap, f"{settings.events_topic}_avro")
        try:
            return _measured(
                platform, Stream(settings.bootstrap, values, arguments.rate), arguments, sender, reader
            )
        finally:
            reader.stop()
            sender.close()


def _measured(
    platform: Platform, stream: Stream, arguments: argparse.Namespace, sender: Sender, reader: Reader
) -> dict[str, float]:
    folder = platform.settings.lake_dir / "sustained" / TOPIC
    table = Table(folder, stream, platform.pid())
    with stream:
        wait_until(folder.exists, "the table is there", seconds=120, pause=LOOK)
        with table:
            wait_until(lambda: table.rows > 0, "rows arrive", seconds=120, pause=LOOK)
            reader.latencies(sender.send("warm", int(arguments.settle * POSTS), POSTS))
            before, first, began = platform.cpu(), stream.acknowledged, time.monotonic()
            table.forget()
            latencies = reader.latencies(sender.send("event", int(arguments.seconds * POSTS), POSTS))
            took, sent = time.monotonic() - began, stream.acknowledged - first
            cpu = (platform.cpu() - before).total
    wait_until(lambda: table.newest() >= stream.acknowledged, "all rows", seconds=120, pause=LOOK)
    if table.rows != stream.acknowledged:
        raise RuntimeError(f"{table.rows} rows of {stream.acknowledged} records")
    return {
        "visible p50": table.percentile(0.5),
        "visible p99": table.percentile(0.99),
        "lag growth": _growth(table.lags),
        "memory": max(table.memory),
        "memory growth": _growth(table.memory),
        "CPU": cpu,
        "files": float(len(DeltaTable(str(folder)).file_uris())),
        "Avro p50": percentile(latencies, 0.5),
        "Avro p99": percentile(latencies, 0.99),
        "sent": sent / took,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=20_000, help="records per second")
    parser.add_argument("--seconds", type=float, default=300, help="length of a measurement")
    parser.add_argument("--settle", type=float, default=40, help="seconds of traffic before it")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=(HEADRACE, UNMERGED), help="measure one side")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    arguments = parser.parse_args()
    sides = [Side(name=HEADRACE, maintenance="on"), Side(name=UNMERGED, maintenance="off")]
    sides = [side for side in sides if arguments.only in (None, side.name)]
    title = f"{arguments.rate:,} records/s into the lake for {arguments.seconds:g} s"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    comparison.run(sides, lambda side, _: measure(side, arguments), rounds=arguments.rounds, warm_up=0)
    comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
