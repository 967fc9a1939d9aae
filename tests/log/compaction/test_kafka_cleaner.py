"""Apache Kafka's cleaner and ours on the same log leave the same; Kafka's tools read what ours leaves."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.log.compaction.cleaner import Cleaner
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producers.verification import TransactionEnd
from headrace.wire.control_batches import EndMarker
from headrace.wire.record_batch import scan
from headrace.wire.records import read_records
from tests.conformance.java_tools import JavaTools
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import DELETE_HORIZON, append, compact_config, keyed, names_in, records_of
from tests.log.compaction.kafka_cleaner import KafkaCleaner

# Kafka allows no smaller segments than these, and writes its own index entries.
CONFIG = compact_config(segment_bytes=1 << 20, index_interval_bytes=500, delete_retention_ms=3000)


@pytest.fixture(scope="module")
def java_tools(java: JavaRuntime, artifacts: Artifacts) -> Iterator[JavaTools]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield tools
    finally:
        tools.close()


def described(folder: Path) -> list[tuple[Any, ...]]:
    """All batches of a partition's folder by segment, with the fields that must agree."""
    found: list[tuple[Any, ...]] = []
    for path in sorted(folder.glob("*.log")):
        found.append((path.name,))
        data = path.read_bytes()
        for header in scan(data):
            horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
            records = tuple(
                (
                    header.base_offset + record.offset_delta,
                    header.max_timestamp
                    if header.log_append_time
                    else header.base_timestamp + record.timestamp_delta,
                    *record[2:],
                )
                for record in read_records(data, header)
            )
            found.append(
                (
                    (header.base_offset, header.last_offset, header.leader_epoch, header.attributes),
                    (header.producer_id, header.producer_epoch, header.base_sequence),
                    (header.max_timestamp, horizon, header.record_count),
                    records,
                )
            )
    return found


def fill(log: PartitionLog, seed: int, batches: int, sequences: dict[int, int]) -> None:
    chance = random.Random(seed)
    for _ in range(batches):
        records = [
            (
                chance.choice([b"a", b"b", b"c", b"d%d" % chance.randrange(40), b"long" * 20]),
                None if chance.random() < 0.15 else chance.randbytes(chance.choice([0, 10, 70, 9000])),
            )
            for _ in range(chance.choice([1, 1, 3, 80]))
        ]
        producer = chance.choice([-1, -1, 7, 8, 9])
        fields = {}
        if producer >= 0:
            fields = {
                "producer_id": producer,
                "producer_epoch": 0,
                "sequence": sequences.get(producer, 0),
            }
            sequences[producer] = sequences.get(producer, 0) + len(records)
        append(
            log,
            *records,
            timestamps=[NOW + chance.randrange(-5000, 5000) for _ in records],
            compression=chance.randrange(5),
            headers=((b"h", b"v"), (b"n", None)) if chance.random() < 0.3 else (),
            **fields,
        )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_is_left(java_tools: JavaTools, tmp_path: Path, seed: int) -> None:
    kafka = KafkaCleaner(java_tools)
    folder, log = open_log(tmp_path / "data", CONFIG)
    sequences: dict[int, int] = {}
    now = NOW
    for number in range(4):
        fill(log, seed * 10 + number, 60, sequences)
        log.roll(now_ms=NOW)
        fill(log, seed * 100 + number, 20, sequences)
        log.roll(now_ms=NOW)
        log.flush()
        cleaner = Cleaner(folder)
        part = cleaner.dirty_part(log, now)
        end = log.segments.active.base_offset
        folder.close()
        theirs = tmp_path / f"kafka-{number}" / "events-0"
        shutil.copytree(tmp_path / "data" / "events-0", theirs)
        reached = kafka.clean(theirs, CONFIG, first_dirty=part.first_dirty, end_offset=end, now_ms=now)
        folder, log = open_log(tmp_path / "data", CONFIG)
        assert Cleaner(folder).clean(now)
        assert folder.cleaned_offset(log) == reached == end
        folder.checkpoint(now)
        assert described(tmp_path / "data" / "events-0") == described(theirs)
        now += 1500
    check_with_tools(java_tools, folder, log)
    folder.close()


