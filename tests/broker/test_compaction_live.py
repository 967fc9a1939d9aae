"""A broker that runs compacts its compacted topics: clients see what Kafka's documentation promises."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.testing import EmbeddedBroker
from tests.broker.broker_process import BrokerProcess
from tests.broker.compacted_topics import (
    EAGER,
    WAIT_SECONDS,
    Found,
    Writer,
    create,
    numbered,
    read_all,
    wait_for,
    wait_for_records,
)
from tests.ports import free_port

KEYS = [f"k{number}" for number in range(10)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Compaction waits for the disk: with fsync=always not for long."""
    configs = {**EAGER, "log.retention.check.interval.ms": "50"}
    with EmbeddedBroker(tmp_path_factory.mktemp("compacting"), fsync="always", configs=configs) as running:
        yield running


@pytest.mark.parametrize("codec", ["zstd", pytest.param("none", marks=pytest.mark.long)])
def test_old_values_vanish_and_offsets_stay(broker: EmbeddedBroker, topic_name: str, codec: str) -> None:
    create(broker.bootstrap, topic_name)
    writer = Writer(broker.bootstrap, topic_name, compression_type=codec)
    for number in range(10):
        writer.generation(numbered(KEYS, number))
    # The last generation stands in the segment that is written to, the one before is the last closed one.
    found = wait_for_records(broker.bootstrap, topic_name, lambda records: len(records) == 20)
    assert found == [(80 + n, KEYS[n % 10], f"{KEYS[n % 10]} {8 + n // 10}") for n in range(20)]
    # Through the gaps, from anywhere.
    for offset in (0, 1, 55, 80):
        assert read_all(broker.bootstrap, topic_name, offset) == found
    assert read_all(broker.bootstrap, topic_name, 85) == found[5:]
    # The producer's next batch is in sequence.
    writer.generation(numbered(KEYS, 10))
    left = wait_for_records(broker.bootstrap, topic_name, lambda records: records[0][0] == 90)
    assert [offset for offset, _key, _value in left] == list(range(90, 110))


def test_keys_that_are_not_written_again_stay(broker: EmbeddedBroker, topic_name: str) -> None:
    create(broker.bootstrap, topic_name)
    writer = Writer(broker.bootstrap, topic_name)
    chance = random.Random(topic_name)
    for number in range(15):
        writer.generation(numbered(chance.sample([f"k{n}" for n in range(100)], 5), number))

    def is_clean(records: Found) -> bool:
        return len(records) <= len(writer.last_values()) + 5

    found = wait_for_records(broker.bootstrap, topic_name, is_clean)
    assert {key: value for _offset, key, value in found} == writer.last_values()
    assert all(writer.acknowledged[offset] == (key, value) for offset, key, value in found)


def test_tombstones(broker: EmbeddedBroker, topic_name: str) -> None:
    kept, dropped = f"{topic_name}-kept", f"{topic_name}-dropped"
    create(broker.bootstrap, kept, delete_retention_ms="86400000")
    create(broker.bootstrap, dropped, delete_retention_ms="1")
    for topic in (kept, dropped):
        writer = Writer(broker.bootstrap, topic)
        writer.generation({"gone": "value", "stays": "value"})
        writer.generation({"gone": None})
        writer.generation({"other": "1"})
    # The value goes, and the tombstone tells of it for a while …
    found = wait_for_records(broker.bootstrap, kept, lambda records: records[0][1] == "stays")
    assert found == [(1, "stays", "value"), (2, "gone", None), (3, "other", "1")]
    # … until a round that finds it after its time.
    for number in range(2, 5):
        writer.generation({"other": str(number)})
        wait_for_records(broker.bootstrap, dropped, lambda records: len(records) <= 4)
    left = [(1, "stays", "value"), (5, "other", "3"), (6, "other", "4")]
    wait_for_records(broker.bootstrap, dropped, lambda records: records == left)


def test_compacted_and_deleted(broker: EmbeddedBroker, topic_name: str) -> None:
    retention = {"cleanup_policy": "compact,delete", "retention_ms": "3600000"}
    create(broker.bootstrap, topic_name, **retention)
    old = Writer(broker.bootstrap, topic_name, age_ms=10 * 3_600_000)
    for number in range(3):
        old.generation(numbered(["old", "both"], number))
    new = Writer(broker.bootstrap, topic_name, age_ms=600_000)
    for number in range(10, 13):
        new.generation(numbered(["new", "both"], number))
    # What is old goes although nothing newer has its key.
    found = wait_for_records(broker.bootstrap, topic_name, lambda records: len(records) == 4)
    assert found == [
        (8, "new", "new 11"),
        (9, "both", "both 11"),
        (10, "new", "new 12"),
        (11, "both", "both 12"),
    ]


