"""From the start of the gateway until its counts are complete, with a full log.

The log has ten million events, as many Avro records with the headers of the pipeline, and the status of the
lake's query for every second of 20 minutes, which is what compaction leaves of it. The clock runs from the
start of the process until `/flow` reports all of them (`counted`) and until the process says that it is ready
(`ready`); its CPU time until then is a figure, too. The warm-up round is the first start on that log, which
counts everything; later ones go on from there. Target: 2 s. With `--former` the peer is the gateway of
another checkout.

    python benchmarks/gateway_start.py [--records 10000000] [--former PYTHON] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from side_by_side.comparison import Claim, Comparison, Figure
from side_by_side.engines import FORMER
from side_by_side.processes import cpu_time

from headrace.assembly.announcements import latest
from headrace.core.settings import Settings, to_environment
from headrace.log.config import DEFAULT_CONFIG
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing import EmbeddedBroker
from headrace.wire.records import Record, build_batch

EVENTS = "events"
PARTITIONS = 4
BATCH = 1000
STATUSES = 1_200
PATIENCE = 600.0
SUBJECT = "headrace"
VALUE = b"x" * 120
FIGURES = (
    Figure(name="counted", unit="s", decimals=2),
    Figure(name="ready", unit="s", decimals=2),
    Figure(name="CPU", unit="s", decimals=2),
)
CLAIMS = (Claim(figure="counted", of=SUBJECT, bound="at most", target=2),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway to start: its name and the Python that has it installed."""

    name: str
    python: str


def fill(folder: Path, records: int) -> None:
    """Append to the log as the broker does, without the network."""
    logs = DataFolder.open(folder)
    now_ms = int(time.time() * 1000)
    for topic, partitions, configs in (
        (EVENTS, PARTITIONS, {}),
        (f"{EVENTS}_avro", PARTITIONS, {}),
        ("_pipeline_status", 1, {"cleanup.policy": "compact"}),
    ):
        logs.create_topic(topic, partitions, configs, DEFAULT_CONFIG)
    for number in range(PARTITIONS):
        share = records // PARTITIONS
        append(logs.topics[EVENTS].partitions[number], events(share), now_ms)
        append(logs.topics[f"{EVENTS}_avro"].partitions[number], derived(number, share), now_ms)
    append(logs.topics["_pipeline_status"].partitions[0], statuses(now_ms), now_ms)
    logs.close()


def append(log: PartitionLog, batches: Iterator[list[Record]], now_ms: int) -> None:
    for batch in batches:
        log.append(build_batch(batch, base_timestamp=now_ms), now_ms=now_ms)


def events(count: int) -> Iterator[list[Record]]:
    for first in range(0, count, BATCH):
        yield [Record(delta, 0, b"u1", VALUE) for delta in range(min(BATCH, count - first))]


def derived(partition: int, count: int) -> Iterator[list[Record]]:
    time_header = (b"headrace-posted-at", str(int(time.time() * 1000)).encode())
    for first in range(0, count, BATCH):
        yield [
            Record(
                delta,
                0,
                b"u1",
                VALUE,
                (
                    (b"headrace-source", f"CSAS_EVENTS_AVRO_1/id/{partition}/{first + delta}/0".encode()),
                    time_header,
                ),
            )
            for delta in range(min(BATCH, count - first))
        ]


def statuses(now_ms: int) -> Iterator[list[Record]]:
    quantiles = [float(number) for number in range(101)]
    for second in range(STATUSES):
        status = {
            "query": "events-to-lake",
            "state": "RUNNING",
            "mode": "micro-batch",
            "message": "",
            "at": now_ms - (STATUSES - second) * 1000,
            "batch": second,
            "rows": 1000,
            "latency_quantiles_ms": quantiles,
        }
        yield [Record(0, 0, b"events-to-lake", json.dumps(status).encode())]


class Starts:
    """Starts gateways on one log."""

    def __init__(self, bootstrap: str, folder: Path, records: int) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._records = records

    def measure(self, gateway: Gateway, number: int) -> dict[str, float]:
        ports = free_ports(3)
        settings = Settings(
            data_dir=self._folder / f"{gateway.name}-{number}",
            engine="external",
            bootstrap_servers=self._bootstrap,
            registry_port=ports[0],
            statements_port=ports[1],
            console_port=ports[2],
            events_topic=EVENTS,
        )
        settings.data_dir.mkdir(parents=True)
        with (settings.data_dir / "output").open("wb") as output:
            began = time.monotonic()
            process = subprocess.Popen(
                [gateway.python, "-m", "headrace.assembly.run_process", "gateway"],
                env={**os.environ, **to_environment(settings)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            ready = counted = 0.0
            while not (ready and counted):
                if time.monotonic() - began > PATIENCE or process.poll() is not None:
                    sys.exit((settings.data_dir / "output").read_text())
                said = latest(settings, "gateway")
                if not ready and said is not None and said.pid == process.pid and said.state == "ready":
                    ready = time.monotonic() - began
                if not counted and self._is_complete(settings.console_port):
                    counted = time.monotonic() - began
                time.sleep(0.02)
            return {"counted": counted, "ready": ready, "CPU": cpu_time(process.pid).total}
        finally:
            process.terminate()
            process.wait(60)

    def _is_complete(self, port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/flow", timeout=5) as answer:
                flow = json.load(answer)
        except (urllib.error.URLError, OSError):
            return False
        known = [query["batch"] for query in flow["queries"]]
        return (flow["accepted"], flow["avro"], known) == (self._records, self._records, [STATUSES - 1])


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000_000, help="a multiple of 4,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--former", metavar="PYTHON", help="the Python of another checkout's environment")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-"))
    gateways = [Gateway(name=SUBJECT, python=sys.executable)]
    if arguments.former:
        gateways.append(Gateway(name=FORMER, python=arguments.former))
    comparison = Comparison("start of the gateway on a full log", figures=FIGURES, claims=CLAIMS)
    try:
        fill(folder / "log", arguments.records)
        with EmbeddedBroker(folder / "log") as broker:
            starts = Starts(broker.bootstrap, folder, arguments.records)
            comparison.run(gateways, starts.measure, rounds=arguments.rounds, warm_up=arguments.warm_up)
            comparison.report(vars(arguments), arguments.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
