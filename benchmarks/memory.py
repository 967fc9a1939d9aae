"""Memory under load: how much RAM the broker uses while it is written to and read from at full speed.

Kafka's producer-perf-test fills a topic (3 million records of 200 bytes, acks=all, 128 KiB) while a consumer
(librdkafka) reads it; the broker's VmRSS is read from /proc every 50 ms. Target: the embedded broker's peak
at most an eighth of Apache Kafka's. Apache Kafka has the heap that its start script gives it; `--kafka-heap
256m` shows it with less.

    python benchmarks/memory.py [--records 3000000] [--rounds 5] [--kafka-heap 1g] [--json FILE]
"""

from __future__ import annotations

import statistics
import threading

from confluent_kafka import Consumer, TopicPartition
from side_by_side import options, perf_tools
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.processes import MIB, MemorySampler

PRODUCER = {"acks": "all", "linger.ms": "5", "batch.size": str(128 * 1024)}
PATIENCE = 60.0
FIGURES = (
    Figure(name="peak RSS", unit="MiB", decimals=1),
    Figure(name="median RSS", unit="MiB", decimals=1),
    Figure(name="produced meanwhile", unit="records/s"),
)
CLAIMS = (Claim(figure="peak RSS", of="ratio", bound="at most", target=1 / 8),)


class ReadAlong(threading.Thread):
    """Reads this many records of the topic from its start."""

    def __init__(self, broker: Broker, topic: str, records: int) -> None:
        super().__init__(daemon=True)
        self._records = records
        self.taken = 0
        self._consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "benchmark", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def run(self) -> None:
        while self.taken < self._records:
            messages = self._consumer.consume(min(1000, self._records - self.taken), timeout=PATIENCE)
            if not messages:
                break
            self.taken += sum(message.error() is None for message in messages)
        self._consumer.close()


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--records", type=int, default=3_000_000, help="per round (default 3,000,000)")
    arguments = parser.parse_args()

    def measure(broker: Broker, number: int) -> dict[str, float]:
        topic = f"memory-{number}"
        perf_tools.create_topic(broker, topic)
        reader = ReadAlong(broker, topic, arguments.records)
        with MemorySampler(broker.pid) as memory:
            reader.start()
            report = perf_tools.produce(broker, topic, records=arguments.records, properties=PRODUCER)
            reader.join()
        if reader.taken != arguments.records:
            raise RuntimeError(f"only {reader.taken} of {arguments.records} records were read")
        return {
            "peak RSS": max(memory.samples) / MIB,
            "median RSS": statistics.median(memory.samples) / MIB,
            "produced meanwhile": report.rate,
        }

    title = f"memory while {arguments.records:,} records of 200 B are produced and consumed"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments) as engines:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
