"""JSON to Avro from a full topic: a statement compared with hand-written stock Spark Structured Streaming.

A topic with 4 partitions is filled with a million events (about 190 bytes of JSON) beforehand. In each round
both engines in turn run a new query that reads it from its beginning: `CREATE STREAM … AS SELECT *,
SUBSTRING(…)` over REST, and `stock_spark.py`. Both write to the embedded broker; the clock for `converted`
runs from the first record in the output topic to the last, that for `start included` from the statement or
the call to `start`. Both JVMs run all the time, each idle while the other works. Target: 1.5 times the rate
of stock Spark.

The statement does more: dead letters, and three headers with each record's coordinates, time and time of
posting.

    python benchmarks/statement_throughput.py [--records 1000000] [--rounds 7] [--json FILE]
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack

from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import PARTITIONS, TopicEnd, delete_topic, fill, stream_of
from side_by_side.statement_engines import StatementEngine, engines, label, parser
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.client.cluster import Cluster

SOURCE = "filled"
PATIENCE = 180.0
STATEMENT = """CREATE STREAM {name} WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date FROM filled EMIT CHANGES;"""
FIGURES = (
    Figure(name="converted", unit="records/s"),
    Figure(name="start included", unit="records/s"),
    Figure(name="CPU of the pipeline", unit="s", decimals=2),
    Figure(name="CPU of the broker", unit="s", decimals=2),
)
CLAIMS = (Claim(figure="converted", of="ratio", bound="at least", target=1.5),)


class Throughput:
    """Rounds on one platform and one stock Spark."""

    def __init__(self, platform: Platform, records: int, *, verbose: bool) -> None:
        self._platform = platform
        self._records = records
        self._verbose = verbose

    def measure(self, engine: StatementEngine, number: int) -> dict[str, float]:
        name = f"out_{label(engine, number)}"
        platform = self._platform
        bootstrap = platform.settings.bootstrap
        Cluster(bootstrap).create_topic(name, partitions=PARTITIONS)
        end = TopicEnd(bootstrap, name)
        end.count()
        broker_before, before = platform.cpu("log"), engine.cpu()
        began = time.monotonic()
        if isinstance(engine, Platform):
            properties = {"auto.offset.reset": "earliest"}
            query = engine.start_query(STATEMENT.format(name=name, topic=name), **properties)
        else:
            query = name
            engine.start(query, source=SOURCE, sink=name, starting="earliest")
        first, first_count, last = self._wait(end, began)
        result = {
            "converted": (self._records - first_count) / (last - first),
            "start included": self._records / (last - began),
            "CPU of the pipeline": (engine.cpu() - before).total,
            "CPU of the broker": (platform.cpu("log") - broker_before).total,
        }
        if isinstance(engine, Platform):
            engine.run(f"TERMINATE {query};")
            engine.run(f"DROP STREAM {name} DELETE TOPIC;")
        else:
            progress = engine.stop(query)
            if self._verbose:
                print(json.dumps([each["durationMs"] for each in progress]))
            delete_topic(bootstrap, name)
        end.close()
        return result

    def _wait(self, end: TopicEnd, began: float) -> tuple[float, int, float]:
        """When records started to arrive and how many there were, and when all had arrived."""
        first: tuple[float, int] | None = None
        while True:
            count = end.count()
            now = time.monotonic()
            if first is None and count:
                first = (now, count)
            if count >= self._records:
                assert first is not None
                return (*first, now)
            if now > began + PATIENCE:
                raise RuntimeError(f"{count} of {self._records} records arrived in {PATIENCE} s")
            time.sleep(0.05)


def main() -> None:
    command = parser(__doc__, rounds=7, warm_up=2)
    command.add_argument("--records", type=int, default=1_000_000)
    command.add_argument("--mode", choices=("real-time", "micro-batch"), default="real-time")
    command.add_argument("--verbose", action="store_true", help="show what Spark reports about its batches")
    arguments = command.parse_args()
    title = f"JSON to Avro of {arguments.records:,} records in a filled topic of {PARTITIONS} partitions"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    with ExitStack() as stack:
        platform = stack.enter_context(started_platform(pipeline_mode=arguments.mode))
        fill(platform.settings.bootstrap, SOURCE, records=arguments.records)
        platform.run(stream_of(SOURCE))
        both = stack.enter_context(engines(platform, arguments.only))
        throughput = Throughput(platform, arguments.records, verbose=arguments.verbose)
        comparison.run(both, throughput.measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
