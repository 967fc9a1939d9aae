"""From a statement to its first record: CREATE STREAM … AS SELECT over REST, on a warm session.

A producer writes an event to the source topic every 5 ms. The clock runs from just before POST /ksql until
the topic of the new query, which does not exist before, has its first record; the query starts at the
source's end, so this is a record of new input. The peer is calling `start` for the same query on a stock
Spark that is already running; its topic exists before. Target: a median of at most 3 s.

    python benchmarks/statement_start.py [--rounds 7] [--json FILE]
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import TopicEnd, Trickle, delete_topic, stream_of
from side_by_side.statement_engines import StatementEngine, engines, label, parser
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.client.cluster import Cluster

SOURCE = "trickle"
EVERY = 0.005
PATIENCE = 60.0
STATEMENT = """CREATE STREAM {name} WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date FROM trickle EMIT CHANGES;"""
FIGURES = (
    Figure(name="answered", unit="s", decimals=2),
    Figure(name="first record", unit="s", decimals=2),
)
CLAIMS = (Claim(figure="first record", of="subject", bound="at most", target=3.0),)


class Starts:
    """Starts of queries on one platform and one stock Spark."""

    def __init__(self, platform: Platform) -> None:
        self._bootstrap = platform.settings.bootstrap
        self._cluster = Cluster(self._bootstrap)

    def measure(self, engine: StatementEngine, number: int) -> dict[str, float]:
        name = f"start_{label(engine, number)}"
        if not isinstance(engine, Platform):
            self._cluster.create_topic(name, partitions=1)
        began = time.monotonic()
        if isinstance(engine, Platform):
            query = engine.start_query(STATEMENT.format(name=name))
        else:
            query = name
            engine.start(query, source=SOURCE, sink=name, starting="latest")
        answered = time.monotonic() - began
        self._wait_for_record(name)
        first = time.monotonic() - began
        if isinstance(engine, Platform):
            engine.run(f"TERMINATE {query};")
            engine.run(f"DROP STREAM {name} DELETE TOPIC;")
        else:
            engine.stop(query)
            delete_topic(self._bootstrap, name)
        return {"answered": answered, "first record": first}

    def _wait_for_record(self, topic: str) -> None:
        _wait(lambda: bool(self._cluster.lookup([topic])), f"{topic} is there")
        end = TopicEnd(self._bootstrap, topic, partitions=1)
        _wait(lambda: end.count() > 0, f"{topic} has a record")
        end.close()


_wait = partial(wait_until, seconds=PATIENCE, pause=EVERY)


def main() -> None:
    command = parser(__doc__, rounds=7)
    arguments = command.parse_args()
    comparison = Comparison(
        "statement until its first record, on a warm session",
        figures=FIGURES,
        claims=CLAIMS,
        subject=HEADRACE,
    )
    with ExitStack() as stack:
        platform = stack.enter_context(started_platform())
        bootstrap = platform.settings.bootstrap
        Cluster(bootstrap).create_topic(SOURCE, partitions=1)
        platform.run(stream_of(SOURCE))
        both = stack.enter_context(engines(platform, arguments.only))
        stack.enter_context(Trickle(bootstrap, SOURCE))
        starts = Starts(platform)
        comparison.run(both, starts.measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
