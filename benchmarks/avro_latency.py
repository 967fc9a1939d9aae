"""POST until readable in `events_avro`: real-time mode beside micro-batches, in one run.

Each round starts the platform twice on an empty folder, once in each mode, warms it up, and then posts
single events at a steady pace over HTTP while a Kafka consumer reads the Avro topic. The latency of an
event is the time from the moment at which it was *due* until the consumer has it, so a stalled sender
cannot hide a stall (no coordinated omission). Everything the platform does runs meanwhile, the lake's
commits too.

    python benchmarks/avro_latency.py [--engine embedded] [--events 10000] [--rate 200] [--rounds 3]
        [--warm-up 60]
"""

from __future__ import annotations

import argparse
import dataclasses
import http.client
import json
import shutil
import socket
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from headrace.assembly.demo import make_pipeline
from headrace.assembly.preparation import prepare
from headrace.assembly.supervisor import Supervisor
from headrace.core.settings import Settings

SENDERS = 8
MODES = ("real-time", "micro-batch")


class Reader:
    """Notes when each event, told by its key, is readable in the Avro topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        partitions = self._consumer.list_topics(topic, 30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: dict[str, float] = {}
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                # The first time counts: a repetition is not when it became readable.
                self.seen.setdefault(message.key().decode(), time.monotonic())
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Sender:
    """Posts single events at a steady pace from several connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(SENDERS)

    def send(self, prefix: str, count: int, rate: float) -> dict[str, float]:
        """When each event was due, by its key."""
        began = time.monotonic() + 0.1
        due = {f"{prefix}-{number}": began + number / rate for number in range(count)}
        list(self._pool.map(self._post, due.items()))
        return due

    def _post(self, event: tuple[str, float]) -> None:
        key, due = event
        time.sleep(max(0.0, due - time.monotonic()))
        body = json.dumps(
            {
                "Event_Type": "ListingView",
                "Event_Version": "1",
                "User_ID": key,
                "Listing_ID": "listing-1",
                "Server_Time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "Device_Type": "web",
            }
        )
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(
                self._settings.host, self._settings.ingest_port, timeout=60
            )
            self._local.connection = connection
        connection.request("POST", "/events", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"POST /events answered {response.status}: {answer!r}")

    def close(self) -> None:
        self._pool.shutdown()


def measure(engine: str, mode: str, *, events: int, rate: float, warm_up: float) -> list[float]:
    """Latencies in milliseconds, sorted, of one run of the platform in one mode."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        settings = _settings(folder, engine, mode)
        prepare(settings)
        supervisor = Supervisor(settings, on_change=lambda _: None)
        stack.callback(supervisor.stop)
        supervisor.start()
        make_pipeline(settings)
        sender = Sender(settings)
        stack.callback(sender.close)
        sender.send("first", 1, rate)
        avro_topic = f"{settings.events_topic}_avro"
        reader = Reader(settings.bootstrap, avro_topic)
        stack.callback(reader.stop)
        _wait_for(reader, {"first-0": 0.0})
        _wait_for(reader, sender.send("warm", int(warm_up * rate), rate))
        due = sender.send("event", events, rate)
        _wait_for(reader, due)
        return sorted((reader.seen[key] - moment) * 1000 for key, moment in due.items())


def _wait_for(reader: Reader, due: dict[str, float]) -> None:
    deadline = time.monotonic() + 180
    while not due.keys() <= reader.seen.keys():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(due.keys() - reader.seen.keys())} of {len(due)} events did not arrive")
        time.sleep(0.05)


def _settings(folder: Path, engine: str, mode: str) -> Settings:
    with ExitStack() as stack:
        ports = []
        for _ in range(5):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
    return dataclasses.replace(
        Settings(),
        data_dir=folder,
        engine=engine,
        cache_dir=Settings().cache_dir.expanduser(),
        kafka_port=ports[0],
        ingest_port=ports[1],
        registry_port=ports[2],
        console_port=ports[3],
        statements_port=ports[4],
        spark_ui_port=0,
        pipeline_mode=mode,
    )


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=("embedded", "kafka"), default=Settings().engine)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=60, help="seconds of traffic before the measurement")
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(1, arguments.rounds + 1):
        for mode in MODES:
            ordered = measure(
                arguments.engine,
                mode,
                events=arguments.events,
                rate=arguments.rate,
                warm_up=arguments.warm_up,
            )
            row = {
                "p50": _percentile(ordered, 0.5),
                "p90": _percentile(ordered, 0.9),
                "p99": _percentile(ordered, 0.99),
            }
            results[mode].append(row)
            shown = "  ".join(f"{name} {value:8.1f} ms" for name, value in row.items())
            print(f"round {number}  {mode:12}  {shown}  max {ordered[-1]:8.1f} ms", flush=True)
    print()
    for mode in MODES:
        for name in ("p50", "p90", "p99"):
            values = [row[name] for row in results[mode]]
            print(
                f"{mode:12} {name}  median {statistics.median(values):8.1f} ms  "
                f"from {min(values):8.1f} to {max(values):8.1f} ms"
            )
    ratios = [
        slow["p50"] / fast["p50"]
        for fast, slow in zip(results["real-time"], results["micro-batch"], strict=True)
    ]
    spread = f"from {min(ratios):.1f} to {max(ratios):.1f}"
    print(f"p50 of micro-batch / real-time: median {statistics.median(ratios):.1f}, {spread}")


if __name__ == "__main__":
    main()
