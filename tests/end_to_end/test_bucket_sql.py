"""SQL on a table that a connector writes to a bucket: fresh, in all doors, and as the table in the folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pydruid.db

from headrace.assembly.announcements import run_dir
from headrace.core.settings import to_environment
from tests.end_to_end.test_fresh_sql import ask
from tests.lake_connectors import S3_KEYS, Connectors, new_name, rows_of, s3_options
from tests.running_platform import Platform, event, new_prefix, wait_for
from tests.s3_server import SECRET_KEY, S3Server

CONNECTOR = json.loads(
    (Path(__file__).parents[1] / "acceptance" / "s3-parquet-connector.json").read_text(encoding="utf-8")
)
DAYS = ("2026-03-13", "2026-03-14", "2026-03-14")


def test_a_table_in_a_bucket_answers_in_all_doors(
    platform: Platform, connectors: Connectors, s3_server: S3Server
) -> None:
    bucket = new_name("events-lake")
    s3_server.new_bucket(bucket)
    config = CONNECTOR["config"] | S3_KEYS | {"store.url": s3_server.endpoint, "s3.bucket.name": bucket}
    config |= {"rotate.schedule.interval.ms": "2000", "errors.deadletterqueue.topic.name": f"{bucket}_dlq"}
    config |= {each: platform.registry_url for each in config if each.endswith("schema.registry.url")}
    connectors.create(new_name(CONNECTOR["name"]), config)
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{at}", Server_Time=f"{day}T10:00:00Z") for at, day in enumerate(DAYS)])
    table = f"s3://{bucket}/topics/events_avro"
    options = s3_options(s3_server.endpoint)
    wait_for(lambda: rows_of(table, options), "the connector has committed", seconds=90, pause_seconds=0.5)

    question = (
        "SELECT SERVER_DATE, COUNT(*) AS clicks FROM {table} "
        f"WHERE EVENT_TYPE = 'ListingView' AND USER_ID LIKE '{prefix}-%' GROUP BY 1 ORDER BY 1"
    )
    in_bucket = question.format(table="events_avro")
    expected = [("2026-03-13", 1), ("2026-03-14", 2)]

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in ask(platform, statement)["rows"]]

    wait_for(lambda: rows(in_bucket) == expected, "they are in the answer")
    wait_for(lambda: rows(question.format(table="events")) == expected, "and in the folder's table")
    # Written in between, and not yet in the bucket: the tail has it, and nothing is counted twice.
    count = f"SELECT count(*) FROM events_avro WHERE USER_ID LIKE 'more-{prefix}-%'"
    for number in range(20):
        platform.post(event(f"more-{prefix}-{number}"))
        deadline = time.monotonic() + 60
        while rows(count) != [(number + 1,)]:
            assert rows(count)[0][0] <= number + 1
            assert time.monotonic() < deadline
    answer = ask(platform, in_bucket)
    (read,) = answer["tables"]
    assert (read["table"], read["reason"]) == ("events_avro", "")

    settings = platform.settings
    druid = pydruid.db.connect(
        host=settings.host, port=settings.query_port, path="/druid/v2/sql/", scheme="http"
    )
    with closing(druid), closing(druid.cursor()) as cursor:
        assert [tuple(row) for row in cursor.execute(in_bucket)] == expected
    with psycopg.connect(
        host=settings.host, port=settings.postgres_port, user="analyst", dbname="headrace"
    ) as postgres:
        assert postgres.execute(in_bucket).fetchall() == expected
        listed = postgres.execute("SELECT table_name FROM information_schema.tables").fetchall()
        assert ("events_avro",) in listed
    command = subprocess.run(
        [str(Path(sys.executable).with_name("headrace")), "sql", "--format", "json", in_bucket],
        env={**os.environ, **to_environment(settings)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert [tuple(row.values()) for row in json.loads(command.stdout)] == expected
    _find_no_secret(platform, command.stderr)


def _find_no_secret(platform: Platform, *texts: str) -> None:
    """In what the platform writes for people. The log of connectors has what they were configured with."""
    logs = [path.read_bytes() for path in run_dir(platform.settings).parent.rglob("*.log")]
    written = [log for log in logs if b"\0" not in log]
    assert written
    assert not any(SECRET_KEY.encode() in log for log in written)
    assert not any(SECRET_KEY in text for text in texts)
