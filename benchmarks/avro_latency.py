"""From POST until readable as Avro: the example's statements compared with stock Spark Structured Streaming.

The platform runs `examples/marketplace/events.sql`: two statements that convert the events to Avro in
real-time mode. The peer is `stock_spark.py`, with micro-batches as fast as Spark makes them, on the same
topic of the same broker, into its own topic. In each round the two queries run one after the other (PAUSE and
RESUME, stop and start) while single events are posted over HTTP at a steady rate and a Kafka consumer reads
the Avro topic; the first seconds of each turn are warm-up. Latency counts from the moment at which an event
was due. Everything else on the platform keeps running, including the lake's commits. Target: a p50 of at most
10 ms.

    python benchmarks/avro_latency.py [--engine embedded] [--events 2000] [--rate 200] [--rounds 3]
        [--json FILE]
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import PARTITIONS
from side_by_side.statement_engines import StatementEngine, engines, parser
from side_by_side.steady_events import Reader, Sender, percentile
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.client.cluster import Cluster
from headrace.core.settings import Settings
from headrace.pipeline import marketplace

FIGURES = (
    Figure(name="p50", unit="ms", decimals=1),
    Figure(name="p90", unit="ms", decimals=1),
    Figure(name="p99", unit="ms", decimals=1),
    Figure(name="most", unit="ms", decimals=1),
)
CLAIMS = (Claim(figure="p50", of="subject", bound="at most", target=10),)


class Latency:
    """Rounds on one platform and one stock Spark; a query runs only while it is measured."""

    def __init__(self, platform: Platform, query: str, arguments: argparse.Namespace) -> None:
        topic = platform.settings.events_topic
        self._bootstrap = platform.settings.bootstrap
        self._query = query
        self._source = topic
        self._sinks = {True: f"{topic}_avro", False: f"{topic}_avro_stock"}
        for sink in self._sinks.values():
            Cluster(self._bootstrap).create_topic(sink, partitions=PARTITIONS)
        self._arguments = arguments
        self._sender = Sender(platform.settings)

    def measure(self, engine: StatementEngine, number: int) -> dict[str, float]:
        name = f"latency-{number}"
        if isinstance(engine, Platform):
            engine.run(f"RESUME {self._query};")
        else:
            engine.start(name, source=self._source, sink=self._sinks[False], starting="latest")
        reader = Reader(self._bootstrap, self._sinks[isinstance(engine, Platform)])
        prefix = f"{engine.name}-{number}"
        arguments = self._arguments
        try:
            self._wait_until_running(reader, prefix)
            warm = self._sender.send(f"{prefix}-warm", int(arguments.settle * arguments.rate), arguments.rate)
            reader.latencies(warm)
            ordered = reader.latencies(self._sender.send(f"{prefix}-event", arguments.events, arguments.rate))
        finally:
            reader.stop()
            if isinstance(engine, Platform):
                engine.run(f"PAUSE {self._query};")
            else:
                engine.stop(name)
        return {
            "p50": percentile(ordered, 0.5),
            "p90": percentile(ordered, 0.9),
            "p99": percentile(ordered, 0.99),
            "most": ordered[-1],
        }

    def _wait_until_running(self, reader: Reader, prefix: str) -> None:
        """Post events until one comes out: a query that starts at the end may miss the first ones."""
        number = 0
        while not reader.has_any(f"{prefix}-first"):
            number += 1
            self._sender.send(f"{prefix}-first-{number}", 1, 10)

    def close(self) -> None:
        self._sender.close()


def main() -> None:
    command = parser(__doc__, rounds=3)
    command.add_argument("--engine", choices=("embedded", "kafka"), default=Settings().engine)
    command.add_argument("--events", type=int, default=2000, help="in each turn")
    command.add_argument("--rate", type=float, default=200, help="events per second")
    command.add_argument("--settle", type=float, default=5, help="seconds of traffic before each measurement")
    arguments = command.parse_args()
    title = f"POST until readable as Avro, {arguments.rate:,.0f} events per second"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    with ExitStack() as stack:
        platform = stack.enter_context(started_platform(engine=arguments.engine))
        topic = platform.settings.events_topic
        Cluster(platform.settings.bootstrap).create_topic(topic, partitions=PARTITIONS)
        query = platform.start_query(marketplace.statements(topic))
        platform.run(f"PAUSE {query};")
        both = stack.enter_context(engines(platform, arguments.only))
        latency = Latency(platform, query, arguments)
        stack.callback(latency.close)
        comparison.run(both, latency.measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
