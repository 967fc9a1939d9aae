"""Connectors into a bucket survive kills, at the moments when a request is on its way to the store.

The seed chooses what is killed, and which request it meets. A request that is on its way arrives
nevertheless: at once, or when the next pipeline already writes. LAKE_KILL_SEED takes the seed that a failure
names; LAKE_KILL_ROUNDS says how many kills, up to nine.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import fastavro
import psutil
import pytest
from confluent_kafka import Producer

from tests.end_to_end.test_lake_faults import COMMIT, in_bucket
from tests.faulty_s3 import FaultyS3
from tests.lake_checking import Comparison, NumberOf, compared, in_json
from tests.lake_connectors import AVRO, PLAIN_JSON, Connectors, encoded, record_schema, s3_options
from tests.running_platform import Platform, wait_for
from tests.s3_server import S3Server

SEED = int(os.environ.get("LAKE_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
ROUNDS = int(os.environ.get("LAKE_KILL_ROUNDS", "6"))
PARTITIONS = 3
PATIENCE_SECONDS = 120.0
DATA = r"/partition=\d/[^/]*\.parquet$"
VICTIMS = ("Java", "Python", "everything")
MOMENTS = ("data", "commit", "late commit")
PROCESSES = ("log", "ingest", "gateway", "connect", "pipeline")


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the numbers are in their records, and what the connector has to know of that. The form decides
    whether the table is written in rows or in columns.
    """

    way: str
    write: Callable[[int], bytes]
    read: NumberOf
    config: Mapping[str, str]


def in_rows(_: Connectors, __: str) -> Form:
    return Form(way="in rows", write=lambda n: json.dumps({"n": n}).encode(), read=in_json, config=PLAIN_JSON)


def in_columns(connectors: Connectors, topic: str) -> Form:
    """The folders have the names that the partitions of the topic would have, for `DATA`."""
    schema = record_schema("Numbers", n="long", partition="int")
    number = connectors.register(f"{topic}-value", schema)

    def read(value: bytes) -> int:
        found: Any = fastavro.schemaless_reader(
            io.BytesIO(value[5:]), fastavro.parse_schema(dict(schema)), None
        )
        return int(found["n"])

    return Form(
        way="in columns",
        write=lambda n: encoded(number, schema, {"n": n, "partition": n % PARTITIONS}),
        read=read,
        config={
            "value.converter": AVRO,
            "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
            "partition.field.name": "partition",
        },
    )


class Feed:
    """Numbers into a topic, from a thread of its own. Each is there once, although the log is killed, too."""

    def __init__(self, bootstrap: str, topic: str, form: Form) -> None:
        self.form = form
        self.sent = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)

    def finish(self) -> None:
        self._stopping.set()
        self._running.result(PATIENCE_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(0.2):
            for _ in range(40):
                self._producer.produce(self._topic, self.form.write(self.sent))
                self.sent += 1
            assert self._producer.flush(PATIENCE_SECONDS) == 0


@pytest.fixture(params=[in_rows, in_columns])
def feed(
    request: pytest.FixtureRequest, platform: Platform, connectors: Connectors
) -> Iterator[tuple[str, Feed]]:
    """With its topic."""
    topic = connectors.topic("killed", partitions=PARTITIONS)
    feed = Feed(platform.settings.bootstrap, topic, request.param(connectors, topic))
    try:
        yield topic, feed
    finally:
        feed.finish()


def killer(platform: Platform, victim: str) -> Callable[[], None]:
    """Kills what runs now, when it is called."""
    pids = [platform.pid(name) for name in (PROCESSES if victim == "everything" else ("pipeline",))]
    processes = [psutil.Process(pid) for pid in pids if pid is not None]
    family = [child for process in processes for child in process.children(recursive=True)]
    if victim == "Java":
        processes = []
        family = [child for child in family if "java" in child.name()]
        assert family

    def kill() -> None:
        for each in (*processes, *family):
            if each.is_running():
                each.send_signal(signal.SIGKILL)

    return kill


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_record_is_there_once_after_kills(
    platform: Platform, connectors: Connectors, s3_server: S3Server, faulty: FaultyS3, feed: tuple[str, Feed]
) -> None:
    print(f"seed {SEED}")
    (topic, fed), chance = feed, random.Random(SEED)
    bucket = s3_server.new_bucket().bucket
    in_bucket(connectors, faulty.endpoint, bucket, topic, fed.form.config)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    bootstrap = platform.settings.bootstrap
    history: list[str] = []
    rounds = [(victim, moment) for victim in VICTIMS for moment in MOMENTS]
    for victim, moment in chance.sample(rounds, ROUNDS):
        # Requests go on as soon as they are seen: so it runs.
        seen = len(faulty.seen)
        wait_for(
            lambda seen=seen: any("_delta_log" in path for _, path in faulty.seen[seen:]),
            "the connector writes",
            explain=lambda: f"{history} {SEED}",
        )
        wait_for(platform.takes_requests, "everything runs")
        number = chance.randrange(3)
        _kill_at(platform, faulty, victim, moment, number)
        history.append(f"{victim} at {moment} {number}")
        print(len(history), history[-1], flush=True)
    fed.finish()

    def is_right() -> Comparison | None:
        found = compared(bootstrap, topic, table, options, number_of=fed.form.read)
        assert not found.is_hopeless, (SEED, history, found.double[:5], found.wrong[:5])
        return found if found.is_right else None

    right = wait_for(
        is_right,
        "every record is there",
        seconds=PATIENCE_SECONDS,
        pause_seconds=1,
        explain=lambda: f"{SEED} {history}",
    )
    assert right.records == fed.sent > 0
    log = (platform.settings.data_dir / "logs" / "pipeline.log").read_text(errors="replace")
    batches = [line for line in log.splitlines() if f".{topic}: " in line and "lake batch" in line]
    assert any(line.endswith(fed.form.way) for line in batches)


def _kill_at(platform: Platform, faulty: FaultyS3, victim: str, moment: str, number: int) -> None:
    """Kill when so many requests of that kind have passed and another one is on its way."""
    pid = platform.pid("pipeline")
    kill = killer(platform, victim)
    killed, left = threading.Event(), [number]
    path = DATA if moment == "data" else COMMIT

    def met() -> None:
        if left[0]:
            left[0] -= 1
            faulty.overtake(path, met)
            return
        kill()
        killed.set()
        if moment == "late commit":
            # The next pipeline looks at the table before this commit arrives, or after; both may be.
            seen = len(faulty.seen)
            wait_for(lambda: len(faulty.seen) > seen + 12, "the next one is at the table", seconds=60)

    faulty.overtake(path, met)
    assert killed.wait(PATIENCE_SECONDS), f"no request for {path}"
    assert pid is not None
    platform.wait_restarted("pipeline", after=pid)
