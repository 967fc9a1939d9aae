"""Transactions of 100 records of 200 bytes each, one after the other, acks=all.

With confluent-kafka (librdkafka): begin, 100 records to one partition, commit, repeat. And with the copier
from Kafka's own system tests (`TransactionalMessageCopier`, the Java client): it reads 100 records, writes
them to another topic in batches of 512 bytes, adds its offsets to the transaction, commits. Target: with
both, 1.3 times the records per second of Apache Kafka 4.3.1.

    python benchmarks/transactions.py [--transactions 500] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

import statistics
import time

from confluent_kafka import Message, Producer
from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker
from side_by_side.processes import cpu_time

RECORDS = 100
SIZE = 200
SOURCE = "source"
TARGET = "target"
PATIENCE = 60.0
FILLING = {"acks": "all", "linger.ms": "5"}
FIGURES = (
    Figure(name="librdkafka", unit="records/s"),
    Figure(name="median of a transaction", unit="ms", decimals=2),
    Figure(name="broker CPU", unit="s", decimals=2),
    Figure(name="Kafka's copier", unit="records/s"),
)
CLAIMS = (
    Claim(figure="librdkafka", of="ratio", bound="at least", target=1.3),
    Claim(figure="Kafka's copier", of="ratio", bound="at least", target=1.3),
)


def transact(broker: Broker, name: str, transactions: int) -> list[float]:
    """How many seconds each took, from its beginning until it is known to be committed."""
    failures: list[object] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "on_delivery": delivered,
            # A broker that is not warm yet may have no coordinator at first.
            "log_level": 3,
        }
    )
    producer.init_transactions(PATIENCE)
    value = bytes(SIZE)
    seconds = []
    for _ in range(transactions):
        began = time.monotonic()
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(TARGET, value, partition=0)
        producer.commit_transaction(PATIENCE)
        seconds.append(time.monotonic() - began)
    if failures:
        raise RuntimeError(f"{len(failures)} records were not written: {failures[0]}")
    return seconds


def measure(broker: Broker, number: int, transactions: int) -> dict[str, float]:
    before = cpu_time(broker.pid)
    seconds = transact(broker, f"librdkafka-{number}", transactions)
    used = (cpu_time(broker.pid) - before).total
    copied = perf_tools.copy_in_transactions(
        broker,
        SOURCE,
        TARGET,
        name=f"copier-{number}",
        records=transactions * RECORDS,
        records_each=RECORDS,
    )
    values = (transactions * RECORDS / sum(seconds), 1000 * statistics.median(seconds), used, copied)
    return {figure.name: value for figure, value in zip(FIGURES, values, strict=True)}


def main() -> None:
    # After some rounds Apache Kafka's coordinator is three times as fast as in its first.
    parser = options.parser(__doc__, warm_up=4)
    parser.add_argument("--transactions", type=int, default=500, help="per round and client (default 500)")
    profiling.add_option(parser)
    arguments = parser.parse_args()
    title = f"{arguments.transactions:,} transactions of {RECORDS} records of {SIZE} B"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments) as engines:
        for broker in engines:
            for topic in (SOURCE, TARGET):
                perf_tools.create_topic(broker, topic)
            records = arguments.transactions * RECORDS
            perf_tools.produce(broker, SOURCE, records=records, record_size=SIZE, properties=FILLING)
        comparison.run(
            engines,
            lambda broker, number: measure(broker, number, arguments.transactions),
            rounds=arguments.rounds,
            warm_up=arguments.warm_up,
        )
        comparison.report(vars(arguments), arguments.json)
        profiling.profile(
            arguments, engines, lambda broker: measure(broker, arguments.rounds + 1, arguments.transactions)
        )


if __name__ == "__main__":
    main()
