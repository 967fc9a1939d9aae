"""A full Avro topic into the lake: a connector compared with hand-written stock Spark Structured Streaming.

A topic with 4 partitions is filled with 3 million Avro events (about 110 bytes) of 5 types on 3 days. In each
round both engines in turn read it from its beginning into a new Delta table, partitioned by type and date: a
connector posted over REST, and `stock_spark.py` (`from_avro`, `writeStream.format("delta").partitionBy(…)`,
defaults). The clock runs from the request, or the call to `start`, until a version of the table has all rows.
Both JVMs run all the time, each idle while the other works, and rounds before the measured ones warm them up.
`memory` is the highest resident size of the engine's processes seen during the round. Targets: 1.5 times the
rate of stock Spark, at most 2 GB.

The connector does more: rows have their coordinates and commits the positions, files are synced before the
commit, and batches are bounded, so that rows can be read long before the end.

    python benchmarks/lake_throughput.py [--records 3000000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import fastavro
import httpx
import psutil
from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from side_by_side.background import Background
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import PARTITIONS, TYPES
from side_by_side.statement_engines import StatementEngine, engines, label, parser
from side_by_side.stock_spark import AVRO_FIELDS, AVRO_SCHEMA
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.client.cluster import Cluster

TOPIC: Final = "filled"
DISTINCT: Final = 6_000
DAYS: Final = 3
PATIENCE: Final = 600.0
LOOK: Final = 0.2
FIGURES: Final = (
    Figure(name="rows", unit="rows/s"),
    Figure(name="first rows", unit="s", decimals=1),
    Figure(name="CPU", unit="s", decimals=1),
    Figure(name="memory", unit="MiB"),
    Figure(name="files", unit=""),
)
CLAIMS: Final = (
    Claim(figure="rows", of="ratio", bound="at least", target=1.5),
    Claim(figure="memory", of="subject", bound="at most", target=2048),
)


class Memory(Background):
    """The highest resident size of a process and its children, in MiB."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._process = psutil.Process(pid)
        self.highest = 0.0
        self.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.5):
            size = 0
            for each in (self._process, *self._process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    size += each.memory_info().rss
            self.highest = max(self.highest, size / 2**20)


def event(number: int) -> dict[str, str]:
    day = f"2026-03-{14 + number // len(TYPES) % DAYS:02}"
    values = (
        *(TYPES[number % len(TYPES)], "1", f"user-{number:08}", f"listing-{number * 7919 % 100_000:06}"),
        *(f"{day}T09:26:53Z", "web" if number % 3 else "app", day),
    )
    return dict(zip(AVRO_FIELDS, values, strict=True))


def encoded_values(platform: Platform) -> list[bytes]:
    """Register the schema; the values of some thousand different events."""
    settings = platform.settings
    url = f"http://{settings.host}:{settings.registry_port}/subjects/{TOPIC}-value/versions"
    answer = httpx.post(url, json={"schema": AVRO_SCHEMA}, trust_env=False)
    answer.raise_for_status()
    prefix = b"\x00" + int(answer.json()["id"]).to_bytes(4)
    schema = fastavro.parse_schema(json.loads(AVRO_SCHEMA))
    values = []
    for number in range(DISTINCT):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, event(number))
        values.append(prefix + body.getvalue())
    return values


def fill(platform: Platform, records: int) -> None:
    """Write the events, round-robin over the partitions."""
    settings, values = platform.settings, encoded_values(platform)
    Cluster(settings.bootstrap).create_topic(TOPIC, partitions=PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, values[number % DISTINCT], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"cannot write {left} events")


def connector(folder: str) -> dict[str, Any]:
    return {
        "connector.class": "headrace.LakeSinkConnector",
        "topics": TOPIC,
        "topics.dir": folder,
        "flush.size": "1000000",
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "EVENT_TYPE,SERVER_DATE",
    }


class Filling:
    """Rounds on one platform and one stock Spark."""

    def __init__(self, platform: Platform, records: int, folder: Path) -> None:
        self._platform = platform
        self._records = records
        self._folder = folder
        settings = platform.settings
        self._connect = httpx.Client(
            base_url=f"http://{settings.host}:{settings.connect_port}", timeout=60, trust_env=False
        )

    def measure(self, engine: StatementEngine, number: int) -> dict[str, float]:
        name = f"table_{label(engine, number)}"
        settings = self._platform.settings
        memory = Memory(engine.pid())
        before = engine.cpu()
        began = time.monotonic()
        if isinstance(engine, Platform):
            table = settings.lake_dir / name / TOPIC
            self._connect.put(f"/connectors/{name}/config", json=connector(name)).raise_for_status()
        else:
            table = self._folder / name
            engine.start_table(name, source=TOPIC, table=table)
        first, last = self._wait(table, began)
        memory.stop()
        result = {
            "rows": self._records / (last - began),
            "first rows": first - began,
            "CPU": (engine.cpu() - before).total,
            "memory": memory.highest,
            "files": float(len(DeltaTable(str(table)).file_uris())),
        }
        if isinstance(engine, Platform):
            self._connect.delete(f"/connectors/{name}").raise_for_status()
        else:
            engine.stop(name)
        shutil.rmtree(table, ignore_errors=True)
        return result

    def _wait(self, table: Path, began: float) -> tuple[float, float]:
        first: float | None = None
        while True:
            count = _rows(table)
            now = time.monotonic()
            if first is None and count:
                first = now
            if count >= self._records:
                assert count == self._records, f"{count} rows of {self._records} records"
                assert first is not None
                return first, now
            if now > began + PATIENCE:
                raise RuntimeError(f"{count} of {self._records} rows arrived in {PATIENCE} s")
            time.sleep(LOOK)


def _rows(table: Path) -> int:
    try:
        return DeltaTable(str(table)).count()
    except TableNotFoundError:
        return 0


def main() -> None:
    command = parser(__doc__, rounds=3, warm_up=1)
    command.add_argument("--records", type=int, default=3_000_000)
    arguments = command.parse_args()
    title = f"{arguments.records:,} Avro records of a filled topic of {PARTITIONS} partitions into the lake"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    with ExitStack() as stack:
        platform = stack.enter_context(started_platform())
        folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        fill(platform, arguments.records)
        both = stack.enter_context(engines(platform, arguments.only))
        filling = Filling(platform, arguments.records, folder)
        comparison.run(both, filling.measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
