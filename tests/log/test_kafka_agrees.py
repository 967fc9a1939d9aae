"""Apache Kafka's own classes and tools agree with ours: on batches, on what is refused and how, on files.

One JVM for all of it and no broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.log.config import LogConfig
from headrace.log.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    LogError,
    OutOfOrderSequenceError,
)
from headrace.log.partition.append_rules import prepare
from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.log.producers.producer_snapshot import ProducerSnapshot, decode
from headrace.log.producers.producer_state import LARGEST_SEQUENCE, ProducerState
from headrace.wire.record_batch import BatchHeader, assign, read_header, scan, write_header
from headrace.wire.records import Record, build_batch, read_records
from tests.conformance.java_tools import JavaTools
from tests.log.kafka_classes import KafkaClasses, Verdict

NOW = 1_750_000_000_000
HOUR = 3_600_000
TOP = LARGEST_SEQUENCE
RECORDS = [
    Record(0, 0, None, None),
    Record(1, 5, b"", b""),
    Record(2, -3, b"key", b"value" * 1_000, ((b"trace", b"\x00\xff"), (b"none", None))),
    Record(3, 70_000, b"k" * 200, bytes(range(256)) * 300),
]
REFUSALS = {
    InvalidRecordError: "InvalidRecordException",
    InvalidTimestampError: "InvalidTimestampException",
    OutOfOrderSequenceError: "OutOfOrderSequenceException",
    InvalidProducerEpochError: "InvalidProducerEpochException",
}


@pytest.fixture(scope="module")
def classes(java: JavaRuntime, artifacts: Artifacts) -> Iterator[KafkaClasses]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield KafkaClasses(tools)
    finally:
        tools.close()


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_we_read_what_java_writes(classes: KafkaClasses, compression: int) -> None:
    batch = classes.build_batch(RECORDS, compression, NOW)
    (header,) = scan(batch)
    assert header.compression == compression
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 70_000)
    assert list(read_records(batch, header)) == RECORDS
    if compression == 0:
        assert batch == build_batch(RECORDS, base_timestamp=NOW)


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("level", [None, 1])
def test_java_reads_what_we_write(classes: KafkaClasses, compression: int, level: int | None) -> None:
    batch = build_batch(RECORDS, base_timestamp=NOW, compression=compression, level=level)
    assert classes.values_in(bytes(batch)) == [record.value for record in RECORDS]


def sent(records: Sequence[Record] | None = None, *, compression: int = 0, **fields: int) -> bytearray:
    chosen = [Record(0, 0, b"k", b"v"), Record(1, 1, b"k", b"v")] if records is None else records
    batch = build_batch(chosen, base_timestamp=NOW, compression=compression)
    if fields:
        write_header(batch, read_header(batch)._replace(**fields))
    return batch


KEYLESS = [Record(0), Record(1, 0, b"k"), Record(2), Record(3), Record(4)]
FUTURE = [Record(0, 0, b"k"), Record(1, 2 * HOUR, b"k", b"v")]
BATCHES = {
    "plain": sent(),
    "gzip": sent(compression=1),
    "lz4": sent(compression=3),
    "keyless": sent(KEYLESS),
    "keyless zstd": sent(KEYLESS, compression=4),
    "from the future": sent(FUTURE),
    "from the future snappy": sent(FUTURE, compression=2),
    "from the past": sent([Record(0, -2 * HOUR, b"k")]),
    "without timestamps": build_batch([Record(0, 0, b"k", b"v")], base_timestamp=-1),
    "negative range": sent(last_offset_delta=-1),
    "no records": sent(record_count=0),
    "inconsistent count": sent(record_count=7),
    "control": sent(attributes=0x20),
    "producer without sequence": sent(producer_id=4, producer_epoch=0),
    "claims log append time": sent(attributes=0x08),
    "wrong newest timestamp": sent(max_timestamp=-1),
    "gaps in offsets": sent([Record(0, 0, b"k"), Record(9, 0, b"k")], compression=4, last_offset_delta=1),
}
CONFIGS = {
    "default": LogConfig(),
    "compacted": LogConfig(cleanup_policy=frozenset({"compact"})),
    "log append time": LogConfig(timestamp_type="LogAppendTime"),
    "past limit": LogConfig(timestamp_before_max_ms=HOUR),
    "uncompressed": LogConfig(compression_type="uncompressed"),
    "gzip": LogConfig(compression_type="gzip"),
    "lz4": LogConfig(compression_type="lz4"),
    "zstd compacted": LogConfig(compression_type="zstd", cleanup_policy=frozenset({"compact"})),
    "snappy log append time": LogConfig(compression_type="snappy", timestamp_type="LogAppendTime"),
}
# Kafka tries to renumber these offsets and fails on its own iterator: an UNKNOWN_SERVER_ERROR.
STUMBLES = "UnsupportedOperationException"


@pytest.mark.parametrize("config_name", CONFIGS)
@pytest.mark.parametrize("batch_name", BATCHES)
def test_the_same_verdict_on_a_batch(classes: KafkaClasses, batch_name: str, config_name: str) -> None:
    batch, config = bytearray(BATCHES[batch_name]), CONFIGS[config_name]
    theirs = classes.validate(bytes(batch), config, NOW)
    ours = our_verdict(batch, config)
    if theirs.refusal == STUMBLES:
        assert batch_name == "gaps in offsets"
        return
    if ours.batch is None or theirs.batch is None:
        assert ours == theirs
        return
    (header,), (their_header,) = scan(ours.batch), scan(theirs.batch)
    if header.compression == scan(batch)[0].compression:
        assert ours.batch == theirs.batch
    # A batch that is compressed again: compressors give different bytes for the same records, and Kafka makes
    # the timestamps of records relative to that of the first.
    assert header == their_header._replace(
        length=header.length, crc=header.crc, base_timestamp=header.base_timestamp
    )
    timestamps_count = not (header.log_append_time or batch_name == "claims log append time")
    assert absolute(ours.batch, timestamps_count) == absolute(theirs.batch, timestamps_count)


def our_verdict(batch: bytearray, config: LogConfig) -> Verdict:
    (header,) = scan(batch)
    try:
        prepared, _ = prepare(batch, header, config, NOW, "events-0")
    except LogError as error:
        records = getattr(error, "records", ())
        return Verdict(refusal=REFUSALS[type(error)], message=str(error), records=records)
    return Verdict(batch=bytes(prepared))


def absolute(batch: bytes, timestamps_count: bool) -> list[Record]:
    """The records with timestamps instead of timestamp deltas."""
    (header,) = scan(batch)
    base = header.base_timestamp
    return [
        record._replace(timestamp_delta=base + record.timestamp_delta if timestamps_count else 0)
        for record in read_records(batch, header)
    ]


def produced(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> bytearray:
    return build_batch(
        [Record(index) for index in range(count)],
        base_timestamp=NOW,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


HISTORIES = {
    "in order with repetitions": [
        *(produced(10 * index, 10) for index in range(6)),
        *(produced(10 * index, 10) for index in range(6)),
        produced(40, 5),
        produced(55, 5),
        produced(60),
        produced(62),
        produced(61),
    ],
    "epochs": [
        produced(0, epoch=1),
        produced(1, epoch=0),
        produced(1, epoch=2),
        produced(0, 3, epoch=2),
        produced(0, 3, epoch=2),
        produced(1, epoch=1),
        produced(3, epoch=2),
        produced(0, epoch=32_767),
    ],
    "wrapping": [
        produced(TOP - 5, 3),
        produced(TOP - 2, 3),
        produced(0, 2),
        produced(TOP - 2, 3),
        produced(2, 1),
        produced(0, 2),
    ],
    "wrapping inside": [
        produced(TOP - 1, 4),
        produced(2),
        produced(TOP - 1, 4),
        produced(TOP, 3),
        produced(4),
    ],
    "several producers": [
        produced(100, producer=1),
        produced(0, producer=2),
        produced(101, producer=1),
        produced(2, producer=2),
        produced(1, producer=2, epoch=3),
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_same_course_of_idempotent_producers(classes: KafkaClasses, tmp_path: Path, name: str) -> None:
    theirs = classes.producers(tmp_path)
    ours = ProducerState("events-0")
    end = 0
    for index, batch in enumerate(HISTORIES[name]):
        header = read_header(batch)
        assign(batch, header, end, 0)
        verdict = theirs.append(bytes(batch))
        if isinstance(verdict, str):
            # A space is missing in Kafka's text.
            verdict = re.sub(r"(\d)at offset", r"\1 at offset", verdict)
        answer = answer_of(ours, header, end)
        assert answer == verdict, index
        if answer == "new":
            ours.appended(header, end, header.max_timestamp)
            end += header.record_count
    theirs.take_snapshot()
    (snapshot,) = tmp_path.glob("*.snapshot")
    assert sorted_entries(snapshot.read_bytes()) == sorted_entries(ours.snapshot())


def answer_of(state: ProducerState, header: BatchHeader, offset: int) -> str | tuple[int, int, int]:
    try:
        duplicate = state.check(header, offset)
    except LogError as error:
        return f"{REFUSALS[type(error)]}: {error}"
    return "new" if duplicate is None else tuple(duplicate)


def sorted_entries(snapshot: bytes) -> list[ProducerSnapshot]:
    """Kafka writes producers in hash-map order, and does not know our part of the file."""
    return sorted(decode(snapshot)[0])


def test_dump_log_reads_a_segment_and_a_snapshot(classes: KafkaClasses, tmp_path: Path) -> None:
    state = ProducerState("events-0")
    segment = bytearray()
    offset = 0
    for compression in range(5):
        records = [Record(index, index, b"k%d" % index, b"v%d" % index) for index in range(3)]
        batch = build_batch(
            records,
            base_timestamp=NOW,
            compression=compression,
            producer_id=50 + compression,
            producer_epoch=compression,
            base_sequence=0,
        )
        header = read_header(batch)
        assign(batch, header, offset, 0)
        state.appended(header, offset, header.max_timestamp)
        segment += batch
        offset += 3
    # Several batches per producer: only our part of the snapshot contains those before the newest.
    again = produced(3, 1, epoch=4, producer=54)
    header = read_header(again)
    assign(again, header, offset, 0)
    state.appended(header, offset, NOW + 9)
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(segment)
    snapshot = tmp_path / "00000000000000000016.snapshot"
    snapshot.write_bytes(state.snapshot())

    dumped = classes.tools.run("kafka-dump-log", "--print-data-log", "--files", str(log))
    assert dumped.exit_code == 0, dumped.errors
    assert re.findall(r"compresscodec: (\w+)", dumped.output) == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert re.findall(r"payload: (\w+)", dumped.output) == ["v0", "v1", "v2"] * 5
    assert "isvalid: false" not in dumped.output

    dumped = classes.tools.run("kafka-dump-log", "--files", str(snapshot))
    assert dumped.exit_code == 0, dumped.errors
    entries = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+).*?lastTimestamp: (\d+).*?firstSequence: (\d+) "
        r"lastSequence: (\d+) lastOffset: (\d+) offsetDelta: (\d+) timestamp: (\d+)",
        dumped.output,
    )
    assert sorted(entries) == [
        *(
            (str(50 + index), str(index), str(NOW + 2), "0", "2", str(3 * index + 2), "2", str(NOW + 2))
            for index in range(4)
        ),
        ("54", "4", str(NOW + 9), "3", "3", "15", "0", str(NOW + 9)),
    ]


def test_java_reads_the_leader_epoch_checkpoint(classes: KafkaClasses, tmp_path: Path) -> None:
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(4, 120)
    path = tmp_path / "events-0" / "leader-epoch-checkpoint"
    path.parent.mkdir()
    path.write_bytes(epochs.to_bytes())
    jvm = classes.tools.jvm
    storage = jvm.org.apache.kafka.storage.internals
    file = storage.checkpoint.LeaderEpochCheckpointFile(
        jvm.java.io.File(str(path)), storage.log.LogDirFailureChannel(1)
    )
    read = [str(entry) for entry in file.read()]
    assert read == ["EpochEntry[epoch=0, startOffset=0]", "EpochEntry[epoch=4, startOffset=120]"]
    file.write(file.read())
    assert path.read_bytes() == epochs.to_bytes()
