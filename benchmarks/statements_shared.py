"""What five statements on one topic cost compared with one: CPU time and time, and the same for stock Spark.

Five statements each select the events of one type from a topic with one partition (`WHERE event_type = …`),
so that together they write every event once. With one of them and then with all five running, two loads are
measured: events at a steady rate, for which `CPU at the pace` is the pipeline's CPU time, including
everything else it does; and a burst written at once, for which the CPU time and the time until the last event
is written are measured. The target is for `five / one`: at most 2. The peer is stock Spark with one and five
hand-written queries. Each statement is a separate query with its own checkpoint and position, so the source
is read once for each.

    python benchmarks/statements_shared.py [--pace 1000] [--seconds 10] [--burst 100000] [--rounds 3]
        [--json FILE]
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from confluent_kafka import Producer
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import TYPES, TopicEnd, delete_topic, event, fill, stream_of
from side_by_side.statement_engines import StatementEngine, engines, label, parser
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.client.cluster import Cluster

SOURCE = "shared"
PATIENCE = 120.0
STATEMENT = """CREATE STREAM {name} WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date
  FROM shared WHERE event_type = '{kind}' EMIT CHANGES;"""
COSTS = ("CPU at the pace", "CPU of a burst", "time of a burst")
FIGURES = (
    *(Figure(name=f"{cost}, {count}", unit="s", decimals=2) for cost in COSTS for count in ("one", "five")),
    *(Figure(name=f"{cost}, five / one", unit="times", decimals=2) for cost in COSTS),
)
CLAIMS = tuple(Claim(figure=f"{cost}, five / one", of="subject", bound="at most", target=2) for cost in COSTS)


class Queries:
    """This many queries on one engine, from when each has written a record."""

    def __init__(self, platform: Platform, engine: StatementEngine, label: str, count: int) -> None:
        self._engine = engine
        self._bootstrap = platform.settings.bootstrap
        self._started: list[tuple[str, str]] = []
        self._ends: dict[str, TopicEnd] = {}
        for number in range(count):
            name = f"shared_{label}_{number}"
            Cluster(self._bootstrap).create_topic(name, partitions=1)
            self._ends[name] = TopicEnd(self._bootstrap, name, partitions=1)
            self._started.append((name, self._start(name, TYPES[number])))
        self._wait_until_each_writes()

    def counts(self) -> list[int]:
        return [end.count() for end in self._ends.values()]

    def wait_for(self, wanted: list[int]) -> None:
        wait_until(
            lambda: all(count >= each for count, each in zip(self.counts(), wanted, strict=True)),
            f"{wanted} records have arrived; there are",
            seconds=PATIENCE,
            pause=0.02,
            explain=self.counts,
        )

    def stop(self) -> None:
        for name, query in self._started:
            if isinstance(self._engine, Platform):
                self._engine.run(f"TERMINATE {query};")
                self._engine.run(f"DROP STREAM {name} DELETE TOPIC;")
            else:
                self._engine.stop(query)
                delete_topic(self._bootstrap, name)
            self._ends[name].close()

    def _start(self, name: str, kind: str) -> str:
        if isinstance(self._engine, Platform):
            return self._engine.start_query(STATEMENT.format(name=name, kind=kind))
        self._engine.start(name, source=SOURCE, sink=name, starting="latest", only=kind)
        return name

    def _wait_until_each_writes(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not all(self.counts()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not every query is writing: {self.counts()}")
            paced(self._bootstrap, pace=50, seconds=0.2)
        # Records read twice, or later than the first one, are through once nothing more arrives.
        before: list[int] = []
        while (now := self.counts()) != before:
            before = now
            time.sleep(0.5)


def paced(bootstrap: str, *, pace: float, seconds: float) -> int:
    """Write events at this rate; returns how many."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    began = time.monotonic()
    total = int(pace * seconds)
    for number in range(total):
        time.sleep(max(0.0, began + number / pace - time.monotonic()))
        producer.produce(SOURCE, event(number), key=b"%d" % number)
        producer.poll(0)
    producer.flush(PATIENCE)
    return total


def main() -> None:
    command = parser(__doc__, rounds=3, warm_up=2)
    command.add_argument("--pace", type=float, default=1000, help="events per second of the steady load")
    command.add_argument("--seconds", type=float, default=10, help="length of the steady load")
    command.add_argument("--burst", type=int, default=100_000, help="events in the burst")
    arguments = command.parse_args()
    title = f"one and five statements on a topic: {arguments.pace:,.0f} events/s, then {arguments.burst:,}"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    with ExitStack() as stack:
        platform = stack.enter_context(started_platform())
        bootstrap = platform.settings.bootstrap
        Cluster(bootstrap).create_topic(SOURCE, partitions=1)
        platform.run(stream_of(SOURCE))
        both = stack.enter_context(engines(platform, arguments.only))

        def costs(engine: StatementEngine, name: str, count: int) -> dict[str, float]:
            queries = Queries(platform, engine, name, count)
            share = arguments.burst // len(TYPES)
            before, cpu = queries.counts(), engine.cpu()
            paced(bootstrap, pace=arguments.pace, seconds=arguments.seconds)
            at_pace = (engine.cpu() - cpu).total
            sent = int(arguments.pace * arguments.seconds) // len(TYPES)
            queries.wait_for([each + sent for each in before])
            before, cpu, began = queries.counts(), engine.cpu(), time.monotonic()
            fill(bootstrap, SOURCE, records=arguments.burst, partitions=1)
            queries.wait_for([each + share for each in before])
            burst = (engine.cpu() - cpu).total, time.monotonic() - began
            queries.stop()
            return dict(zip(COSTS, (at_pace, *burst), strict=True))

        def measure(engine: StatementEngine, number: int) -> dict[str, float]:
            round_label = label(engine, number)
            one = costs(engine, f"{round_label}_one", 1)
            five = costs(engine, f"{round_label}_five", len(TYPES))
            return (
                {f"{cost}, one": one[cost] for cost in COSTS}
                | {f"{cost}, five": five[cost] for cost in COSTS}
                | {f"{cost}, five / one": five[cost] / one[cost] for cost in COSTS}
            )

        comparison.run(both, measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
        comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
