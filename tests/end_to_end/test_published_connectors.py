"""Connector files as people publish them, run: only topics, keys and the addresses of services are ours."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from tests.connect.test_published_connectors import FOLDER, REFUSED
from tests.lake_connectors import S3_KEYS, Connectors, encoded, record_schema, s3_options
from tests.running_platform import Platform
from tests.s3_server import S3Server

ACCEPTED = [name for name, refused in REFUSED.items() if not refused]
KEY = record_schema("key", id="long")
VALUE = record_schema("row", id="long", city="string", price="double", note=["null", "string"])
ROWS = [{"id": number, "city": f"city {number}", "price": number / 4, "note": None} for number in range(7)]
AT = datetime.datetime(2026, 3, 14, 20, 30, tzinfo=datetime.UTC)
AT_MS = int(AT.timestamp() * 1000)
# By file: the folders of the rows. Where no extractor is named, the time is the clock's.
FOLDERS = {
    "hours-in-bangkok": r"year=\d{4}/month=\d\d/day=\d\d/hour=\d\d",
    "hours-with-zstd": r"year=\d{4}/month=\d\d/day=\d\d/hour=\d\d",
    "telemetry-by-day": "year=2026/month=03/day=14",
}


@pytest.mark.long
@pytest.mark.parametrize("name", ACCEPTED)
def test_its_rows_arrive(platform: Platform, connectors: Connectors, s3_server: S3Server, name: str) -> None:
    published = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    config, bucket = published["config"], published["config"]["s3.bucket.name"]
    topic = connectors.topic("published")
    s3_server.new_bucket(bucket)
    config |= {"topics": topic, "store.url": s3_server.endpoint, **S3_KEYS}
    config |= {each: platform.registry_url for each in config if each.endswith("schema.registry.url")}
    keyed = {"key": encoded(connectors.register(f"{topic}-key", KEY), KEY, {"id": 1}), "timestamp": AT_MS}
    connectors.avro(topic, VALUE, ROWS, **keyed)
    assert connectors.create(published["name"], config) == published["name"]
    table, options = _table(bucket, config, topic), s3_options(s3_server.endpoint)
    rows = connectors.wait_rows(table, len(ROWS), options=options, seconds=60)
    assert [{field: row[field] for field in ROWS[0]} for row in rows] == ROWS
    if "transforms" in config:
        assert [row["_kafka_offset"] for row in rows] == list(range(len(ROWS)))
        assert {row["_kafka_partition"] for row in rows} == {0}
        assert {row["_kafka_timestamp"] for row in rows} == {AT}
    folder = s3_server.folder / table.removeprefix("s3://")
    folders = {_folder(path, folder) for path in folder.rglob("*.parquet")}
    assert folders
    assert all(re.fullmatch(FOLDERS.get(name, "partition=0"), each) for each in folders), folders
    connectors.avro(topic, VALUE, ROWS[:1], **keyed)
    connectors.wait_rows(table, len(ROWS) + 1, options=options, seconds=60)
    connectors.wait_state(published["name"], "RUNNING")


def _table(bucket: str, config: dict[str, str], topic: str) -> str:
    return f"s3://{bucket}/{config.get('topics.dir', 'topics')}/{topic}"


def _folder(path: Path, table: Path) -> str:
    return path.parent.relative_to(table).as_posix()
