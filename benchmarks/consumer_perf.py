"""Kafka's own consumer-perf-test as the only member of a group: 3 million records of 200 bytes.

A topic is filled once, in batches of 128 KiB; in each round the tool joins a new group, gets the partition
and reads all of it from the page cache. The rate is the tool's own `fetch.nMsg.sec`, which counts from when
it has its partition; the rate including the join is shown as well (on neither broker does a new group wait
for members). Target: 1.3 times the records per second of Apache Kafka 4.3.1.

    python benchmarks/consumer_perf.py [--records 3000000] [--rounds 5] [--json FILE] [--profile FILE]
"""

from __future__ import annotations

from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker

TOPIC = "consume"
PRODUCER = {"acks": "all", "linger.ms": "5", "batch.size": str(128 * 1024)}
# Otherwise each round would spend three seconds waiting for other members to join.
PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
FIGURES = (
    Figure(name="consumed", unit="records/s"),
    Figure(name="joining included", unit="records/s"),
    Figure(name="joining", unit="ms"),
    Figure(name="broker CPU", unit="s", decimals=2),
    Figure(name="client CPU", unit="s", decimals=2),
)
CLAIMS = (Claim(figure="consumed", of="ratio", bound="at least", target=1.3),)


def measure(broker: Broker, number: int, records: int) -> dict[str, float]:
    report = perf_tools.consume(broker, TOPIC, group=f"group-{number}", records=records)
    values = (report.rate, report.whole_rate, report.joining_ms, report.broker_cpu, report.client_cpu)
    return {figure.name: value for figure, value in zip(FIGURES, values, strict=True)}


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--records", type=int, default=3_000_000, help="in the topic (default 3,000,000)")
    profiling.add_option(parser)
    arguments = parser.parse_args()
    title = f"kafka-consumer-perf-test, {arguments.records:,} records of 200 B, batches of 128 KiB"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS)
    with options.started_engines(arguments, PROPERTIES) as engines:
        for broker in engines:
            perf_tools.create_topic(broker, TOPIC)
            perf_tools.produce(broker, TOPIC, records=arguments.records, properties=PRODUCER)
        comparison.run(
            engines,
            lambda broker, number: measure(broker, number, arguments.records),
            rounds=arguments.rounds,
            warm_up=arguments.warm_up,
        )
        comparison.report({**vars(arguments), "broker": PROPERTIES}, arguments.json)
        profiling.profile(
            arguments, engines, lambda broker: measure(broker, arguments.rounds + 1, arguments.records)
        )


if __name__ == "__main__":
    main()
