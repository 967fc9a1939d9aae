"""How far the lake falls behind while many statements run: 20 on 2 cores, at 1,000 events per second.

The example's pipeline runs (`events` with four partitions, to Avro in real time, and into the lake), and
besides it 20 further statements on `events`, two thirds of them without state, one third aggregates. First
they all run with little traffic, until each has written something and nothing is behind. Then events are
posted over HTTP at the full rate for `--seconds`, and every half second the rows of the lake's newest version
are compared with the receipts so far: `lake behind` is how long ago the first event was posted that is not in
the lake yet. `Avro behind` and `statements behind` are the same for the topic `events_avro` and for that
statement without state that is furthest behind, by the records in their topics. `posted` is the rate that was
reached. Target: the lake is at most 10 s behind, all the time.

`--former FOLDER`: a checkout of an earlier commit with a `.venv` of its own, as the peer in the same run.

    python benchmarks/fair_turns.py [--statements 20] [--rate 1000] [--seconds 60] [--rounds 1]
        [--former FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import bisect
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from side_by_side.background import Background
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import HEADRACE, started_platform

from headrace.assembly.demo import make_pipeline
from headrace.assembly.demo_traffic import Traffic, marketplace_traffic
from headrace.client.cluster import Cluster

FORMER: Final = "former"
# While the statements start.
LITTLE: Final = 20
PATIENCE: Final = 900.0
LOOK: Final = 0.5
NOTE: Final = 0.05
FIGURES: Final = (
    *(
        Figure(name=f"{what} behind, {share}", unit="s", decimals=1)
        for what in ("lake", "Avro", "statements")
        for share in ("worst", "p50")
    ),
    Figure(name="posted", unit="events/s"),
)
CLAIMS: Final = (Claim(figure="lake behind, worst", of="subject", bound="at most", target=10),)
COPY: Final = "CREATE STREAM fair_{n} WITH (VALUE_FORMAT = 'AVRO') AS SELECT * FROM events EMIT CHANGES;"
FILTER: Final = """CREATE STREAM fair_{n} AS SELECT user_key, user_id, event_type, server_time FROM events
  WHERE server_time <> 'never' EMIT CHANGES;"""
COUNT: Final = """CREATE TABLE fair_{n} AS SELECT event_type, COUNT(*) AS events FROM events
  GROUP BY event_type EMIT CHANGES;"""
# Those that write every event once, and others.
STATEMENTS: Final = (COPY, FILTER, COUNT)
COPIES: Final = (COPY, FILTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two that are compared."""

    name: str
    folder: Path


class Posted(Background):
    """How many events have a receipt, and since when. Notes it in a thread of its own."""

    def __init__(self, traffics: list[Traffic]) -> None:
        super().__init__()
        self._traffics = traffics
        self._times: list[float] = []
        self._counts: list[int] = []
        self.start()

    @property
    def count(self) -> int:
        return sum(traffic.posted for traffic in self._traffics)

    def behind(self, arrived: int) -> float:
        """For how long the first event that has not arrived has been waiting."""
        now = time.monotonic()
        first = bisect.bisect_right(self._counts, arrived)
        return now - self._times[first] if first < len(self._times) else 0.0

    def _run(self) -> None:
        while not self._stopping.wait(NOTE):
            self._times.append(time.monotonic())
            self._counts.append(self.count)


def measure_one(*, statements: int, rate: int, seconds: float) -> dict[str, float]:
    """The figures of the platform that this Python has."""
    with started_platform() as platform:
        settings = platform.settings
        make_pipeline(settings)
        traffics = [
            marketplace_traffic(host=settings.host, port=settings.ingest_port, events_per_second=each)
            for each in (LITTLE, rate)
        ]
        posted = Posted(traffics)
        cluster = Cluster(settings.bootstrap)
        table = settings.lake_dir / settings.events_topic

        def in_lake() -> int:
            return DeltaTable(str(table)).count()

        def in_topic(topic: str) -> int:
            return sum(cluster.end_offsets(topic).values())

        copies: list[str] = []
        others: list[str] = []
        traffics[0].start()
        for number in range(statements):
            statement = STATEMENTS[number % len(STATEMENTS)]
            properties = {"auto.offset.reset": "earliest"}
            platform.run(statement.format(n=number), **properties)
            (copies if statement in COPIES else others).append(f"FAIR_{number}")
        _wait(lambda: all(in_topic(topic) for topic in (*copies, *others)), "every statement writes")
        traffics[0].stop()
        little = posted.count
        _wait(lambda: in_lake() >= little, "the lake has everything")
        _wait(lambda: all(in_topic(topic) >= little for topic in copies), "the statements have everything")
        traffics[1].start()
        began = time.monotonic()
        behind: dict[str, list[float]] = {"lake": [], "Avro": [], "statements": []}
        while time.monotonic() < began + seconds:
            behind["lake"].append(posted.behind(in_lake()))
            behind["Avro"].append(posted.behind(in_topic(f"{settings.events_topic}_avro")))
            behind["statements"].append(max(posted.behind(in_topic(topic)) for topic in copies))
            time.sleep(LOOK)
        took = time.monotonic() - began
        traffics[1].stop()
        posted.stop()
        figures = {"posted": traffics[1].posted / took}
        for what, values in behind.items():
            figures[f"{what} behind, worst"] = max(values)
            figures[f"{what} behind, p50"] = statistics.median(values)
        return figures


_wait = partial(wait_until, seconds=PATIENCE, pause=LOOK)


def measure(side: Side, arguments: argparse.Namespace) -> Mapping[str, float]:
    """In a process of its own, with that side's code and Python; only this file is ours."""
    here = Path(__file__).resolve()
    script = (
        f"import runpy, sys; sys.path.insert(0, {str(side.folder / 'benchmarks')!r}); "
        f"sys.argv[0] = {str(here)!r}; runpy.run_path({str(here)!r}, run_name='__main__')"
    )
    command = [
        str(side.folder / ".venv" / "bin" / "python"),
        *("-c", script, "--one"),
        *("--statements", str(arguments.statements)),
        *("--rate", str(arguments.rate), "--seconds", str(arguments.seconds)),
    ]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--statements", type=int, default=20, help="besides the example's")
    parser.add_argument("--rate", type=int, default=1000, help="events per second")
    parser.add_argument("--seconds", type=float, default=60, help="length of the measurement")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--former", type=Path, help="checkout of an earlier commit, as the peer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        figures = measure_one(statements=arguments.statements, rate=arguments.rate, seconds=arguments.seconds)
        print(json.dumps(figures), flush=True)
        return
    sides = [Side(name=HEADRACE, folder=Path(__file__).resolve().parent.parent)]
    if arguments.former is not None:
        sides.append(Side(name=FORMER, folder=arguments.former.resolve()))
    title = f"{arguments.statements} statements and {arguments.rate:,} events/s"
    comparison = Comparison(title, figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    comparison.run(sides, lambda side, _: measure(side, arguments), rounds=arguments.rounds, warm_up=0)
    comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
