"""Kafka's own tools as clients, with the JVM flags of their scripts, and what they report.

producer-perf-test, consumer-perf-test, and the copier from its system tests, which copies a partition in
transactions.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from side_by_side.engines import Broker, java
from side_by_side.processes import cpu_time

TIMEOUT: Final = 1800
SUMMARY: Final = re.compile(
    r"^(?P<records>\d+)(?: steady state)? records sent, (?P<rate>[\d.]+) records/sec \([\d.]+ MB/sec\), "
    r"(?P<mean>[\d.]+) ms avg latency, (?P<most>[\d.]+) ms max latency, "
    r"(?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th",
    re.MULTILINE,
)
# Between transactions the copier reports how far it is, and when.
COPIER_TIME: Final = "%Y/%m/%d %H:%M:%S:%f"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerReport:
    """The tool's last line; latencies in milliseconds, CPU in seconds."""

    records: int
    rate: float
    mean_latency: float
    p99_latency: float
    broker_cpu: float
    client_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReport:
    """The tool's line; `rate` counts from when the tool has its partitions, `whole_rate` from its start."""

    records: int
    rate: float
    whole_rate: float
    joining_ms: float
    broker_cpu: float
    client_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A tool's output, and the CPU seconds it used."""

    output: str
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
    throughput: int = -1,
    warm_up_records: int = 0,
) -> ProducerReport:
    """Run the tool to its end: as fast as it can, or at this many records per second.

    The first `warm_up_records` are sent but not counted.
    """
    payload = ["--payload-file", str(payload_file)] if payload_file else ["--record-size", str(record_size)]
    settings = {"bootstrap.servers": broker.bootstrap, **properties}
    run = _run(
        broker,
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--throughput", str(throughput)),
        *(("--warmup-records", str(warm_up_records)) if warm_up_records else ()),
        *payload,
        "--command-property",
        *(f"{name}={value}" for name, value in settings.items()),
    )
    found = list(SUMMARY.finditer(run.output))
    if not found:
        raise RuntimeError(f"producer-perf-test printed no summary:\n{run.output[-2000:]}")
    last = found[-1]
    return ProducerReport(
        records=int(last["records"]),
        rate=float(last["rate"]),
        mean_latency=float(last["mean"]),
        p99_latency=float(last["p99"]),
        broker_cpu=run.broker_cpu,
        client_cpu=run.client_cpu,
    )


def consume(broker: Broker, topic: str, *, group: str, records: int) -> ConsumerReport:
    """Run the tool as the only member of a new group, from the start of the topic."""
    run = _run(
        broker,
        "ConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group),
        *("--num-records", str(records), "--timeout", "60000", "--hide-header"),
    )
    # Start, end, MB, MB/s, records, records/s, joining ms, fetching ms, MB/s and records/s while fetching.
    fields = run.output.strip().splitlines()[-1].split(", ")
    read = int(fields[4])
    if read < records:
        raise RuntimeError(f"consumer-perf-test read {read} of {records} records:\n{run.output[-2000:]}")
    return ConsumerReport(
        records=read,
        rate=float(fields[9]),
        whole_rate=float(fields[5]),
        joining_ms=float(fields[6]),
        broker_cpu=run.broker_cpu,
        client_cpu=run.client_cpu,
    )


def copy_in_transactions(
    broker: Broker, source: str, target: str, *, name: str, records: int, records_each: int
) -> float:
    """Copy from one topic to another, with the offsets in the transactions; returns records per second.

    `name` is the transactional id and the group. The first quarter, while the tool warms up, is not counted.
    """
    run = _run(
        broker,
        "TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap, "--transactional-id", name, "--consumer-group", name),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--max-messages", str(records), "--transaction-size", str(records_each), "--use-group-metadata"),
    )
    said = [json.loads(line) for line in run.output.splitlines() if line.startswith("{")]
    steps = [
        (each["totalProcessed"], datetime.strptime(each["time"], COPIER_TIME).timestamp())
        for each in said
        if each.get("stage") == "ProcessLoop" and each["totalProcessed"] >= records // 4
    ]
    if said[-1]["remaining"] != 0 or len(steps) < 2:
        raise RuntimeError(f"the copier has not copied everything:\n{run.output[-2000:]}")
    (first, began), (last, ended) = steps[0], steps[-1]
    rate: float = (last - first) / (ended - began)
    return rate


def create_topic(broker: Broker, topic: str, *, partitions: int = 1) -> None:
    # At its end the client prints what it did not finish, which does not matter here.
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    future = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic]
    future.result(60)


def _run(broker: Broker, tool: str, *arguments: str) -> _Run:
    """Raises RuntimeError if the tool reports any failure."""
    command = java(
        f"org.apache.kafka.tools.{tool}",
        *arguments,
        flags=("-Xmx512M", "-Duser.language=en", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
    )
    broker_before, client_before = cpu_time(broker.pid), _children_cpu()
    answer = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    # A failed record shows only as an exception; the tool itself exits normally.
    if answer.returncode or "Exception" in answer.stderr + answer.stdout:
        raise RuntimeError(f"{tool} failed:\n{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}")
    return _Run(
        output=answer.stdout,
        broker_cpu=(cpu_time(broker.pid) - broker_before).total,
        client_cpu=_children_cpu() - client_before,
    )


def _children_cpu() -> float:
    """CPU of children that have ended: brokers keep running, so between two calls it is the tool's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
