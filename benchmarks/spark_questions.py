"""What a question in Spark costs the platform's own queries: the latency of events with and without one.

A whole platform on free ports gets events at a steady rate. For `--seconds` nobody asks; then questions with
`engine=spark` follow each other for as long: joins of the lake with itself that Spark is never done with
before it is cancelled. Printed for each of the two: from POST until in the Avro topic and until read by the
writer of the lake, as the platform reports it (`/latency`), and how many rows reached the lake.

    python benchmarks/spark_questions.py [--seconds 75] [--rate 200]
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from typing import Any, Final

import httpx
from side_by_side.whole_platform import started_platform

from headrace.assembly.demo import make_pipeline
from headrace.core.settings import Settings

LONG: Final = (
    "SELECT count(*) FROM events a, events b, events c "
    "WHERE a.USER_ID || b.USER_ID || c.USER_ID = 'x' OR a.LISTING_ID > b.LISTING_ID"
)
# What the platform's percentiles cover.
WINDOW_SECONDS: Final = 60.0
WARM_UP_SECONDS: Final = 45.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=75.0, help="of each of the two parts")
    parser.add_argument("--rate", type=int, default=200, help="events a second")
    chosen = parser.parse_args()
    if chosen.seconds < WINDOW_SECONDS:
        parser.error(f"the latencies are of the last {WINDOW_SECONDS:g} s")
    with started_platform() as platform, httpx.Client(timeout=None, trust_env=False) as client:
        settings = platform.settings
        make_pipeline(settings)
        url = f"http://{settings.host}:{settings.console_port}"
        stopping = threading.Event()
        traffic = threading.Thread(target=_post, args=(settings, chosen.rate, stopping))
        traffic.start()
        try:
            time.sleep(WARM_UP_SECONDS)
            _measure(client, url, "nobody asks", chosen.seconds)
            asking = threading.Event()
            asker = threading.Thread(target=_ask, args=(url, asking))
            asker.start()
            _measure(client, url, "a question in Spark", chosen.seconds)
            asking.set()
            client.delete(f"{url}/sql/long")
            asker.join()
            _measure(client, url, "nobody asks any more", chosen.seconds)
        finally:
            stopping.set()
            traffic.join()


def _measure(client: httpx.Client, url: str, what: str, seconds: float) -> None:
    before = client.get(f"{url}/flow").json()["lake"]
    time.sleep(seconds)
    flow: dict[str, Any] = client.get(f"{url}/flow").json()
    found = {
        "part": what,
        "lake_ms": flow["latency_ms"],
        "avro_ms": flow["avro_latency_ms"],
        "rows_into_the_lake": flow["lake"] - before,
    }
    print(json.dumps(found), flush=True)


def _post(settings: Settings, rate: int, stopping: threading.Event) -> None:
    number, began = 0, time.monotonic()
    with httpx.Client(timeout=60, trust_env=False) as client:
        while not stopping.wait(0.05):
            due = int((time.monotonic() - began) * rate)
            events = [_event(each) for each in range(number, due)]
            number = due
            if events:
                url = f"http://{settings.host}:{settings.ingest_port}/events"
                client.post(url, json=events).raise_for_status()


def _event(number: int) -> dict[str, str]:
    return {
        "Event_Type": ("ListingView", "Search")[number % 2],
        "Event_Version": "1",
        "User_ID": f"user-{number}",
        "Listing_ID": f"listing-{number % 1000}",
        "Server_Time": "2026-03-14T09:26:53Z",
        "Device_Type": "web",
    }


def _ask(url: str, stopping: threading.Event) -> None:
    with httpx.Client(timeout=None, trust_env=False) as client:
        while not stopping.is_set():
            answer = client.post(f"{url}/sql", json={"query": LONG, "engine": "spark", "id": "long"})
            if answer.status_code != httpx.codes.CONFLICT:
                print(f"the question: {answer.status_code} {answer.text[:200]}", flush=True)


if __name__ == "__main__":
    main()
