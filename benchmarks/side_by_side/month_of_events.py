"""A month of events in a table of the lake, and the newest ones only in its topic.

Data folder of a platform, made once and used by several runs: the table's files are written by the sink's
own code, as commits of several hours, and merged by the platform's own maintenance, so that a past day has
few files and the last one has the many that a day in progress has. Its positions are those of the last
commit. In the topic, everything before them has expired (its offsets are gone), and what follows are Avro
records with the headers of a derived topic, written by a producer. The connector is paused, so nothing is
written while the table is queried.

Events are numbered in the order of time: event `n` is in partition `n % 4` at offset `n // 4`. All is
computed from the numbers and a seed.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace.assembly.announcements import latest
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings, to_environment
from headrace.lake.columns.data_files import ColumnFiles
from headrace.lake.columns.folders import FolderColumn
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.delta_log import DeltaLog
from headrace.lake.layout import TableColumn, TableLayout
from headrace.lake.location import Location
from headrace.lake.merging import MergeRules
from headrace.lake.positions import Progress, Reached
from headrace.lake.types import Field, Simple, Struct
from headrace.log.config import DEFAULT_CONFIG
from headrace.log.folder.data_folder import DataFolder
from headrace.pipeline import marketplace
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.table_maintenance import MaintainedTable, TableMaintenance
from headrace.wire.records import Record, build_batch
from side_by_side.waiting import wait_until

TABLE: Final = "events"
TOPIC: Final = "events_avro"
PARTITIONS: Final = 4
DAYS: Final = 30
TODAY: Final = datetime.date(2026, 3, 30)
TYPES: Final = ("ListingView", "Search", "AddToCart", "Checkout", "Purchase")
_SHARES: Final = (0.55, 0.2, 0.12, 0.08, 0.05)
_DEVICES: Final = ("web", "app", "tablet")
_DEVICE_SHARES: Final = (0.5, 0.35, 0.15)
USERS: Final = 400_000
LISTINGS: Final = 100_000
_QUERY: Final = "csas_events_avro"
_SOURCE_TOPIC: Final = "3Zk0c9mDQ8uJ1x5vX0qg5A"
# The table ends at this hour of the last day; the tail is the hour after it.
_HOURS_TODAY: Final = 18
_COMMITS_A_DAY: Final = 8
_COMMITS_TODAY: Final = 60
# Fewer than are merged at once.
_UNMERGED: Final = 10
_SEED: Final = 15
_EXPIRED_AT_ONCE: Final = 50_000
_NAMES: Final = (
    "EVENT_TYPE", "EVENT_VERSION", "USER_ID", "LISTING_ID", "SERVER_TIME", "DEVICE_TYPE", "SERVER_DATE",
)  # fmt: skip
_FOLDERS: Final = ("EVENT_TYPE", "SERVER_DATE")
_SECONDS_OF_DAY: Final = 86_400
_START_SECONDS: Final = 60.0


def _texts(values: Sequence[str]) -> pa.Array:
    return pa.array(values, pa.string())


_USER: Final = _texts([f"user-{number:07d}" for number in range(USERS)])
_LISTING: Final = _texts([f"listing-{number:06d}" for number in range(LISTINGS)])
_CLOCK: Final = [
    f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z" for second in range(_SECONDS_OF_DAY)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Some events of one day, in the order of time."""

    day: datetime.date
    numbers: np.ndarray[Any, Any]
    types: np.ndarray[Any, Any]
    users: np.ndarray[Any, Any]
    listings: np.ndarray[Any, Any]
    seconds: np.ndarray[Any, Any]
    devices: np.ndarray[Any, Any]
    posted_ms: np.ndarray[Any, Any]

    def rows(self) -> pa.Table:
        """As the table has them."""
        count = len(self.numbers)
        partition = pa.array((self.numbers % PARTITIONS).astype(np.int32))
        offset = pa.array(self.numbers // PARTITIONS)
        times = _texts([f"{self.day}T{each}" for each in _CLOCK])
        columns = {
            "EVENT_TYPE": _texts(TYPES).take(pa.array(self.types)),
            "EVENT_VERSION": pa.repeat("1", count),
            "USER_ID": _USER.take(pa.array(self.users)),
            "LISTING_ID": _LISTING.take(pa.array(self.listings)),
            "SERVER_TIME": times.take(pa.array(self.seconds)),
            "DEVICE_TYPE": _texts(_DEVICES).take(pa.array(self.devices)),
            "SERVER_DATE": pa.repeat(str(self.day), count),
            "_QUERY": pa.repeat(_QUERY, count),
            "_SOURCE_TOPIC_ID": pa.repeat(_SOURCE_TOPIC, count),
            "_SOURCE_PARTITION": partition,
            "_SOURCE_OFFSET": offset,
            "_SOURCE_ORDINAL": pa.array(np.zeros(count, np.int32)),
            "_TOPIC_PARTITION": partition,
            "_TOPIC_OFFSET": offset,
            "_POSTED_AT": pa.array(self.posted_ms * 1000, pa.timestamp("us", "UTC")),
        }
        return pa.table(columns)


def events_of(day: datetime.date, first: int, end: int, *, second: int, seconds: int) -> Events:
    """The events with these numbers, spread over some seconds of the day from `second` on."""
    random = np.random.default_rng((_SEED, first))
    count = end - first
    at = second + np.arange(count, dtype=np.int64) * seconds // max(count, 1)
    midnight = int(datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp())
    delay = 20 + random.exponential(300, count).astype(np.int64)
    return Events(
        day=day,
        numbers=np.arange(first, end),
        types=random.choice(len(TYPES), count, p=_SHARES),
        # A few users and listings have most of the events.
        users=(USERS * random.random(count) ** 3).astype(np.int64),
        listings=(LISTINGS * random.random(count) ** 4).astype(np.int64),
        seconds=at,
        devices=random.choice(len(_DEVICES), count, p=_DEVICE_SHARES),
        posted_ms=(midnight + at) * 1000 + delay,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many events are in the table, and how many only in the topic."""

    rows: int
    tail: int

    def of_past_days(self) -> Iterator[list[Events]]:
        """The events of each day but the last, as the sink commits them."""
        for number in range(DAYS - 1):
            day = TODAY - datetime.timedelta(days=DAYS - 1 - number)
            first, end = self._first_of(number), self._first_of(number + 1)
            yield list(_parts(day, first, end, seconds=_SECONDS_OF_DAY, parts=_COMMITS_A_DAY))

    def of_today(self) -> list[Events]:
        first = self._first_of(DAYS - 1)
        return list(_parts(TODAY, first, self.rows, seconds=_HOURS_TODAY * 3600, parts=_COMMITS_TODAY))

    def of_tail(self) -> Iterator[Events]:
        yield from _parts(
            TODAY, self.rows, self.rows + self.tail, begin=_HOURS_TODAY * 3600, seconds=3600, parts=20
        )

    def _first_of(self, day: int) -> int:
        return int(self.rows * day / (DAYS - 1 + _HOURS_TODAY / 24))


def _parts(
    day: datetime.date, first: int, end: int, *, begin: int = 0, seconds: int, parts: int
) -> Iterator[Events]:
    for part in range(parts):
        low, high = (first + (end - first) * each // parts for each in (part, part + 1))
        yield events_of(
            day, low, high, second=begin + seconds * part // parts, seconds=max(seconds // parts, 1)
        )


@contextmanager
def process(settings: Settings, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the platform's processes, ready."""
    with (settings.data_dir / f"{name}.out").open("ab") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "headrace.assembly.run_process", name],
            env={**os.environ, **to_environment(settings)},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: (
                (said := latest(settings, name)) is not None
                and (said.pid, said.state) == (started.pid, "ready")
            ),
            f"{name} is ready",
            seconds=_START_SECONDS,
            pause=0.05,
        )
        yield started
    finally:
        started.terminate()
        try:
            started.wait(_START_SECONDS)
        finally:
            started.kill()
            started.wait()


