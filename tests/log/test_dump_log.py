"""Apache Kafka's own classes read what the log writes: `kafka-dump-log`, and readers of the small files."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.log.config import LogConfig
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.conformance.java_tools import JavaTools
from tests.log.batches import NOW, batch, contents, open_folder

CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=400, segment_index_bytes=480)
TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.fixture(scope="module")
def java_tools(java: JavaRuntime, artifacts: Artifacts) -> Iterator[JavaTools]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield tools
    finally:
        tools.close()


def append(log: PartitionLog, numbers: range, compression: int = 0) -> None:
    for number in numbers:
        values = [b"%d" % (number * 3 + each) * 7 for each in range(3)]
        times = [NOW + number * 10, NOW + number * 10 - 15, NOW + number * 10 + 3]
        log.append(
            batch(
                *values,
                timestamps=times,
                compression=compression,
                producer_id=number % 2 + 70,
                producer_epoch=0,
                sequence=number // 2 * 3,
            ),
            now_ms=NOW,
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions: one that saw stops, damage and deletions, one with log append time."""
    path = tmp_path_factory.mktemp("data")
    disk = FaultyFileSystem()
    folder = open_folder(path, CONFIG, filesystem=disk)
    log = folder.create_topic("events", 1, {}, CONFIG, topic_id=TOPIC_ID).partitions[0]
    for codec in range(5):
        append(log, range(codec * 40, codec * 40 + 40), codec)
    folder.checkpoint(NOW)
    append(log, range(200, 230))
    disk = disk.kill()
    with (log.folder / f"{log.segments.bases[-1]:020d}.log").open("ab") as torn:
        torn.write(batch(b"torn")[:-3])
    folder = open_folder(path, CONFIG, filesystem=disk)
    log = folder.topics["events"].partitions[0]
    append(log, range(230, 260))
    for damaged in sorted(log.folder.glob("*index"))[:4]:
        damaged.write_bytes(b"")
    folder.close()
    folder = open_folder(path, CONFIG)
    log = folder.topics["events"].partitions[0]
    assert len(contents(log)) == 780
    for time in range(NOW, NOW + 2600, 10):
        log.offset_for_timestamp(time)
    log.delete_records_before(100)
    append(log, range(260, 270), 3)
    arrival = folder.create_topic("arrival", 1, {}, LogConfig(timestamp_type="LogAppendTime")).partitions[0]
    arrival.append(batch(b"a", timestamps=[5]), now_ms=NOW)
    folder.close()
    return path


def segment_files(data: Path, kind: str) -> list[Path]:
    files = sorted((data / "events-0").glob(f"*.{kind}"))
    assert len(files) > 3
    return files


def joined(files: list[Path]) -> str:
    return ",".join(str(file) for file in files)


def test_logs(java_tools: JavaTools, data: Path) -> None:
    logs = segment_files(data, "log")
    done = java_tools.run("kafka-dump-log", "--files", joined(logs), "--deep-iteration", "--print-data-log")
    assert done.exit_code == 0
    # The tool of Kafka 4.3 expects the first record of each file to follow offset -1.
    gaps = re.findall(r"^  (-?\d+) is followed by \d+$", done.errors, re.MULTILINE)
    assert set(gaps) == {"-1"}
    assert len(done.errors.splitlines()) == 2 * len(gaps)
    offsets = [int(text) for text in re.findall(r"^\| offset: (\d+)", done.output, re.MULTILINE)]
    with open_folder(data, CONFIG) as folder:
        log = folder.topics["events"].partitions[0]
        # The first batch begins before the start offset.
        assert offsets == list(range(log.segments.bases[0], log.end_offset))
        values = dict(re.findall(r"^\| offset: (\d+) .* payload: (.*)$", done.output, re.MULTILINE))
        assert all(values[str(offset)] == value.decode() for offset, _, value in contents(log))
    for codec in ("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"):
        assert f"compresscodec: {codec.lower()}" in done.output.lower()
    assert "isvalid: false" not in done.output


def test_log_append_time(java_tools: JavaTools, data: Path) -> None:
    path = data / "arrival-0" / "00000000000000000000.log"
    done = java_tools.run("kafka-dump-log", "--files", str(path), "--deep-iteration")
    assert f"LogAppendTime: {NOW}" in done.output


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_indexes(java_tools: JavaTools, data: Path, kind: str) -> None:
    files = segment_files(data, kind)
    for check in ("--verify-index-only", "--index-sanity-check"):
        done = java_tools.run("kafka-dump-log", "--files", joined(files), check)
        assert (done.exit_code, done.errors) == (0, "")
    assert done.output.count("passed sanity check") == len(files) - done.output.count("is empty")
    done = java_tools.run("kafka-dump-log", "--files", joined(files))
    entries = re.findall(r"^(?:offset: \d+ position|timestamp: \d+ offset): \d+$", done.output, re.MULTILINE)
    assert len(entries) > 3 * len(files)


def test_snapshots(java_tools: JavaTools, data: Path) -> None:
    files = segment_files(data, "snapshot")
    done = java_tools.run("kafka-dump-log", "--files", joined(files))
    assert (done.exit_code, done.errors) == (0, "")
    with open_folder(data, CONFIG) as folder:
        log = folder.topics["events"].partitions[0]
        assert files[-1].stem == f"{log.end_offset:020d}"
        for producer in log.parts.producers.active():
            last = producer.batches[-1]
            line = (
                f"producerId: {producer.producer_id} producerEpoch: 0 coordinatorEpoch: -1 "
                f"currentTxnFirstOffset: OptionalLong.empty lastTimestamp: {producer.last_timestamp} "
                f"firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} "
                f"lastOffset: {last.last_offset}"
            )
            assert line in done.output


def test_small_files(java_tools: JavaTools, data: Path) -> None:
    jvm = java_tools.jvm
    checkpoint = jvm.org.apache.kafka.storage.internals.checkpoint
    channel = jvm.org.apache.kafka.storage.internals.log.LogDirFailureChannel(1)

    def file(*parts: str) -> object:
        return jvm.java.io.File(str(data.joinpath(*parts)))

    with open_folder(data, CONFIG) as folder:
        log = folder.topics["events"].partitions[0]
        end_offset, epochs = log.end_offset, log.parts.epochs.entries
    points = checkpoint.OffsetCheckpointFile(file("recovery-point-offset-checkpoint"), channel).read()
    found = {str(partition): offset for partition, offset in points.items()}
    assert found == {"events-0": end_offset, "arrival-0": 1}
    entries = checkpoint.LeaderEpochCheckpointFile(
        file("events-0", "leader-epoch-checkpoint"), channel
    ).read()
    assert tuple((entry.epoch(), entry.startOffset()) for entry in entries) == epochs
    metadata = checkpoint.PartitionMetadataFile(file("events-0", "partition.metadata"), channel).read()
    assert str(metadata.topicId()) == "ABEiM0RVZneImaq7zN3u_w"
