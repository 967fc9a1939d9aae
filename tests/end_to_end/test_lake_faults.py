"""Connectors whose store fails: FAILED with the cause, nothing lost or double, on when the cause is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from headrace.core.settings import to_environment
from tests.faulty_s3 import Failure, FaultyS3
from tests.lake_connectors import PLAIN_JSON, S3_KEYS, Connectors, new_name, s3_options
from tests.running_platform import Platform, wait_for
from tests.s3_server import S3Server

COMMIT = r"/_delta_log/0+[0-9]+\.json$"
DATA = r"/partition=0/[^/]*\.parquet$"


def in_bucket(
    connectors: Connectors,
    endpoint: str,
    bucket: str,
    topic: str,
    values: Mapping[str, str] = MappingProxyType(PLAIN_JSON),
) -> str:
    return connectors.sink(
        topic,
        {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
            "flush.size": "1000",
            "s3.bucket.name": bucket,
            "s3.region": "us-east-1",
            "store.url": endpoint,
            **S3_KEYS,
            **values,
        },
    )


def told(platform: Platform, topic: str) -> list[str]:
    """What /health says of the queries on a topic."""
    content = platform.http.get(f"{platform.console_url}/health").json()
    return [each["problem"] for each in content["problems"] if topic in each["of"]]


def test_a_bucket_that_is_not_there(platform: Platform, connectors: Connectors, s3_server: S3Server) -> None:
    topic, bucket = connectors.topic("bucketless"), new_name("later")
    connectors.send(topic, [{"n": 1}])
    name = in_bucket(connectors, s3_server.endpoint, bucket, topic)
    assert bucket in connectors.wait_state(name, "FAILED")["trace"]
    (problem,) = wait_for(lambda: told(platform, topic), "/health tells it", seconds=60)
    assert bucket in problem
    status = subprocess.run(
        [str(Path(sys.executable).with_name("headrace")), "status"],
        env={**os.environ, **to_environment(platform.settings), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert status.returncode == 1
    assert topic in status.stdout
    s3_server.new_bucket(bucket)
    connectors.send(topic, [{"n": 2}])
    connectors.restart(name)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    assert connectors.wait_rows(table, 2, options=options) == [{"n": 1}, {"n": 2}]
    connectors.wait_state(name, "RUNNING")


@pytest.mark.long
@pytest.mark.parametrize("of", [COMMIT, DATA])
@pytest.mark.parametrize("failure", Failure)
def test_requests_that_fail_on_the_way(
    connectors: Connectors, s3_server: S3Server, faulty: FaultyS3, failure: Failure, of: str
) -> None:
    """A few of them, of a commit or of a data file; it gets over that by itself."""
    topic, bucket = connectors.topic("requests"), s3_server.new_bucket().bucket
    in_bucket(connectors, faulty.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.send(topic, [{"n": 0}])
    connectors.wait_rows(table, 1, options=options)
    faulty.fail(
        failure, method="PUT", path=of, times=1 if failure in (Failure.HANG, Failure.HANG_AFTER) else 3
    )
    connectors.send(topic, [{"n": number} for number in range(1, 50)])
    connectors.wait_rows(table, 50, options=options, seconds=120)
    assert faulty.failed > 0
    connectors.send(topic, [{"n": 50}])
    rows = connectors.wait_rows(table, 51, options=options, seconds=120)
    assert [row["n"] for row in rows] == list(range(51))


@pytest.mark.long
def test_a_table_that_is_made_and_changed_while_requests_fail(
    connectors: Connectors, s3_server: S3Server, faulty: FaultyS3
) -> None:
    """The first commit, and the one with a new column, are Delta's own."""
    topic, bucket = connectors.topic("made"), s3_server.new_bucket().bucket
    faulty.fail(Failure.DROP_AFTER, method="PUT", path=r"0\.json$")
    connectors.send(topic, [{"n": 0}])
    in_bucket(connectors, faulty.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.wait_rows(table, 1, options=options)
    assert faulty.failed == 1
    faulty.fail(Failure.DROP_AFTER, method="PUT", path=r"2\.json$")
    connectors.send(topic, [{"n": 1, "word": "more"}])
    rows = connectors.wait_rows(table, 2, options=options, seconds=60)
    assert rows == [{"n": 0, "word": None}, {"n": 1, "word": "more"}]
    assert faulty.failed == 2


@pytest.mark.long
@pytest.mark.parametrize("failure", [Failure.UNAVAILABLE, Failure.DROP])
def test_a_store_that_is_away_for_a_while(
    platform: Platform, connectors: Connectors, s3_server: S3Server, faulty: FaultyS3, failure: Failure
) -> None:
    topic, bucket = connectors.topic("away"), s3_server.new_bucket().bucket
    name = in_bucket(connectors, faulty.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.send(topic, [{"n": 0}])
    connectors.wait_rows(table, 1, options=options)
    faulty.fail(failure, times=-1)
    connectors.send(topic, [{"n": 1}])
    trace = connectors.wait_state(name, "FAILED", seconds=120)["trace"]
    assert bucket in trace
    assert wait_for(lambda: told(platform, topic), "/health tells it", seconds=60)
    connectors.send(topic, [{"n": 2}])
    faulty.heal()
    rows = connectors.wait_rows(table, 3, options=options, seconds=60)
    assert [row["n"] for row in rows] == [0, 1, 2]
    connectors.wait_state(name, "RUNNING", seconds=120)
    wait_for(lambda: not told(platform, topic), "/health is content", seconds=60)


@pytest.mark.long
def test_a_bucket_that_is_deleted_while_it_is_written_to(
    platform: Platform, connectors: Connectors, s3_server: S3Server
) -> None:
    topic, bucket = connectors.topic("deleted"), s3_server.new_bucket(new_name("gone")).bucket
    name = in_bucket(connectors, s3_server.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.send(topic, [{"n": 0}])
    connectors.wait_rows(table, 1, options=options)
    shutil.rmtree(s3_server.folder / bucket)
    connectors.send(topic, [{"n": 1}])
    assert bucket in connectors.wait_state(name, "FAILED", seconds=120)["trace"]
    (problem,) = wait_for(lambda: told(platform, topic), "/health tells it", seconds=60)
    assert bucket in problem
    # With its table, the bucket has lost how far the topic was read: it is read again.
    s3_server.new_bucket(bucket)
    rows = connectors.wait_rows(table, 2, options=options, seconds=60)
    assert [row["n"] for row in rows] == [0, 1]


@pytest.mark.long
def test_wrong_keys_are_told_and_right_ones_go_on(
    platform: Platform, connectors: Connectors, s3_server: S3Server
) -> None:
    topic, bucket = connectors.topic("keys"), s3_server.new_bucket().bucket
    name = in_bucket(connectors, s3_server.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.send(topic, [{"n": 0}])
    connectors.wait_rows(table, 1, options=options)
    wrong = "wrong-but-secret-nevertheless"
    connectors.change(name, {"aws.secret.access.key": wrong})
    connectors.send(topic, [{"n": 1}])
    trace = connectors.wait_state(name, "FAILED")["trace"]
    assert "SignatureDoesNotMatch" in trace
    assert bucket in trace
    assert wrong not in str(connectors.status(name)) + str(told(platform, topic))
    connectors.change(name, S3_KEYS)
    rows = connectors.wait_rows(table, 2, options=options)
    assert [row["n"] for row in rows] == [0, 1]
    connectors.wait_state(name, "RUNNING")
