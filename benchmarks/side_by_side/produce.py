"""What the produce benchmarks share: in each round, Kafka's tool fills a new partition."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from side_by_side import options, perf_tools, profiling
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import Broker

RATE: Final = Figure(name="produced", unit="records/s")
MEAN_LATENCY: Final = Figure(name="mean latency", unit="ms", decimals=1)
CPU: Final = (
    Figure(name="broker CPU", unit="s", decimals=2),
    Figure(name="client CPU", unit="s", decimals=2),
)


def parser(description: str | None, *, records: int) -> argparse.ArgumentParser:
    result = options.parser(description)
    result.add_argument("--records", type=int, default=records, help=f"per round (default {records:,})")
    result.add_argument("--record-size", type=int, default=200, help="bytes of a record (default 200)")
    profiling.add_option(result)
    return result


def compare(
    title: str,
    arguments: argparse.Namespace,
    *,
    properties: Mapping[str, str],
    claims: Sequence[Claim],
    payload_file: Path | None = None,
) -> None:
    """Rounds of both engines with these producer settings, and the verdict."""
    comparison = Comparison(title, figures=(RATE, MEAN_LATENCY, *CPU), claims=claims)

    def measure(broker: Broker, number: int) -> dict[str, float]:
        topic = f"produce-{number}"
        perf_tools.create_topic(broker, topic)
        report = perf_tools.produce(
            broker,
            topic,
            records=arguments.records,
            record_size=arguments.record_size,
            payload_file=payload_file,
            properties=properties,
        )
        return {
            RATE.name: report.rate,
            MEAN_LATENCY.name: report.mean_latency,
            "broker CPU": report.broker_cpu,
            "client CPU": report.client_cpu,
        }

    with options.started_engines(arguments) as engines:
        comparison.run(engines, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report({**vars(arguments), "producer": dict(properties)}, arguments.json)
        profiling.profile(arguments, engines, lambda broker: measure(broker, arguments.rounds + 1))