def make(settings: Settings, size: Size, spark: SparkSession) -> None:
    """Fill the data folder, unless it has been filled with as much before."""
    done = settings.data_dir / "made.json"
    wanted = json.dumps({"rows": size.rows, "tail": size.tail})
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    for name in ("broker", "lake"):
        shutil.rmtree(settings.data_dir / name, ignore_errors=True)
    _expire(settings.data_dir / "broker", size)
    with process(settings, "log"), process(settings, "gateway"), process(settings, "connect"):
        cluster = Cluster(settings.bootstrap)
        topic = cluster.topic(TOPIC)
        assert topic is not None
        _connect(settings)
        _produce(settings, size)
        cluster.close()
    _write_table(settings, size, spark, topic)
    done.write_text(wanted, encoding="utf-8")


def _expire(folder: Path, size: Size) -> None:
    """The topic as it is after its first records have expired: their offsets are gone with them."""
    end = size.rows // PARTITIONS
    now = time.time_ns() // 1_000_000
    with DataFolder.open(folder) as logs:
        # The events are older than topics keep records by default.
        logs.create_topic(TOPIC, PARTITIONS, {"retention.ms": "-1"}, DEFAULT_CONFIG)
        for log in logs.topics[TOPIC].partitions:
            while left := end - log.end_offset:
                expired = [
                    Record(offset_delta=number, timestamp_delta=0, key=None, value=b"", headers=())
                    for number in range(min(left, _EXPIRED_AT_ONCE))
                ]
                batch = build_batch(expired, base_timestamp=now)
                while end - log.end_offset >= len(expired):
                    # The log writes its own offset there.
                    batch[:8] = bytes(8)
                    log.append(batch, now_ms=now)
            log.delete_records_before(end)


