"""A store that does not answer: who waits for it waits alone, and a stop waits for nobody."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.end_to_end.test_lake_faults import in_bucket, told
from tests.faulty_s3 import Failure, FaultyS3
from tests.lake_connectors import PLAIN_JSON, Connectors, s3_options
from tests.running_platform import Platform, wait_for
from tests.s3_server import S3Server

# Less than any request waits for its answer twice.
SOON_SECONDS = 25.0


def expect_that_another_works(connectors: Connectors, word: str) -> None:
    topic = connectors.topic(word)
    connectors.send(topic, [{"n": 1}])
    name = connectors.sink(topic, PLAIN_JSON)
    connectors.wait_rows(connectors.table(topic), 1, seconds=SOON_SECONDS)
    connectors.order(name, "stop")
    connectors.wait_state(name, "STOPPED", seconds=SOON_SECONDS)


@pytest.mark.long
def test_others_go_on_and_it_recovers(
    platform: Platform, connectors: Connectors, s3_server: S3Server, faulty: FaultyS3
) -> None:
    topic, bucket = connectors.topic("hanging"), s3_server.new_bucket().bucket
    name = in_bucket(connectors, faulty.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.send(topic, [{"n": 0}])
    connectors.wait_rows(table, 1, options=options)
    faulty.fail(Failure.HANG, times=-1)
    connectors.send(topic, [{"n": 1}])
    wait_for(lambda: faulty.failed, "a batch hangs")
    expect_that_another_works(connectors, "beside-a-batch")
    trace = connectors.wait_state(name, "FAILED", seconds=120)["trace"]
    assert "timeout" in trace.lower()
    assert bucket in trace
    assert wait_for(lambda: told(platform, topic), "/health tells it", seconds=60)
    before = faulty.failed
    wait_for(lambda: faulty.failed > before, "a start hangs")
    expect_that_another_works(connectors, "beside-a-start")
    connectors.order(name, "pause")
    connectors.wait_state(name, "PAUSED", seconds=60)
    connectors.order(name, "resume")
    connectors.send(topic, [{"n": 2}])
    faulty.heal()
    rows = connectors.wait_rows(table, 3, options=options, seconds=60)
    assert [row["n"] for row in rows] == [0, 1, 2]


@pytest.mark.long
@pytest.mark.parametrize("when", ["a batch hangs", "a start hangs"])
def test_the_pipeline_stops_soon(
    platform: Platform, connectors: Connectors, s3_server: S3Server, faulty: FaultyS3, when: str
) -> None:
    topic, bucket = connectors.topic("stopped"), s3_server.new_bucket().bucket
    name = in_bucket(connectors, faulty.endpoint, bucket, topic)
    table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
    connectors.send(topic, [{"n": 0}])
    connectors.wait_rows(table, 1, options=options)
    faulty.fail(Failure.HANG, times=-1)
    if when == "a batch hangs":
        connectors.send(topic, [{"n": 1}])
    else:
        connectors.restart(name)
        connectors.send(topic, [{"n": 1}])
    wait_for(lambda: faulty.failed, when)
    pid = platform.pid("pipeline")
    assert pid is not None
    process, began = psutil.Process(pid), time.monotonic()
    os.kill(pid, signal.SIGTERM)
    process.wait(60)
    assert time.monotonic() - began < SOON_SECONDS
    faulty.heal()
    platform.wait_restarted("pipeline", after=pid)
    rows = connectors.wait_rows(table, 2, options=options, seconds=90)
    assert [row["n"] for row in rows] == [0, 1]
