"""Compacting 5 M keyed records: MB of log cleaned per second, compared with Apache Kafka's own cleaner.

A partition is filled once, in batches of 16 KiB as a producer sends them: keys of 16 bytes, values of 50 to
150, each key about ten times, in random order. In each round both cleaners get a copy of it. Ours runs as in
the broker: in a separate process, whose start is included, and with the segments put in place at the end.
Kafka's `Cleaner` runs in a JVM with the flags of its server, which stays up across rounds. Both sync what
they write. The figure is the size of the log divided by the time until it is clean. Target: at least Apache
Kafka's.

With `--compression` the batches are compressed; with `--keys` there are more keys, each occurring less
often.

    python benchmarks/compaction.py [--records 5000000] [--keys 500000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from side_by_side import options
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import EMBEDDED
from side_by_side.kafka_cleaner import KafkaCleaner
from side_by_side.processes import cpu_time

from headrace.log.compaction.cleaner import Cleaner
from headrace.log.compaction.cleaning_process import CleaningProcess, RoundFailed
from headrace.log.config import LogConfig
from headrace.log.folder.data_folder import DataFolder
from headrace.wire.compression import CODEC_NAMES
from headrace.wire.records import Record, build_batch

TOPIC: Final = "compacted"
BATCH_RECORDS: Final = 125
VALUES: Final = (50, 151)
CONFIG: Final = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=100 << 20)
FIGURES: Final = (
    Figure(name="cleaned", unit="MB/s", decimals=1),
    Figure(name="CPU", unit="s", decimals=2),
    Figure(name="left", unit="records"),
)
CLAIMS: Final = (Claim(figure="cleaned", of="ratio", bound="at least", target=1.0),)


def fill(folder: Path, records: int, keys: int, codec: int) -> None:
    """A log in which all segments but the last, empty one are closed."""
    chance = random.Random(1)
    now = int(time.time() * 1000)
    with DataFolder.open(folder, config_of=lambda _: CONFIG) as logs:
        log = logs.create_topic(TOPIC, 1, {}, CONFIG).partitions[0]
        for first in range(0, records, BATCH_RECORDS):
            batch = build_batch(
                [
                    Record(
                        number,
                        number // 25,
                        b"key-%012d" % chance.randrange(keys),
                        chance.randbytes(chance.randrange(*VALUES)),
                    )
                    for number in range(min(BATCH_RECORDS, records - first))
                ],
                base_timestamp=now,
                compression=codec,
            )
            log.append(batch, now_ms=now)
        log.roll(now_ms=now)


class Ours:
    """The embedded broker's cleaner."""

    name = EMBEDDED

    def clean(self, folder: Path) -> tuple[float, float]:
        """Seconds until the log is clean, and seconds of CPU."""
        with DataFolder.open(folder, config_of=lambda _: CONFIG) as logs:
            now_ms = int(time.time() * 1000)
            cleaner = Cleaner(logs)
            before = time.process_time()
            began = time.monotonic()
            job = cleaner.begin(now_ms)
            if job is None:
                raise RuntimeError("there is nothing to clean")
            process = CleaningProcess(job.task)
            while cleaner.busy:
                wait([process])
                for said in process.read():
                    if isinstance(said, RoundFailed):
                        raise RuntimeError(said.reason)
                    cleaner.take(job, said, now_ms=now_ms)
            seconds = time.monotonic() - began
            cpu = cpu_time(process.pid).total + time.process_time() - before
            process.stop()
            if cleaner.begin(now_ms) is not None:
                raise RuntimeError("there are more keys than one round has memory for: use fewer")
        return seconds, cpu

    def close(self) -> None: ...


class Kafkas:
    """Apache Kafka's cleaner."""

    name = "Apache Kafka"

    def __init__(self, heap: str) -> None:
        self._jvm = KafkaCleaner(heap)

    def clean(self, folder: Path) -> tuple[float, float]:
        log = self._jvm.open(folder / f"{TOPIC}-0", CONFIG.segment_bytes)
        before = self._jvm.cpu_seconds()
        end: int = log.logEndOffset()
        began = time.monotonic()
        reached = self._jvm.clean(log, end, int(time.time() * 1000))
        seconds = time.monotonic() - began
        cpu = self._jvm.cpu_seconds() - before
        log.close()
        if reached != end:
            raise RuntimeError(f"Apache Kafka cleaned up to {reached} of {end}")
        return seconds, cpu

    def close(self) -> None:
        self._jvm.close()


def records_left(folder: Path) -> int:
    """How many records there are, according to the batches of the closed segments."""
    count = 0
    for path in sorted((folder / f"{TOPIC}-0").glob("*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            count += int.from_bytes(data[position + 57 : position + 61], "big")
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return count


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    filled = folder / "filled"
    print("filling the log …", flush=True)
    fill(filled, arguments.records, arguments.keys, CODEC_NAMES.index(arguments.compression))
    size = sum(path.stat().st_size for path in filled.rglob("*.log"))
    title = f"compacting {arguments.records:,} records of {arguments.keys:,} keys, {size / 1e6:,.0f} MB"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    engines: list[Any] = []
    if arguments.only != "kafka":
        engines.append(Ours())
    if arguments.only != "embedded":
        engines.append(Kafkas(arguments.kafka_heap))

    def measure(engine: Any, _number: int) -> dict[str, float]:
        copy = folder / "copy"
        shutil.copytree(filled, copy)
        seconds, cpu = engine.clean(copy)
        left = records_left(copy)
        shutil.rmtree(copy)
        return {"cleaned": size / 1e6 / seconds, "CPU": cpu, "left": left}

    try:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)
    finally:
        for engine in engines:
            engine.close()


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="in the log (default 5,000,000)")
    parser.add_argument("--keys", type=int, default=500_000, help="distinct keys (default 500,000)")
    parser.add_argument("--compression", choices=CODEC_NAMES, default="none", help="of the batches")
    arguments = parser.parse_args()
    if arguments.dir is not None:
        arguments.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-", dir=arguments.dir))
    try:
        compare(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
