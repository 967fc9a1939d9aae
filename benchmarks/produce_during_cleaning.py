"""Produce latency while a compacted topic is being cleaned, and without: does a producer notice?

Kafka's producer-perf-test sends records of 200 bytes at a fixed rate, acks=all, to its own topic, first
alone, then while a compacted topic of a million records on the same broker is cleaned over and over: twice a
second, a thousand new values for random keys and a record that closes a segment make it dirty again, so that
every segment has to be rewritten. The settings that make cleaning start at once are the same for both engines
(`min.cleanable.dirty.ratio`, `log.cleaner.backoff.ms`). The tool's first seconds are warm-up and do not
count. `slowdown` is the latency during cleaning divided by that without; `cleaned` says how many rounds were
completed meanwhile. Target: latency during cleaning no higher than Apache Kafka's.

    python benchmarks/produce_during_cleaning.py [--seconds 15] [--rate 5000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from side_by_side import options, perf_tools
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker

PROPERTIES: Final = {"acks": "all", "linger.ms": "0"}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.ms": "1000",
    "segment.bytes": str(64 << 20),
}
BACKOFF_MS: Final = 100
NUDGE_SECONDS: Final = 0.5
# A record whose timestamp is this much later than the one before closes the segment.
NUDGE_MS: Final = 2000
# How many keys get a new value each time; each segment has some of them.
NUDGED_KEYS: Final = 1000
WARM_UP_SECONDS: Final = 5
ALONE: Final = Figure(name="p99 alone", unit="ms")
CLEANING: Final = Figure(name="p99 during cleaning", unit="ms")
MEAN_ALONE: Final = Figure(name="mean alone", unit="ms", decimals=2)
MEAN_CLEANING: Final = Figure(name="mean during cleaning", unit="ms", decimals=2)
SLOWDOWN: Final = Figure(name="slowdown of the mean", unit="times", decimals=2)
CLEANED: Final = Figure(name="cleaned", unit="rounds")
CLAIMS: Final = (Claim(figure=CLEANING.name, of="ratio", bound="at most", target=1.0),)


class Dirt:
    """A compacted topic of one broker, and what keeps it dirty."""

    def __init__(self, broker: Broker, topic: str, records: int) -> None:
        self._topic = topic
        self._records = records
        self._chance = random.Random(1)
        self._checkpoint = broker.folder / "data" / "cleaner-offset-checkpoint"
        self._timestamp = int(time.time() * 1000) - 86_400_000
        # At its end the client prints what it did not finish, which does not matter here.
        client = {"bootstrap.servers": broker.bootstrap, "log_level": 3}
        admin = AdminClient(client)
        admin.create_topics([NewTopic(topic, 1, 1, config=COMPACTED)])[topic].result(60)
        backoff = ConfigEntry(
            "log.cleaner.backoff.ms", str(BACKOFF_MS), incremental_operation=AlterConfigOpType.SET
        )
        node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[backoff])
        admin.incremental_alter_configs([node])[node].result(60)
        self._producer = Producer({**client, "linger.ms": 20, "queue.buffering.max.messages": 200_000})
        self._produce(records)
        self._flush()

    def _produce(self, records: int) -> None:
        for number in range(records):
            while True:
                try:
                    key = b"key-%012d" % self._chance.randrange(self._records)
                    value = self._chance.randbytes(180)
                    self._producer.produce(self._topic, value, key, timestamp=self._timestamp)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            if not number % 1000:
                self._producer.poll(0)

    def _flush(self) -> None:
        if self._producer.flush(120):
            raise RuntimeError("the compacted topic cannot be filled")

    def _nudge(self) -> None:
        self._produce(NUDGED_KEYS)
        self._timestamp += NUDGE_MS
        self._producer.produce(self._topic, b"again", b"nudge", timestamp=self._timestamp)
        self._flush()

    def _cleaned(self) -> str:
        try:
            return self._checkpoint.read_text(encoding="ascii")
        except FileNotFoundError:
            return ""

    @contextmanager
    def cleaned_all_the_time(self, counted: set[str]) -> Iterator[None]:
        """Inside this context cleaning never stops; what the broker records after each round is collected."""
        over = threading.Event()

        def keep_dirty() -> None:
            while not over.wait(NUDGE_SECONDS):
                self._nudge()
                counted.add(self._cleaned())

        # Starts once the first round is done.
        before = self._cleaned()
        deadline = time.monotonic() + 120
        while self._cleaned() == before:
            if time.monotonic() > deadline:
                raise RuntimeError("nothing is being cleaned")
            self._nudge()
            time.sleep(NUDGE_SECONDS)
        thread = threading.Thread(target=keep_dirty)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def compare(arguments: argparse.Namespace) -> None:
    title = (
        f"produce {arguments.rate:,} records/s of 200 B, acks=all, while {arguments.records:,} are cleaned"
    )
    figures = (ALONE, CLEANING, MEAN_ALONE, MEAN_CLEANING, SLOWDOWN, CLEANED)
    comparison = Comparison(title, figures=figures, claims=CLAIMS)

    def produce(broker: Broker, topic: str) -> perf_tools.ProducerReport:
        perf_tools.create_topic(broker, topic)
        return perf_tools.produce(
            broker,
            topic,
            records=arguments.rate * (arguments.seconds + WARM_UP_SECONDS),
            warm_up_records=arguments.rate * WARM_UP_SECONDS,
            throughput=arguments.rate,
            properties=PROPERTIES,
        )

    def measure(broker: Broker, number: int) -> dict[str, float]:
        alone = produce(broker, f"alone-{number}")
        dirt = Dirt(broker, f"compacted-{number}", arguments.records)
        counted: set[str] = set()
        with dirt.cleaned_all_the_time(counted):
            cleaning = produce(broker, f"cleaning-{number}")
        AdminClient({"bootstrap.servers": broker.bootstrap}).delete_topics([f"compacted-{number}"])
        return {
            ALONE.name: alone.p99_latency,
            CLEANING.name: cleaning.p99_latency,
            MEAN_ALONE.name: alone.mean_latency,
            MEAN_CLEANING.name: cleaning.mean_latency,
            SLOWDOWN.name: cleaning.mean_latency / alone.mean_latency,
            CLEANED.name: len(counted) - 1,
        }

    with options.started_engines(arguments) as engines:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report({**vars(arguments), "producer": PROPERTIES}, arguments.json)


def main() -> None:
    parser = options.parser(__doc__, rounds=3, warm_up=0)
    parser.add_argument("--seconds", type=int, default=15, help="of measured producing (default 15)")
    parser.add_argument("--rate", type=int, default=5000, help="records per second (default 5,000)")
    parser.add_argument("--records", type=int, default=1_000_000, help="to clean (default 1,000,000)")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