def _connect(settings: Settings) -> None:
    wanted = {**marketplace.connector(TABLE), "initial_state": "PAUSED"}
    url = f"http://{settings.host}:{settings.connect_port}/connectors"
    httpx.post(url, json=wanted, timeout=60, trust_env=False).raise_for_status()


def _produce(settings: Settings, size: Size) -> None:
    """The tail, as the statement of the example would write it."""
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in _NAMES]
    schema = {"type": "record", "name": "KsqlDataSourceSchema", "fields": fields}
    url = f"http://{settings.host}:{settings.registry_port}/subjects/{TOPIC}-value/versions"
    answer = httpx.post(url, json={"schema": json.dumps(schema)}, timeout=60, trust_env=False)
    frame = b"\0" + int(answer.raise_for_status().json()["id"]).to_bytes(4)
    users, listings, clock = ([_field(each) for each in values] for values in (
        _USER.to_pylist(), _LISTING.to_pylist(), [f"{TODAY}T{each}" for each in _CLOCK],
    ))  # fmt: skip
    kinds, devices = ([_field(each) for each in values] for values in (TYPES, _DEVICES))
    version, date = _field("1"), _field(str(TODAY))
    source = f"{_QUERY}/{_SOURCE_TOPIC}".encode()
    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap,
            "linger.ms": 20,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 500_000,
            "log_level": 0,
        }
    )
    for part in size.of_tail():
        lists = (
            part.numbers, part.types, part.users, part.listings, part.seconds, part.devices, part.posted_ms,
        )  # fmt: skip
        for number, kind, user, listing, second, device, posted in zip(
            *(each.tolist() for each in lists), strict=True
        ):
            partition, offset = number % PARTITIONS, number // PARTITIONS
            producer.produce(
                TOPIC,
                b"".join(
                    (frame, kinds[kind], version, users[user], listings[listing], clock[second],
                     devices[device], date)
                ),
                partition=partition,
                timestamp=posted,
                headers=[
                    ("headrace-source", b"%b/%d/%d/0" % (source, partition, offset)),
                    ("headrace-posted-at", b"%d" % posted),
                ],
            )  # fmt: skip
        while len(producer) > 100_000:
            producer.poll(0.1)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records were not written")


def _field(text: str) -> bytes:
    """A value of `["null", "string"]` in Avro; shorter than 64 bytes."""
    content = text.encode()
    return bytes((2, 2 * len(content))) + content


def layout_of(settings: Settings) -> TableLayout:
    return TableLayout(
        name=TABLE,
        location=Location.local(settings.lake_dir / TABLE),
        value_columns=tuple(TableColumn(name, "STRING") for name in _NAMES),
        partition_columns=_FOLDERS,
    )


def _write_table(settings: Settings, size: Size, spark: SparkSession, topic: TopicIdentity) -> None:
    layout = layout_of(settings)
    files = DeltaFiles(spark, layout)
    log = DeltaLog(layout.location)
    target = settings.lake_file_megabytes * 1024 * 1024
    rules = MergeRules(target_bytes=target, least_files=settings.lake_merge_files, most_bytes=target)
    maintained = MaintainedTable(name=TABLE, location=layout.location, codec="snappy")
    for day in size.of_past_days():
        for part in day:
            _commit(log, part, topic, settings)
    # The days that have passed get no more files.
    later = time.time_ns() // 1_000_000 + 60 * 60 * 1000
    _merge(TableMaintenance(spark, maintained, rules, clock_ms=lambda: later))
    today = size.of_today()
    for part in today[:-_UNMERGED]:
        _commit(log, part, topic, settings)
    _merge(TableMaintenance(spark, maintained, rules, clock_ms=lambda: time.time_ns() // 1_000_000))
    files.checkpoint()
    for part in today[-_UNMERGED:]:
        _commit(log, part, topic, settings)


def _commit(log: DeltaLog, events: Events, topic: TopicIdentity, settings: Settings) -> None:
    plan = ColumnPlan(
        bootstrap=settings.bootstrap,
        topic=topic,
        location=layout_of(settings).location,
        columns=Struct(fields=tuple(Field(name=name, type=Simple.STRING) for name in _NAMES)),
        folders=tuple(
            FolderColumn(name=name, type=Simple.STRING, is_date=name == "SERVER_DATE") for name in _FOLDERS
        ),
        schemas={},
        drops_nulls=True,
        codec="snappy",
        rows_per_file=10_000_000,
    )
    task = ColumnFiles(plan, 0)
    task.write(events.rows())
    end = int(events.numbers[-1]) + 1
    reached = {number: (end + PARTITIONS - 1 - number) // PARTITIONS for number in range(PARTITIONS)}
    progress = Progress().at(Reached(topic_id=topic.topic_id, offsets=reached))
    info = {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "timestamp": time.time_ns() // 1_000_000,
        "userMetadata": progress.as_metadata(),
    }
    log.add_commit(log.newest_version() + 1, info, [file.add for file in task.written])


def _merge(maintenance: TableMaintenance) -> None:
    while maintenance.merge() is not None:
        pass
