"""From the POST of an event until SQL has it: with what is on its way into the lake, and without.

The example's statements and connector run. Each event is posted alone, and then SQL is asked for it again and
again until it is in the answer; the clock runs from before the POST until that answer has come. In each round
`headrace` asks for live answers and its peer for the lake alone (`"freshness": "lake"`), in turn, on the same
platform; meanwhile other events come in at a steady rate, and the lake commits them. `answer` is how long one
answer takes that has the event already. Target: p99 of `visible` at most 200 ms.

    python benchmarks/fresh_sql.py [--events 200] [--rate 100] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
from deltalake import DeltaTable
from side_by_side.background import Background
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.steady_events import Sender, percentile
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import HEADRACE, Platform, started_platform

from headrace.assembly.demo import make_pipeline
from headrace.core.settings import to_environment

LAKE_ALONE: Final = "lake alone"
# Events of the peer: each takes about a second.
FEWER: Final = 10
FIGURES: Final = (
    Figure(name="visible p50", unit="ms", decimals=1),
    Figure(name="visible p99", unit="ms", decimals=1),
    Figure(name="answer p50", unit="ms", decimals=1),
    Figure(name="restart", unit="s", decimals=1),
)
CLAIMS: Final = (Claim(figure="visible p99", of="subject", bound="at most", target=200),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    name: str
    freshness: str
    events: int


class Steady(Background):
    """Other events, at a steady rate."""

    def __init__(self, platform: Platform, rate: int) -> None:
        super().__init__()
        self._sender = Sender(platform.settings)
        self._rate = rate

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._sender.send("other", self._rate, self._rate)
        self._sender.close()


class Asking:
    def __init__(self, platform: Platform) -> None:
        settings = platform.settings
        self._events = f"http://{settings.host}:{settings.ingest_port}/events"
        self._sql = f"http://{settings.host}:{settings.query_port}/sql"
        self._client = httpx.Client(timeout=60, trust_env=False)

    def post(self) -> str:
        user = uuid.uuid4().hex
        event = {
            "Event_Type": "ListingView",
            "Event_Version": "1",
            "User_ID": user,
            "Listing_ID": "l1",
            "Server_Time": "2026-03-14T09:26:53Z",
            "Device_Type": "web",
        }
        self._client.post(self._events, json=event).raise_for_status()
        return user

    def has(self, user: str, freshness: str) -> bool:
        question = {"query": "SELECT count(*) FROM events WHERE USER_ID = ?", "parameters": [user]}
        answer = self._client.post(self._sql, json={**question, "freshness": freshness})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return False
        answer.raise_for_status()
        count: int = answer.json()["rows"][0][0]
        if count > 1:
            raise RuntimeError(f"event {user} is in the answer {count} times")
        return count == 1

    def close(self) -> None:
        self._client.close()


class Disturbing(Background):
    """Merges and restores the table in turn, while the pipeline process is there."""

    def __init__(self, platform: Platform) -> None:
        super().__init__()
        self._settings = platform.settings
        self.done = 0

    def _run(self) -> None:
        while not self._stopping.wait(2):
            if self.done % 2:
                newest = DeltaTable(str(self._settings.lake_dir / "events")).version()
                self._lake("restore", "--version", str(max(newest - 3, 1)), "--yes")
            else:
                self._lake("optimize")

    def _lake(self, order: str, *flags: str) -> None:
        """An order that is refused while the pipeline is away is given again."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("headrace")), "lake", order, "events", *flags],
            env={**os.environ, **to_environment(self._settings)},
            capture_output=True,
            check=False,
        )
        self.done += done.returncode == 0


def measure(
    asking: Asking, side: Side, platform: Platform, disturbing: Disturbing | None
) -> dict[str, float]:
    visible, answers, restart = [], [], [0.0]
    for number in range(side.events):
        if disturbing is not None and side.name == HEADRACE and number == side.events // 2:
            os.kill(platform.pid(), signal.SIGKILL)
            began = time.perf_counter()
            user = asking.post()
            while not asking.has(user, side.freshness):
                pass
            restart.append(time.perf_counter() - began)
        began = time.perf_counter()
        user = asking.post()
        while not asking.has(user, side.freshness):
            pass
        visible.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        if not asking.has(user, side.freshness):
            raise RuntimeError(f"event {user} was in an answer, and then in none")
        answers.append((time.perf_counter() - began) * 1000)
    return {
        "visible p50": percentile(sorted(visible), 0.5),
        "visible p99": percentile(sorted(visible), 0.99),
        "answer p50": percentile(sorted(answers), 0.5),
        "restart": max(restart),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--rate", type=int, default=100, help="of other events, per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disturbed", action="store_true", help="with merges, restores and a kill a round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    arguments = parser.parse_args()
    sides = [
        Side(name=HEADRACE, freshness="live", events=arguments.events),
        Side(name=LAKE_ALONE, freshness="lake", events=max(arguments.events // FEWER, 1)),
    ]
    comparison = Comparison("POST until SQL has the event", figures=FIGURES, claims=CLAIMS, subject=HEADRACE)
    with started_platform() as platform:
        make_pipeline(platform.settings)
        asking = Asking(platform)
        with Steady(platform, arguments.rate):
            first = asking.post()
            wait_until(lambda: asking.has(first, "lake"), "the lake has an event", seconds=120, pause=0.5)
            disturbing = Disturbing(platform) if arguments.disturbed else None
            with disturbing or nullcontext():
                comparison.run(
                    sides,
                    lambda side, _: measure(asking, side, platform, disturbing),
                    rounds=arguments.rounds,
                    warm_up=1,
                )
            if disturbing is not None:
                print(f"{disturbing.done} merges and restores")
        asking.close()
    comparison.report(vars(arguments), arguments.json)


if __name__ == "__main__":
    main()
