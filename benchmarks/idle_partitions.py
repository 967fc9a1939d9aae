"""What 1,000 idle partitions cost: the broker's CPU over 30 s in which nothing is written.

Each partition has one record. A producer is connected, and a consumer (librdkafka) that waits at the end of
one partition; as a second figure without a target, a consumer that waits at the end of all 1,000, each of
which librdkafka names in every request, twice a second. Target: for the embedded broker, 1 % of a core with
the first.

    python benchmarks/idle_partitions.py [--partitions 1000] [--seconds 30] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from side_by_side import options, perf_tools
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.processes import cpu_time

TOPIC = "idle"
FIGURES = (
    Figure(name="one partition read", unit="% CPU", decimals=2),
    Figure(name="all partitions read", unit="% CPU", decimals=2),
)
CLAIMS = (Claim(figure="one partition read", of="embedded", bound="at most", target=1.0),)


def fill(broker: Broker, partitions: int) -> Producer:
    """Write one record to each partition; returns the producer, which stays connected."""
    perf_tools.create_topic(broker, TOPIC, partitions=partitions)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for partition in range(partitions):
        producer.produce(TOPIC, b"a record", partition=partition)
    if producer.flush(120):
        raise RuntimeError("not all records were acknowledged")
    return producer


def idle(broker: Broker, partitions: int, *, settle: float, seconds: float) -> float:
    """Percent of a core while a consumer waits at the end of this many partitions."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "benchmark", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(TOPIC, partition, OFFSET_END) for partition in range(partitions)])
        _expect_nothing(consumer, settle)
        before, began = cpu_time(broker.pid), time.monotonic()
        _expect_nothing(consumer, seconds)
        return 100 * (cpu_time(broker.pid) - before).total / (time.monotonic() - began)
    finally:
        consumer.close()


def _expect_nothing(consumer: Consumer, seconds: float) -> None:
    message = consumer.poll(seconds)
    if message is not None:
        raise RuntimeError(f"something arrived: {message.error()}, {message.value()!r}")


def main() -> None:
    parser = options.parser(__doc__, rounds=3, warm_up=0)
    parser.add_argument("--partitions", type=int, default=1_000, help="(default 1,000)")
    parser.add_argument("--seconds", type=float, default=30, help="per measurement (default 30)")
    parser.add_argument("--settle", type=float, default=10, help="seconds before it (default 10)")
    arguments = parser.parse_args()
    title = f"CPU of {arguments.partitions:,} idle partitions over {arguments.seconds:.0f} s"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)

    def measure(broker: Broker, _: int) -> dict[str, float]:
        seconds = {"settle": arguments.settle, "seconds": arguments.seconds}
        return {
            "one partition read": idle(broker, 1, **seconds),
            "all partitions read": idle(broker, arguments.partitions, **seconds),
        }

    with options.started_engines(arguments) as engines:
        producers = [fill(broker, arguments.partitions) for broker in engines]
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)
        del producers


if __name__ == "__main__":
    main()
