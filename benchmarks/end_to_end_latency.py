"""From produce until consumed, at 5,000 records per second: p50, p99 and p99.9.

One confluent-kafka (librdkafka) process sends records of 200 bytes at a steady rate, acks=all, idempotent,
and reads them back from the partition it writes to. It does so twice per round: without lingering, so that a
record waits only for the five requests that may be in flight, and with the 5 ms that are the default of
librdkafka and of Kafka's own producer, which both engines then pay. The latency of a record counts from the
moment at which it was *due*, so that a stalled sender cannot hide a stall (no coordinated omission), until
the consumer has it. Target: p99 no higher than Apache Kafka's, in both cases.

    python benchmarks/end_to_end_latency.py [--rate 5000] [--seconds 30] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import struct
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.processes import cpu_time

SIZE = 200
NUMBER = struct.Struct(">q")
PATIENCE = 60.0
LINGER_MS = (0, 5)
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
FIGURES = (
    *(
        Figure(name=f"linger {linger}: {share}", unit="ms", decimals=2)
        for linger in LINGER_MS
        for share in SHARES
    ),
    Figure(name="broker CPU", unit="s", decimals=2),
)
CLAIMS = tuple(
    Claim(figure=f"linger {linger}: p99", of="ratio", bound="at most", target=1.0) for linger in LINGER_MS
)


class Reader:
    """Records when each record, identified by its number, arrives; runs in its own thread."""

    def __init__(self, broker: Broker, topic: str, records: int) -> None:
        self.seen = [0.0] * records
        self.failure: BaseException | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()
        self._consumer.close()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            for expected in range(len(self.seen)):
                message = self._consumer.poll(PATIENCE)
                now = time.monotonic()
                if message is None or message.error() is not None:
                    raise RuntimeError(f"record {expected} did not arrive: {message and message.error()}")
                (number,) = NUMBER.unpack_from(message.value())
                if number != expected:
                    raise RuntimeError(f"record {number} arrived where {expected} was expected")
                self.seen[number] = now
        except BaseException as error:  # raised again in `wait`
            self.failure = error


def latencies(broker: Broker, topic: str, *, records: int, rate: float, linger_ms: float) -> list[float]:
    """In milliseconds, sorted, without the records of the first second, when connections are made."""
    reader = Reader(broker, topic, records)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            # A broker that is not warm yet may have no producer id at first.
            "log_level": 3,
        }
    )
    padding = bytes(SIZE - NUMBER.size)
    began = time.monotonic() + 0.1
    for number in range(records):
        due = began + number / rate
        while (ahead := due - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(min(ahead, 0.0005))
        producer.produce(topic, NUMBER.pack(number) + padding, partition=0)
    if producer.flush(PATIENCE):
        raise RuntimeError("not all records were acknowledged")
    reader.wait()
    return sorted(
        (reader.seen[number] - began - number / rate) * 1000 for number in range(int(rate), records)
    )


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--rate", type=float, default=5_000, help="records per second (default 5,000)")
    parser.add_argument("--seconds", type=float, default=30, help="per measurement (default 30)")
    profiling.add_option(parser)
    arguments = parser.parse_args()

    def measure(broker: Broker, number: int) -> dict[str, float]:
        figures = {}
        records = int(arguments.rate * (arguments.seconds + 1))
        before = cpu_time(broker.pid)
        for linger in LINGER_MS:
            topic = f"latency-{number}-{linger}"
            perf_tools.create_topic(broker, topic)
            ordered = latencies(broker, topic, records=records, rate=arguments.rate, linger_ms=linger)
            for name, share in SHARES.items():
                figures[f"linger {linger}: {name}"] = percentile(ordered, share)
        return {**figures, "broker CPU": (cpu_time(broker.pid) - before).total}

    title = f"produce until consumed at {arguments.rate:,.0f} records/s of {SIZE} B, acks=all"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments) as engines:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)
        profiling.profile(arguments, engines, lambda broker: measure(broker, arguments.rounds + 1))


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    main()
