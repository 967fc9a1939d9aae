"""Consume by assignment: 3 million records of 200 bytes from one partition, with librdkafka.

A topic is filled once, in batches of 128 KiB; each round reads all of it from the start, from the page cache:
with librdkafka as a C program uses it; with confluent-kafka (librdkafka in Python), 1,000 records at a time;
and with a client that looks only at batch headers, which shows what the broker itself can serve. Rounds are
short, so that both engines are read in the same phase of a shared machine, and there are many. The client's
queue is large enough that it never pauses. Target: with librdkafka, 1.3 times the records per second of
Apache Kafka 4.3.1.

How busy the client's threads are shows whether the client is the limit: near 100 % no broker could be faster.
The receiving thread of librdkafka parses what the broker sends, with one request in flight at a time; the
application's thread takes the records. One allocates a record and the other frees it, so with glibc they wait
for one lock; LD_PRELOAD=libjemalloc.so.2 before this command gives the client, but not the brokers, an
allocator without it.

    python benchmarks/consume_assigned.py [--records 3000000] [--rounds 15] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition
from side_by_side import options, perf_tools, profiling
from side_by_side.c_consumer import CConsumer
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.plain_fetch import PlainFetcher
from side_by_side.processes import cpu_time, thread_cpu_seconds

TOPIC = "consume"
BATCH = 1_000
PATIENCE = 30
PRODUCER = {"acks": "all", "linger.ms": "5", "batch.size": str(128 * 1024)}
CONSUMER = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1024 * 1024,
    # How long a full queue pauses the client: one second by default, which would be blamed on the broker.
    "fetch.queue.backoff.ms": 1,
}
FIGURES = (
    Figure(name="librdkafka", unit="records/s"),
    Figure(name="its receiving thread", unit="% busy"),
    Figure(name="its application thread", unit="% busy"),
    Figure(name="broker CPU", unit="s", decimals=2),
    Figure(name="confluent-kafka", unit="records/s"),
    Figure(name="headers only", unit="records/s"),
)
CLAIMS = (Claim(figure="librdkafka", of="ratio", bound="at least", target=1.3),)


def measure(broker: Broker, records: int) -> dict[str, float]:
    before = cpu_time(broker.pid)
    with CConsumer({"bootstrap.servers": broker.bootstrap, **CONSUMER}, TOPIC) as in_c:
        rate, receiving, application = consume(records, lambda _: in_c.take(PATIENCE * 1000))
    used = (cpu_time(broker.pid) - before).total
    in_python = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            **CONSUMER,
        }
    )
    in_python.assign([TopicPartition(TOPIC, 0, 0)])
    rate_in_python, _, _ = consume(
        records, lambda missing: len(in_python.consume(min(BATCH, missing), timeout=PATIENCE))
    )
    in_python.close()
    began = time.monotonic()
    with PlainFetcher(broker.port, TOPIC) as fetcher:
        fetcher.read_until(records)
    values = (rate, receiving, application, used, rate_in_python, records / (time.monotonic() - began))
    return {figure.name: value for figure, value in zip(FIGURES, values, strict=True)}


def consume(records: int, take: Callable[[int], int]) -> tuple[float, float, float]:
    """Records per second from the first ones on, and how busy the client's two threads were, in percent."""
    first = taken = take(1)
    began, receiving, application = _clocks()
    while taken < records:
        count = take(records - taken)
        if count <= 0:
            raise RuntimeError(f"only {taken} of {records} records arrived")
        taken += count
    ended, receiving_after, application_after = _clocks()
    seconds = ended - began
    return (
        (taken - first) / seconds,
        100 * (receiving_after - receiving) / seconds,
        100 * (application_after - application) / seconds,
    )


def _clocks() -> tuple[float, float, float]:
    """The time, and the CPU time so far of librdkafka's receiving thread and of this one."""
    return time.monotonic(), thread_cpu_seconds("rdk:broker"), time.thread_time()


def main() -> None:
    # Reading takes so little time that Apache Kafka needs more rounds to warm up.
    parser = options.parser(__doc__, rounds=15, warm_up=6)
    parser.add_argument("--records", type=int, default=3_000_000, help="in the topic (default 3,000,000)")
    profiling.add_option(parser)
    arguments = parser.parse_args()
    title = f"consume {arguments.records:,} records of 200 B by assignment, batches of 128 KiB"
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