class Transactional:
    """Producers that write in transactions, several at a time."""

    def __init__(self, log: PartitionLog, chance: random.Random) -> None:
        self.log = log
        self.chance = chance
        # Epoch and next sequence number.
        self.producers: dict[int, tuple[int, int]] = {70: (0, 0), 71: (0, 0), 72: (0, 0)}
        self.open: set[int] = set()

    def step(self) -> None:
        producer = self.chance.choice(list(self.producers))
        if producer in self.open and self.chance.random() < 0.35:
            self.end(producer)
        else:
            self.write(producer)

    def write(self, producer: int) -> None:
        epoch, sequence = self.producers[producer]
        records = [
            (b"t%d" % self.chance.randrange(12), None if self.chance.random() < 0.2 else b"value")
            for _ in range(self.chance.choice([1, 4]))
        ]
        batch = keyed(
            *records,
            producer_id=producer,
            producer_epoch=epoch,
            sequence=sequence,
            transactional=True,
            compression=self.chance.choice([0, 4]),
        )
        guard = self.log.begin_verification(producer, sequence, epoch, epoch_bump=True, now_ms=NOW)
        self.log.append(batch, now_ms=NOW, permission=guard)
        self.producers[producer] = epoch, sequence + len(records)
        self.open.add(producer)

    def end(self, producer: int) -> None:
        epoch = self.producers[producer][0] + 1
        marker = EndMarker(self.chance.random() < 0.5, 0)
        self.log.append_marker(
            TransactionEnd(marker, 2), producer_id=producer, producer_epoch=epoch, now_ms=NOW
        )
        self.producers[producer] = epoch, 0
        self.open.discard(producer)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_is_left_of_transactions(java_tools: JavaTools, tmp_path: Path, seed: int) -> None:
    kafka = KafkaCleaner(java_tools)
    folder, log = open_log(tmp_path / "data", CONFIG)
    producing = Transactional(log, random.Random(seed))
    now, rounds = NOW, 0
    for number in range(6):
        for _ in range(60):
            producing.step()
        if number % 2:
            for producer in sorted(producing.open):
                producing.end(producer)
        log.roll(now_ms=NOW)
        append(log, (b"plain", b"%d" % number))
        log.flush()
        part = Cleaner(folder).dirty_part(log, now)
        folder.close()
        theirs = tmp_path / f"kafka-{number}" / "events-0"
        shutil.copytree(tmp_path / "data" / "events-0", theirs)
        folder, log = open_log(tmp_path / "data", CONFIG)
        producing.log = log
        if part.dirty_bytes:
            kafka.clean(theirs, CONFIG, first_dirty=part.first_dirty, end_offset=part.end_offset, now_ms=now)
            assert Cleaner(folder).clean(now)
            rounds += 1
            folder.checkpoint(now)
            assert described(tmp_path / "data" / "events-0") == described(theirs)
            ours = {path.name: path.read_bytes() for path in Path(log.path).glob("*.txnindex")}
            assert {name: content for name, content in ours.items() if content} == {
                path.name: path.read_bytes() for path in theirs.glob("*.txnindex") if path.stat().st_size
            }
        now += 1500
    assert rounds >= 3
    folder.close()


def check_with_tools(java_tools: JavaTools, folder: DataFolder, log: PartitionLog) -> None:
    """`kafka-dump-log` reads segments and indexes, `OffsetCheckpointFile` the cleaned offset."""
    path = Path(log.path)
    logs = ",".join(str(each) for each in sorted(path.glob("*.log")))
    done = java_tools.run("kafka-dump-log", "--files", logs, "--deep-iteration")
    assert done.exit_code == 0
    assert "isvalid: false" not in done.output
    offsets = [int(text) for text in re.findall(r"^\| offset: (\d+)", done.output, re.MULTILINE)]
    assert offsets == [record.offset for record in records_of(log)]
    assert "deleteHorizonMs: OptionalLong[" in done.output
    indexes = ",".join(str(each) for each in sorted(path.glob("*index")))
    done = java_tools.run("kafka-dump-log", "--files", indexes, "--index-sanity-check")
    assert (done.exit_code, done.errors) == (0, "")
    jvm = java_tools.jvm
    channel = jvm.org.apache.kafka.storage.internals.log.LogDirFailureChannel(1)
    file = jvm.java.io.File(f"{folder.path}/cleaner-offset-checkpoint")
    found = jvm.org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile(file, channel).read()
    assert {str(partition): offset for partition, offset in found.items()} == {
        "events-0": folder.cleaned_offset(log)
    }
    assert not [name for name in names_in(log) if name.endswith((".swap", ".cleaned"))]
