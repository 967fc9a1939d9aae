"""Consume by assignment: 3 million records of 200 bytes from one partition, with librdkafka.

A topic is filled once, in batches of 128 KiB; each round reads all of it from its start, from the page cache,
with a consumer of confluent-kafka (librdkafka) that takes 1,000 at a time. Its queue is so large that it
never pauses to let the application catch up. To reach: 1.3 times the records a second of Apache Kafka 4.3.1.

What limits it shows in the other figures: how busy the two threads of the client are, the one of librdkafka
that receives and takes apart what the broker sends, and the application's (near 100 %: the client limits, no
broker can be faster); "plain fetch" reads the same with a client that looks at nothing but batch headers,
which is what the broker itself can serve.

    python benchmarks/consume_assigned.py [--records 3000000] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Message, TopicPartition
from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.plain_fetch import PlainFetcher
from side_by_side.processes import cpu_time, thread_cpu_seconds

TOPIC = "consume"
BATCH = 1_000
PRODUCER = {"acks": "all", "linger.ms": "5", "batch.size": str(128 * 1024)}
FIGURES = (
    Figure(name="consumed", unit="records/s"),
    Figure(name="receiving thread", unit="% busy"),
    Figure(name="application thread", unit="% busy"),
    Figure(name="broker CPU", unit="s", decimals=2),
    Figure(name="plain fetch", unit="records/s"),
)
CLAIMS = (Claim(figure="consumed", of="ratio", bound="at least", target=1.3),)


def measure(broker: Broker, records: int) -> dict[str, float]:
    before = cpu_time(broker.pid)
    figures = consume(broker, records)
    used = (cpu_time(broker.pid) - before).total
    began = time.monotonic()
    with PlainFetcher(broker.port, TOPIC) as fetcher:
        fetcher.read_until(records)
    return {**figures, "broker CPU": used, "plain fetch": records / (time.monotonic() - began)}


def consume(broker: Broker, records: int) -> dict[str, float]:
    """Records a second from the first record on, and how busy the client's threads were, in percent."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1024 * 1024,
            # One second by default, which would count as the broker's.
            "fetch.queue.backoff.ms": 1,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        taken = len(_checked(consumer.consume(1, timeout=30)))
        began, receiving, application = _clocks()
        while taken < records:
            taken += len(_checked(consumer.consume(min(BATCH, records - taken), timeout=30)))
        ended, receiving_after, application_after = _clocks()
    finally:
        consumer.close()
    seconds = ended - began
    return {
        "consumed": (records - 1) / seconds,
        "receiving thread": 100 * (receiving_after - receiving) / seconds,
        "application thread": 100 * (application_after - application) / seconds,
    }


def _clocks() -> tuple[float, float, float]:
    """Now, and the CPU time so far of librdkafka's receiving thread and of this one."""
    return time.monotonic(), thread_cpu_seconds("rdk:broker"), time.thread_time()


def _checked(messages: list[Message]) -> list[Message]:
    if not messages:
        raise RuntimeError("nothing to read for 30 s")
    if messages[0].error() is not None or messages[-1].error() is not None:
        raise RuntimeError(f"could not read: {messages[0].error()}, {messages[-1].error()}")
    return messages


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--records", type=int, default=3_000_000, help="in the topic (default 3,000,000)")
    profiling.add_option(parser)
    arguments = parser.parse_args()
    title = f"consume {arguments.records:,} records of 200 B by assignment, librdkafka, batches of 128 KiB"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments) as engines:
        for broker in engines:
            perf_tools.create_topic(broker, TOPIC)
            perf_tools.produce(broker, TOPIC, records=arguments.records, properties=PRODUCER)
        comparison.run(
            engines,
            lambda broker, _: measure(broker, arguments.records),
            rounds=arguments.rounds,
            warm_up=arguments.warm_up,
        )
        comparison.report(vars(arguments), arguments.json)
        profiling.profile(arguments, engines, lambda broker: measure(broker, arguments.records))


if __name__ == "__main__":
    main()