def test_compaction_can_be_switched_on_later(broker: EmbeddedBroker, topic_name: str) -> None:
    create(broker.bootstrap, topic_name, cleanup_policy="delete", retention_ms="-1")
    writer = Writer(broker.bootstrap, topic_name)
    for number in range(4):
        writer.generation(numbered(KEYS, number))
    assert len(read_all(broker.bootstrap, topic_name)) == 40
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name, incremental_configs=[change])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(120)
    assert len(wait_for_records(broker.bootstrap, topic_name, lambda records: len(records) == 20)) == 20


def cleaning_processes(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()


def is_alive(process: psutil.Process) -> bool:
    try:
        # Where nobody reaps orphans, one that has ended stays as a zombie.
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_in_rounds(folder: Path, rounds: int) -> None:
    """Kill the broker while it cleans, again and again: nothing that is the last of its key is lost."""
    # So slow that there is always a round under way; the limit is on what a round reads and writes.
    slow = {**EAGER, "log.cleaner.io.max.bytes.per.second": "300000"}
    arguments = ["--fsync", "always"]
    for name, value in slow.items():
        arguments += ["--set", f"{name}={value}"]
    broker = BrokerProcess(folder, free_port(), arguments)
    chance = random.Random(rounds)
    keys = [f"k{number}" for number in range(200)]
    try:
        broker.start()
        create(broker.bootstrap, "numbers")
        writer = Writer(broker.bootstrap, "numbers", age_ms=7 * 86_400_000)
        for number in range(rounds):
            deadline = time.monotonic() + WAIT_SECONDS
            while not (cleaning := cleaning_processes(broker.pid)) or len(writer.acknowledged) < 250:
                assert time.monotonic() < deadline, "nothing is cleaned"
                filler = f"{number} {'x' * 1000}"
                writer.generation(dict.fromkeys(chance.sample(keys, 50), filler))
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 1.5))
            cleaning += [each for each in cleaning_processes(broker.pid) if each not in cleaning]
            broker.kill()
            wait_for(lambda left=cleaning: not any(map(is_alive, left)), "a process was left behind")  # type: ignore[misc]
            broker.start()
            check(broker.bootstrap, writer)
        broker.stop()
        broker.start()
        check(broker.bootstrap, writer)
    finally:
        broker.end()


def check(bootstrap: str, writer: Writer) -> None:
    found = read_all(bootstrap, "numbers")
    offsets = [offset for offset, _key, _value in found]
    assert offsets == sorted(set(offsets))
    assert all(writer.acknowledged[offset] == (key, value) for offset, key, value in found)
    assert {key: value for _offset, key, value in found} == writer.last_values()


def test_killed_while_it_cleans(tmp_path: Path) -> None:
    kill_in_rounds(tmp_path, 2)


@pytest.mark.long
def test_killed_while_it_cleans_many_times(tmp_path: Path) -> None:
    kill_in_rounds(tmp_path, 30)


def test_a_stop_ends_the_cleaning(tmp_path: Path) -> None:
    arguments = ["--fsync", "always", "--set", "log.cleaner.backoff.ms=10"]
    broker = BrokerProcess(tmp_path, 0, [*arguments, "--set", "log.cleaner.io.max.bytes.per.second=1"])
    try:
        broker.start()
        create(broker.bootstrap, "numbers")
        writer = Writer(broker.bootstrap, "numbers")
        for number in range(3):
            writer.generation(numbered(KEYS, number))
        wait_for(lambda: bool(cleaning_processes(broker.pid)), "nothing is cleaned")
        cleaning = cleaning_processes(broker.pid)
        assert broker.stop() == 0
        assert not any(map(is_alive, cleaning))
        assert not list(tmp_path.rglob("*.cleaned"))
    finally:
        broker.end()


def test_a_cleaning_process_that_is_killed_does_no_harm(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, 0, ["--fsync", "always", "--set", "log.cleaner.backoff.ms=10"])
    try:
        broker.start()
        create(broker.bootstrap, "numbers")
        writer = Writer(broker.bootstrap, "numbers")
        for number in range(10):
            writer.generation(numbered(KEYS, number))
            for process in cleaning_processes(broker.pid):
                os.kill(process.pid, signal.SIGKILL)
        wait_for_records(broker.bootstrap, "numbers", lambda records: len(records) == 20)
        check(broker.bootstrap, writer)
        assert broker.stop() == 0
    finally:
        broker.end()


def test_without_compacted_topics_nothing_of_it_is_loaded() -> None:
    program = (
        "import sys, headrace.broker.server\n"
        "print(*(name for name in sys.modules if 'clean' in name and name.startswith('headrace')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split() == []
