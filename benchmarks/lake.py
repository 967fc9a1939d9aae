"""The lake: how many events per second become rows, and how long after its POST an event is a row.

Two whole platforms, this one and that of another checkout (`--former`, the command `headrace` of it), are
measured in turn in each round. First single events are posted at a steady rate, and a reader follows the
Delta log: an event is a row when the commit with it exists; its latency counts from when it was due. Then a
burst is written to the topic of events at once, and the time counts from its first record until the commit
that has the last one. CPU is that of the whole platform during the burst. Both go the whole way: JSON to
Avro, and Avro to the lake. The claims: no slower than the former one, within 10 %.

    python benchmarks/lake.py --former ../former/.venv/bin/headrace [--events 1000] [--rate 100]
        [--burst 200000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import duckdb
from side_by_side.background import Background
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.json_events import PARTITIONS, fill
from side_by_side.steady_events import Sender, percentile
from side_by_side.up_platform import UpPlatform
from side_by_side.versions import NEW, compare_versions, version_parser
from side_by_side.waiting import wait_until

from headrace.client.cluster import Cluster
from headrace.pipeline import marketplace

FIGURES: Final = (
    Figure(name="p50", unit="ms"),
    Figure(name="p90", unit="ms"),
    Figure(name="p99", unit="ms"),
    Figure(name="burst", unit="events/s"),
    Figure(name="burst CPU", unit="s", decimals=1),
)
CLAIMS: Final = (
    Claim(figure="p50", of="ratio", bound="at most", target=1.1),
    Claim(figure="p99", of="ratio", bound="at most", target=1.1),
    Claim(figure="burst", of="ratio", bound="at least", target=0.9),
)
_PATIENCE: Final = 300.0


class Rows(Background):
    """Follows the Delta log of a table: when each row became part of it, and how many there are."""

    def __init__(self, table: Path) -> None:
        super().__init__()
        self._table = table
        self._version = 0
        self.count = 0
        # Only while it is on: reading the rows of a burst would disturb it.
        self.reads_users = True
        self.seen: dict[str, float] = {}
        self.start()

    def wait_for(self, count: int) -> float:
        """When there were so many rows."""
        self._wait(lambda: self.count >= count, f"{count} rows")
        return time.monotonic()

    def latencies(self, due: dict[str, float]) -> list[float]:
        """In milliseconds, sorted."""
        self._wait(lambda: due.keys() <= self.seen.keys(), f"{len(due)} events")
        return sorted((self.seen[user] - moment) * 1000 for user, moment in due.items())

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(
            is_so,
            f"{what} have arrived; rows:",
            seconds=_PATIENCE,
            pause=0.005,
            explain=lambda: self.count,
        )

    def _run(self) -> None:
        while not self._stopping.is_set():
            file = self._table / "_delta_log" / f"{self._version:020d}.json"
            if not file.exists():
                time.sleep(0.005)
                continue
            now = time.monotonic()
            actions = [json.loads(line) for line in file.read_text().splitlines()]
            adds = [action["add"] for action in actions if "add" in action]
            if self.reads_users and adds:
                files = [str(self._table / unquote(add["path"])) for add in adds]
                users = duckdb.read_parquet(files).project("USER_ID").fetchall()
                self.seen |= dict.fromkeys((user for (user,) in users), now)
            self.count += sum(json.loads(add["stats"])["numRecords"] for add in adds)
            self._version += 1


class Lake:
    """One platform with the example's statements, and its table."""

    def __init__(self, platform: UpPlatform) -> None:
        self.name = platform.name
        self.platform = platform
        settings = platform.settings
        Cluster(settings.bootstrap).create_topic(settings.events_topic, partitions=PARTITIONS)
        platform.run(marketplace.statements(settings.events_topic))
        platform.connect(marketplace.connector(settings.events_topic))
        self.rows = Rows(settings.lake_dir / settings.events_topic)
        self.sender = Sender(settings)

    def measure(
        self, number: int, *, events: int, rate: float, burst: int, settle: float
    ) -> dict[str, float]:
        prefix = f"{self.name}-{number}"
        self.rows.reads_users = True
        warm = self.sender.send(f"{prefix}-warm", int(settle * rate), rate)
        self.rows.latencies(warm)
        ordered = self.rows.latencies(self.sender.send(f"{prefix}-event", events, rate))
        self.rows.reads_users = False
        wanted = self.rows.count + burst
        cpu, began = self.platform.cpu().total, time.monotonic()
        fill(self.platform.settings.bootstrap, self.platform.settings.events_topic, records=burst)
        took = self.rows.wait_for(wanted) - began
        return {
            "p50": percentile(ordered, 0.5),
            "p90": percentile(ordered, 0.9),
            "p99": percentile(ordered, 0.99),
            "burst": burst / took,
            "burst CPU": self.platform.cpu().total - cpu,
        }

    def close(self) -> None:
        self.rows.stop()
        self.sender.close()


def main() -> None:
    command = version_parser(__doc__, rounds=3)
    command.add_argument("--events", type=int, default=1000, help="single events in each turn")
    command.add_argument("--rate", type=float, default=100, help="single events per second")
    command.add_argument("--settle", type=float, default=5, help="seconds of traffic before each measurement")
    command.add_argument("--burst", type=int, default=200_000, help="events in the burst")
    arguments = command.parse_args()
    title = f"lake: {arguments.rate:,.0f} events per second, then {arguments.burst:,} at once"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=NEW)
    compare_versions(
        comparison,
        arguments,
        of=Lake,
        measure=lambda lake, number: lake.measure(
            number,
            events=arguments.events,
            rate=arguments.rate,
            burst=arguments.burst,
            settle=arguments.settle,
        ),
    )


if __name__ == "__main__":
    main()
