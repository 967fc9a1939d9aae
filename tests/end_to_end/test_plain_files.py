"""Connectors that write plain files on a running platform: each record once, whatever is killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.lake.plain_log import PlainLog
from tests.lake_connectors import PLAIN_JSON, S3_KEYS, Connectors
from tests.running_platform import Platform, wait_for
from tests.s3_server import REGION, S3Server

FORMAT = "io.confluent.connect.s3.format"
JSON_FILES = {**PLAIN_JSON, "format.class": f"{FORMAT}.json.JsonFormat"}


@pytest.fixture
def connectors(platform: Platform) -> Iterator[Connectors]:
    created = Connectors(platform)
    try:
        yield created
    finally:
        created.close()


def ids(table: Path) -> Counter[int]:
    """What somebody finds who lists the folder."""
    lines = (line for path in table.rglob("*.json") for line in path.read_text("utf-8").splitlines())
    return Counter(json.loads(line)["id"] for line in lines)


def wait_ids(table: Path, count: int) -> Counter[int]:
    def enough() -> Counter[int] | None:
        found = ids(table)
        assert max(found.values(), default=1) == 1, "no reader ever sees a row twice"
        return found if found.total() == count else None

    found: Counter[int] = wait_for(
        enough, f"{count} rows in {table}", seconds=90, explain=lambda: str(ids(table).total())
    )
    return found


def test_a_batch_waits_for_its_size_or_its_time(connectors: Connectors) -> None:
    topic = connectors.topic("orders")
    connectors.send(topic, [{"id": number} for number in range(3)])
    name = connectors.sink(topic, {**JSON_FILES, "flush.size": "5", "rotate.interval.ms": "600000"})
    table = connectors.table(topic)
    # A start does not wait.
    wait_ids(table, 3)
    connectors.send(topic, [{"id": number} for number in range(3, 8)])
    wait_ids(table, 8)
    connectors.send(topic, [{"id": 8, "note": "new"}])
    log = PlainLog(table)
    before = log.newest_version()
    connectors.change(name, {"rotate.interval.ms": "1000"})
    wait_ids(table, 9)
    assert log.newest_version() > before
    folder = table / "partition=0"
    assert sorted(path.name for path in folder.iterdir())[0] == f"{topic}+0+0000000000.json"
    assert (folder / f"{topic}+0+0000000003.json").read_text().splitlines() == [
        json.dumps({"id": number}, separators=(",", ":")) for number in range(3, 8)
    ]
    assert connectors.wait_state(name, "RUNNING")


def test_confluent_s_sink_writes_bytes_to_a_bucket(connectors: Connectors, s3_server: S3Server) -> None:
    storage = s3_server.new_bucket()
    topic = connectors.topic("orders")
    connectors.send(topic, [{"id": 1}, {"id": 2}])
    connectors.create(
        f"{topic}-bytes",
        {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "topics": topic,
            "s3.bucket.name": storage.bucket,
            "s3.region": REGION,
            "store.url": storage.endpoint,
            **S3_KEYS,
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": f"{FORMAT}.bytearray.ByteArrayFormat",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "flush.size": "2",
        },
    )
    name = f"topics/{topic}/partition=0/{topic}+0+0000000000.bin"

    def written() -> bytes | None:
        listed = s3_server.client.list_objects_v2(Bucket=storage.bucket, Prefix=name)
        if not listed.get("KeyCount"):
            return None
        body: bytes = s3_server.client.get_object(Bucket=storage.bucket, Key=name)["Body"].read()
        return body

    assert wait_for(written, f"{name} is there", seconds=90) == b'{"id": 1}\n{"id": 2}\n'


def test_a_folder_with_other_files_is_refused(connectors: Connectors) -> None:
    topic = connectors.topic("orders")
    connectors.send(topic, [{"id": 1}])
    theirs = connectors.table(topic) / "partition=0" / f"{topic}+0+0000000000.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text('{"id": 7}\n')
    name = connectors.sink(topic, {**JSON_FILES, "flush.size": "5"})
    task = connectors.wait_state(name, "FAILED")
    assert "has files that are not this table's" in task["trace"]
    assert "topics.dir" in task["trace"]
    assert theirs.read_text() == '{"id": 7}\n'


@pytest.mark.long
def test_a_killed_pipeline_doubles_nothing_for_those_who_list_the_folder(
    platform: Platform, connectors: Connectors
) -> None:
    topic = connectors.topic("orders", partitions=2)
    connectors.send(topic, [{"id": -1}])
    connectors.sink(topic, {**JSON_FILES, "flush.size": "50", "rotate.interval.ms": "200"})
    table = connectors.table(topic)
    wait_ids(table, 1)
    sent = 0
    for _ in range(4):
        before = ids(table).total()
        connectors.send(topic, [{"id": number} for number in range(sent, sent + 2000)])
        sent += 2000
        wait_for(lambda before=before: ids(table).total() > before, "some are written", seconds=90)
        killed = platform.kill("pipeline")
        assert max(ids(table).values()) == 1
        platform.wait_restarted("pipeline", after=killed)
    assert wait_ids(table, sent + 1) == Counter(range(-1, sent))
