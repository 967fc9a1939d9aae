"""Compaction leaves the same on both engines: values, offsets, tombstones, deletions."""

from __future__ import annotations

import random

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.broker.compacted_topics import Found, Writer, create, numbered, read_all, wait_for_records
from tests.conformance.engines import Server

KEYS = [f"k{number}" for number in range(10)]

pytestmark = pytest.mark.long


@pytest.fixture
def bootstrap(server: Server) -> str:
    """A broker of its own that looks for something to clean five times a second."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    change = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[change])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(120)
    return server.bootstrap


def test_what_is_left(bootstrap: str) -> None:
    create(bootstrap, "plain")
    create(bootstrap, "tombstones", delete_retention_ms="1")
    create(bootstrap, "kept-tombstones")
    create(bootstrap, "young", min_compaction_lag_ms="7200000")
    create(bootstrap, "overdue", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="1000")
    retention = {"cleanup_policy": "compact,delete", "retention_ms": "3600000"}
    create(bootstrap, "deleted", **retention)
    filled: dict[str, Writer] = {}
    chance = random.Random(1)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        create(bootstrap, f"random-{codec}")
        writer = filled[f"random-{codec}"] = Writer(bootstrap, f"random-{codec}", compression_type=codec)
        for number in range(20):
            writer.generation(numbered(chance.sample([f"k{n}" for n in range(60)], 8), number))
    for topic in ("plain", "young", "overdue"):
        writer = Writer(bootstrap, topic)
        for number in range(5):
            writer.generation(numbered(KEYS, number))
    for topic in ("tombstones", "kept-tombstones"):
        writer = filled[topic] = Writer(bootstrap, topic)
        writer.generation({"gone": "value", "stays": "value"})
        writer.generation({"gone": None})
        writer.generation({"other": "1"})
    # Only what is old and closed is deleted.
    writer = Writer(bootstrap, "deleted", age_ms=600_000)
    for number in range(3):
        writer.generation(numbered(["a", "b"], number))

    two_generations = [(30 + n, KEYS[n % 10], f"{KEYS[n % 10]} {3 + n // 10}") for n in range(20)]
    left: dict[str, Found] = {
        "plain": two_generations,
        "overdue": two_generations,
        "kept-tombstones": [(1, "stays", "value"), (2, "gone", None), (3, "other", "1")],
        "deleted": [(2, "a", "a 1"), (3, "b", "b 1"), (4, "a", "a 2"), (5, "b", "b 2")],
    }
    for topic, expected in left.items():
        wait_for_records(bootstrap, topic, lambda records, expected=expected: records == expected)  # type: ignore[misc]
    for topic, writer in filled.items():
        if topic.startswith("random"):
            everything = [
                (offset, key, value) for offset, (key, value) in sorted(writer.acknowledged.items())
            ]
            closed, active = everything[:-8], everything[-8:]
            last = sorted({key: (offset, key, value) for offset, key, value in closed}.values())
            wait_for_records(bootstrap, topic, lambda records, last=last + active: records == last)  # type: ignore[misc]
    # A tombstone goes with a round after its time.
    wait_for_records(bootstrap, "tombstones", lambda records: records[0][0] == 1)
    for number in range(2, 5):
        filled["tombstones"].generation({"other": str(number)})
        wait_for_records(bootstrap, "tombstones", lambda records: len(records) <= 4)
    without = [(1, "stays", "value"), (5, "other", "3"), (6, "other", "4")]
    wait_for_records(bootstrap, "tombstones", lambda records: records == without)
    # What is younger than it has to be was left alone all the time.
    assert len(read_all(bootstrap, "young")) == 50
