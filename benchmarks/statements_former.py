"""Statements on two versions of the platform: start, throughput, latency and CPU time, in one run.

Two whole platforms, this one and that of another checkout (`--former`, the command `headrace` of it), are
measured in turn in each round. Four things are measured one after the other:

- `answered`, `first record`: from POST /ksql until its answer, and until the new query's first record;
- `converted`: JSON to Avro from a filled topic with 4 partitions, from the first record written to the last,
  with `CPU of a conversion`, that of the whole platform;
- `p50`, `p99`: from POST /events until readable as Avro, single events at a steady rate;
- `CPU of five`: that of the whole platform for a burst that five statements on one topic filter.

The claims: no worse than the former one, within 10 %.

    python benchmarks/statements_former.py --former ../former/.venv/bin/headrace [--records 500000]
        [--events 1000] [--rate 200] [--burst 100000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import PARTITIONS, TYPES, TopicEnd, Trickle, fill, stream_of
from side_by_side.steady_events import Reader, Sender, percentile
from side_by_side.up_platform import UpPlatform
from side_by_side.versions import NEW, compare_versions, version_parser
from side_by_side.waiting import wait_until

from headrace.client.cluster import Cluster
from headrace.pipeline import marketplace

FIGURES: Final = (
    Figure(name="answered", unit="s", decimals=2),
    Figure(name="first record", unit="s", decimals=2),
    Figure(name="converted", unit="records/s"),
    Figure(name="CPU of a conversion", unit="s", decimals=1),
    Figure(name="p50", unit="ms", decimals=1),
    Figure(name="p99", unit="ms", decimals=1),
    Figure(name="CPU of five", unit="s", decimals=1),
)
CLAIMS: Final = (
    Claim(figure="first record", of="ratio", bound="at most", target=1.1),
    Claim(figure="converted", of="ratio", bound="at least", target=0.9),
    Claim(figure="p50", of="ratio", bound="at most", target=1.1),
    Claim(figure="CPU of five", of="ratio", bound="at most", target=1.1),
)
_PATIENCE: Final = 180.0
_PAUSE: Final = 0.005
_FILLED: Final = "filled"
_TRICKLE: Final = "trickle"
_STATEMENT: Final = """CREATE STREAM {name} WITH (KAFKA_TOPIC = '{name}', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date FROM {source} {where} EMIT CHANGES;"""


class Version:
    """One of the two platforms, with the example's statements and two topics more."""

    def __init__(self, platform: UpPlatform, arguments: argparse.Namespace) -> None:
        self.name = platform.name
        self._platform = platform
        self._arguments = arguments
        settings = platform.settings
        self._bootstrap = settings.bootstrap
        self._avro_topic = f"{settings.events_topic}_avro"
        for topic in (settings.events_topic, self._avro_topic):
            Cluster(self._bootstrap).create_topic(topic, partitions=PARTITIONS)
        platform.run(marketplace.statements(settings.events_topic))
        fill(self._bootstrap, _FILLED, records=arguments.records)
        Cluster(self._bootstrap).create_topic(_TRICKLE, partitions=1)
        platform.run(stream_of(_FILLED))
        platform.run(stream_of(_TRICKLE))
        self._sender = Sender(settings)

    def measure(self, number: int) -> dict[str, float]:
        label = f"{self.name}_{number + 100}"
        return (
            self._start(f"start_{label}")
            | self._conversion(f"out_{label}")
            | self._latency(label)
            | self._five(f"five_{label}")
        )

    def close(self) -> None:
        self._sender.close()

    def _start(self, name: str) -> dict[str, float]:
        with Trickle(self._bootstrap, _TRICKLE):
            began = time.monotonic()
            query = self._platform.run(_STATEMENT.format(name=name, source=_TRICKLE, where=""))
            answered = time.monotonic() - began
            cluster = Cluster(self._bootstrap)
            _wait(lambda: bool(cluster.lookup([name])), name)
            end = TopicEnd(self._bootstrap, name, partitions=1)
            _wait(lambda: end.count() > 0, name)
            first = time.monotonic() - began
            end.close()
        self._drop(name, query)
        return {"answered": answered, "first record": first}

    def _conversion(self, name: str) -> dict[str, float]:
        records = self._arguments.records
        Cluster(self._bootstrap).create_topic(name, partitions=PARTITIONS)
        end = TopicEnd(self._bootstrap, name)
        cpu = self._platform.cpu().total
        statement = _STATEMENT.format(name=name, source=_FILLED, where="")
        query = self._platform.run(statement, **{"auto.offset.reset": "earliest"})
        _wait(lambda: end.count() > 0, name)
        began, already = time.monotonic(), end.count()
        _wait(lambda: end.count() >= records, name)
        result = {
            "converted": (records - already) / (time.monotonic() - began),
            "CPU of a conversion": self._platform.cpu().total - cpu,
        }
        end.close()
        self._drop(name, query)
        return result

    def _latency(self, label: str) -> dict[str, float]:
        rate, events = self._arguments.rate, self._arguments.events
        reader = Reader(self._bootstrap, self._avro_topic)
        try:
            reader.latencies(self._sender.send(f"{label}-warm", int(5 * rate), rate))
            ordered = reader.latencies(self._sender.send(f"{label}-event", events, rate))
        finally:
            reader.stop()
        return {"p50": percentile(ordered, 0.5), "p99": percentile(ordered, 0.99)}

    def _five(self, label: str) -> dict[str, float]:
        names = [f"{label}_{kind}" for kind in TYPES]
        ends, queries = [], []
        for name, kind in zip(names, TYPES, strict=True):
            Cluster(self._bootstrap).create_topic(name, partitions=1)
            ends.append(TopicEnd(self._bootstrap, name, partitions=1))
            where = f"WHERE event_type = '{kind}'"
            queries.append(self._platform.run(_STATEMENT.format(name=name, source=_TRICKLE, where=where)))
        with Trickle(self._bootstrap, _TRICKLE):
            _wait(lambda: all(end.count() for end in ends), label)
        before: list[int] = []
        while (now := [end.count() for end in ends]) != before:
            before = now
            time.sleep(0.5)
        share = self._arguments.burst // len(TYPES)
        cpu = self._platform.cpu().total
        fill(self._bootstrap, _TRICKLE, records=self._arguments.burst, partitions=1)
        wanted = [count + share for count in before]
        _wait(lambda: all(end.count() >= each for end, each in zip(ends, wanted, strict=True)), label)
        used = self._platform.cpu().total - cpu
        for name, query, end in zip(names, queries, ends, strict=True):
            end.close()
            self._drop(name, query)
        return {"CPU of five": used}

    def _drop(self, name: str, query: str | None) -> None:
        self._platform.run(f"TERMINATE {query};")
        self._platform.run(f"DROP STREAM {name} DELETE TOPIC;")


def _wait(is_so: Callable[[], bool], topic: str) -> None:
    wait_until(is_so, f"the records of {topic} have arrived", seconds=_PATIENCE, pause=_PAUSE)


def main() -> None:
    command = version_parser(__doc__, rounds=5)
    command.add_argument("--records", type=int, default=500_000, help="in the filled topic")
    command.add_argument("--events", type=int, default=1000, help="single events in each turn")
    command.add_argument("--rate", type=float, default=200, help="single events per second")
    command.add_argument("--burst", type=int, default=100_000, help="events that five statements filter")
    arguments = command.parse_args()
    title = f"statements on two versions: {arguments.records:,} records, {arguments.rate:,.0f} events/s"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=NEW)
    compare_versions(
        comparison,
        arguments,
        of=lambda platform: Version(platform, arguments),
        measure=lambda version, number: version.measure(number),
    )


if __name__ == "__main__":
    main()
