"""Kafka's own producer-perf-test as a client, with the JVM flags of its script, and what it reports."""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from side_by_side.engines import Broker, java
from side_by_side.processes import cpu_time

TIMEOUT: Final = 1800
SUMMARY: Final = re.compile(
    r"^(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec \([\d.]+ MB/sec\), "
    r"(?P<mean>[\d.]+) ms avg latency, (?P<most>[\d.]+) ms max latency, "
    r"(?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerReport:
    """The tool's last line; latencies in milliseconds, CPU in seconds."""

    records: int
    rate: float
    mean_latency: float
    p99_latency: float
    broker_cpu: float
    client_cpu: float


def produce(
    broker: Broker,
    topic: str,
    *,
    records: int,
    properties: Mapping[str, str],
    record_size: int = 200,
    payload_file: Path | None = None,
) -> ProducerReport:
    """Run the tool as fast as it goes, to its end."""
    payload = ["--payload-file", str(payload_file)] if payload_file else ["--record-size", str(record_size)]
    settings = {"bootstrap.servers": broker.bootstrap, **properties}
    command = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--throughput", "-1"),
        *payload,
        "--command-property",
        *(f"{name}={value}" for name, value in settings.items()),
        flags=("-Xmx512M", "-Duser.language=en", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
    )
    broker_before, client_before = cpu_time(broker.pid), _children_cpu()
    answer = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    found = list(SUMMARY.finditer(answer.stdout))
    # A record that failed shows as an exception only; the tool itself ends well.
    if answer.returncode or not found or "Exception" in answer.stderr + answer.stdout:
        raise RuntimeError(f"producer-perf-test failed:\n{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}")
    last = found[-1]
    return ProducerReport(
        records=int(last["records"]),
        rate=float(last["rate"]),
        mean_latency=float(last["mean"]),
        p99_latency=float(last["p99"]),
        broker_cpu=(cpu_time(broker.pid) - broker_before).total,
        client_cpu=_children_cpu() - client_before,
    )


def create_topic(broker: Broker, topic: str, *, partitions: int = 1) -> None:
    # It says at its end what it did not get to; nobody needs to know.
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    future = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic]
    future.result(60)


def _children_cpu() -> float:
    """Of children that have ended: brokers run on, so between two calls it is the tool's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
