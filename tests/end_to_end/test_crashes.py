"""Kill it at the worst moment: what was acknowledged is in the lake, once."""

from __future__ import annotations

import shutil
import time
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.pipeline.runs.reading_back import source_header
from tests.running_platform import (
    LAKE_PAUSE_SECONDS,
    Platform,
    Sent,
    Stream,
    event,
    new_prefix,
    wait_for,
)

# Seconds, Kafka's default of `delivery.timeout.ms`.
PRODUCER_GIVES_UP = 120.0


@pytest.mark.long
@pytest.mark.parametrize("shares", [(0.3,), (0.3, 0.7)])
def test_a_killed_pipeline_loses_nothing_and_doubles_nothing(
    platform: Platform, shares: tuple[float, ...]
) -> None:
    """Killed when so much was sent. The second kill meets a pipeline that catches up."""
    prefix, count = new_prefix(), 20_000
    platform.post(event(f"{prefix}-first"))
    platform.wait_in_lake(prefix, 1)
    stream = Stream(platform, prefix, count)
    for share in shares:
        wait_for(lambda share=share: stream.progress > count * share, f"{share:.0%} are sent")
        killed = platform.kill("pipeline")
    sent = stream.finish()
    assert sent.unknown == []
    platform.wait_restarted("pipeline", after=killed)
    platform.wait_in_lake(prefix, count + 1)
    rows = platform.rows(prefix)
    assert {user for user, number in rows.items() if number != 1} == set()
    assert rows.keys() == sent.receipts.keys() | {f"{prefix}-first"}
    assert _repeated_in(platform, "events_avro") == {}, (
        "and every other reader of the topic has each once, too"
    )


def test_a_killed_ingest_keeps_what_got_a_receipt(platform: Platform) -> None:
    prefix, count = new_prefix(), 20_000
    stream = Stream(platform, prefix, count, batch=20)
    for share in (0.3, 0.7):
        wait_for(lambda share=share: stream.progress > count * share, f"{share:.0%} are sent")
        killed = platform.kill("ingest")
        platform.wait_restarted("ingest", after=killed)
    sent = stream.finish()
    assert len(sent.receipts) + len(sent.unknown) == count
    assert len(sent.receipts) > count / 2
    _expect_what_got_a_receipt(platform, prefix, sent)


def test_a_killed_log_keeps_what_it_acknowledged(platform: Platform) -> None:
    prefix, count = new_prefix(), 10_000
    stream = Stream(platform, prefix, count, batch=20)
    for share in (0.2, 0.5, 0.8):
        wait_for(lambda share=share: stream.progress > count * share, f"{share:.0%} are sent")
        killed = platform.kill("log")
        platform.wait_restarted("log", after=killed)
    sent = stream.finish()
    assert len(sent.receipts) > count / 2
    _expect_what_got_a_receipt(platform, prefix, sent)


@pytest.mark.long
def test_a_topic_made_again_and_a_wiped_checkpoint(platform: Platform) -> None:
    before, after = new_prefix(), new_prefix()
    platform.post([event(f"{before}-{number}") for number in range(300)])
    platform.wait_in_lake(before, 300)
    _delete(platform, "events")
    killed = platform.kill("pipeline")
    shutil.rmtree(platform.settings.data_dir / "pipeline" / "checkpoints")
    Cluster(platform.settings.bootstrap).create_topic("events", partitions=4)
    # More than before, so that the offsets of the new topic pass those of the old one.
    Stream(platform, after, 900).finish()
    platform.wait_restarted("pipeline", after=killed)
    platform.wait_in_lake(after, 900)
    assert set(platform.rows(after).values()) == {1}
    assert set(platform.rows(before).values()) == {1}
    assert len(platform.rows(before)) == 300


def test_a_topic_made_again_while_everything_runs(platform: Platform) -> None:
    before, after = new_prefix(), new_prefix()
    platform.post([event(f"{before}-{number}") for number in range(50)])
    platform.wait_in_lake(before, 50)
    _delete(platform, "events")
    Cluster(platform.settings.bootstrap).create_topic("events", partitions=4)
    Stream(platform, after, 500).finish()
    platform.wait_in_lake(after, 500)
    assert set(platform.rows(after).values()) == {1}
    assert set(platform.rows(before).values()) == {1}


def test_a_derived_topic_made_again_is_filled_again(platform: Platform) -> None:
    before, after = new_prefix(), new_prefix()
    platform.post([event(f"{before}-{number}") for number in range(50)])
    platform.wait_in_lake(before, 50)
    _delete(platform, "events_avro")
    # With other partitions: the same rows come from other places, and must not be doubled for that.
    Cluster(platform.settings.bootstrap).create_topic("events_avro", partitions=3)
    platform.post([event(f"{after}-{number}") for number in range(50)])
    began = time.monotonic()
    platform.wait_in_lake(after, 50)
    assert time.monotonic() < began + PRODUCER_GIVES_UP, "nobody waits for records of the former topic"
    assert set(platform.rows(after).values()) == {1}
    assert set(platform.rows(before).values()) == {1}


def _expect_what_got_a_receipt(platform: Platform, prefix: str, sent: Sent) -> None:
    """It is in the lake, once, from the place that its receipt names."""
    # An event without a receipt may be there or not; the last ones tell when all others have arrived.
    platform.post([event(f"{prefix}-last-{number}") for number in range(50)])
    expected = sent.receipts.keys() | {f"{prefix}-last-{number}" for number in range(50)}
    wait_for(
        lambda: platform.rows(prefix).keys() >= expected,
        "every event with a receipt is in the lake",
        pause_seconds=LAKE_PAUSE_SECONDS,
    )
    rows = platform.rows(prefix)
    assert {user for user, number in rows.items() if number != 1} == set()
    places = platform.sql(
        f"SELECT USER_ID, _SOURCE_PARTITION, _SOURCE_OFFSET FROM events WHERE USER_ID LIKE '{prefix}-%'"
    )
    found = {user: (partition, offset) for user, partition, offset in places}
    assert {user: found[user] for user in sent.receipts} == sent.receipts


def _repeated_in(platform: Platform, topic: str) -> dict[bytes, int]:
    """The identities that are more than once in a derived topic."""
    bootstrap = platform.settings.bootstrap
    ends = {number: (0, end) for number, end in Cluster(bootstrap).end_offsets(topic).items()}
    found = Counter(source_header(record) for record in records_between(bootstrap, topic, ends))
    return {identity: count for identity, count in found.items() if identity is not None and count > 1}


def _delete(platform: Platform, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": platform.settings.bootstrap})
    admin.delete_topics([topic])[topic].result()
    cluster = Cluster(platform.settings.bootstrap)
    wait_for(lambda: topic not in cluster.lookup([topic]), f"{topic} is gone")
