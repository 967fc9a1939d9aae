"""What a hundred hostile SQL questions at once do to the other doors: percentiles of their answers.

A platform runs with the example's statements and connector. Each of the other doors is asked in turn (an
event to the events API, the registry's subjects, the statements' `/info`, the connectors, the console's
`/health`), one request at a time, every 10 ms. One side is measured while a process of its own keeps a
hundred hostile questions at `/sql` (endless joins, texts of gigabytes, statements nested thousands deep),
the other while nothing else happens. Target: p99 of every door at most 100 ms beside the questions.

    python benchmarks/hostile_questions.py [--seconds 30] [--clients 100] [--rounds 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.steady_events import percentile
from side_by_side.waiting import wait_until
from side_by_side.whole_platform import Platform, started_platform

from headrace.assembly.demo import make_pipeline
from headrace.core.settings import Settings

ATTACKED: Final = "attacked"
QUIET: Final = "quiet"
PAUSE: Final = 0.01
DOORS: Final = ("events", "registry", "statements", "connect", "health")
HOSTILE: Final = (
    "SELECT * FROM (" * 3000 + "SELECT 1" + ")" * 3000,
    "SELECT " + " + ".join(["1"] * 100_000),
    "SELECT length(repeat('x', 2000000000))",
    "SELECT repeat('x', 1000000) FROM range(100000)",
    "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "SELECT regexp_replace(repeat('ab', 500000), '((a|b)+)+c', 'x', 'g')",
    "SELECT array_agg(i) FROM range(1000000000) t(i)",
    "SELECT string_agg(i::VARCHAR) FROM range(1000000000) t(i)",
    "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range + b.range = 7",
    "WITH RECURSIVE a AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM a) SELECT count(*) FROM a",
    "SELECT * FROM range(1000000000000)",
    "SELECT DISTINCT hash(i) FROM range(1000000000) t(i)",
    "SELECT i FROM range(1000000000) t(i) ORDER BY hash(i)",
    "SELECT read_text('/etc/passwd')",
)
FIGURES: Final = tuple(
    Figure(name=f"{door} {which}", unit="ms", decimals=1) for door in DOORS for which in ("p50", "p99")
)
CLAIMS: Final = tuple(
    Claim(figure=f"{door} p99", of="subject", bound="at most", target=100) for door in DOORS
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    name: str


async def attack(url: str, clients: int) -> None:
    """For ever: each client sends the next question when the last one has been answered or refused."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=300, trust_env=False, limits=limits) as client:

        async def one(number: int) -> None:
            while True:
                body = {"query": HOSTILE[number % len(HOSTILE)]}
                number += 1
                try:
                    answer = await client.post(url, json=body)
                except httpx.TransportError:
                    continue
                # As a client that is told to come back later, but an impatient one.
                await asyncio.sleep(0.1 if answer.status_code == httpx.codes.TOO_MANY_REQUESTS else 0)

        await asyncio.gather(*(one(number) for number in range(clients)))


@contextmanager
def attacked(settings: Settings, clients: int) -> Iterator[None]:
    url = f"http://{settings.host}:{settings.query_port}/sql"
    process = subprocess.Popen([sys.executable, __file__, "--attack", url, "--clients", str(clients)])
    try:
        time.sleep(3)
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the attack ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


class Doors:
    def __init__(self, settings: Settings) -> None:
        self._client = httpx.Client(timeout=60, trust_env=False)
        host = f"http://{settings.host}"
        self._requests: dict[str, dict[str, Any]] = {
            "events": {
                "method": "POST",
                "url": f"{host}:{settings.ingest_port}/events",
                "json": {
                    "Event_Type": "ListingView",
                    "Event_Version": "1",
                    "User_ID": "u1",
                    "Listing_ID": "l1",
                    "Server_Time": "2026-03-14T09:26:53Z",
                    "Device_Type": "web",
                },
            },
            "registry": {"method": "GET", "url": f"{host}:{settings.registry_port}/subjects"},
            "statements": {"method": "GET", "url": f"{host}:{settings.statements_port}/info"},
            "connect": {"method": "GET", "url": f"{host}:{settings.connect_port}/connectors"},
            "health": {"method": "GET", "url": f"{host}:{settings.console_port}/health"},
        }

    def measure(self, seconds: float) -> dict[str, float]:
        taken: dict[str, list[float]] = {door: [] for door in DOORS}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for door, request in self._requests.items():
                began = time.perf_counter()
                self._client.request(**request).raise_for_status()
                taken[door].append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE)
        return {
            f"{door} {which}": percentile(sorted(values), part)
            for door, values in taken.items()
            for which, part in (("p50", 0.5), ("p99", 0.99))
        }

    def close(self) -> None:
        self._client.close()


def run(platform: Platform, arguments: argparse.Namespace) -> None:
    settings = platform.settings
    doors = Doors(settings)
    comparison = Comparison(
        "Other doors beside hostile questions", figures=FIGURES, claims=CLAIMS, subject=ATTACKED
    )

    def measure(side: Side, _: int) -> dict[str, float]:
        with attacked(settings, arguments.clients) if side.name == ATTACKED else nullcontext():
            return doors.measure(arguments.seconds)

    comparison.run([Side(name=ATTACKED), Side(name=QUIET)], measure, rounds=arguments.rounds, warm_up=1)
    comparison.report(vars(arguments), arguments.json)
    doors.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    parser.add_argument("--attack", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        asyncio.run(attack(arguments.attack, arguments.clients))
        return
    with started_platform() as platform:
        make_pipeline(platform.settings)
        states = platform.states
        wait_until(lambda: "RUNNING" in states().values(), "a query runs", seconds=120, pause=0.5)
        run(platform, arguments)


if __name__ == "__main__":
    main()
