"""Apache Kafka's own classes read our records of offsets and classic groups, and write the same bytes.

One JVM for all of it and no broker.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.coordination import offset_records
from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.records import StoredGroup, StoredMember
from headrace.coordination.decision import Record
from headrace.coordination.offset_records import CommittedOffset
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from tests.conformance.java_tools import JavaTools

NOW = 1_750_000_000_000
TOPIC_ID = uuid.UUID("0190a0a0-1111-7222-8333-444455556666")
OFFSETS = [
    CommittedOffset(offset=42, leader_epoch=7, metadata="note \u00e9", committed_ms=NOW),
    CommittedOffset(offset=0, committed_ms=NOW),
    CommittedOffset(offset=2**40, metadata="m" * 300, committed_ms=NOW, topic_id=TOPIC_ID),
    CommittedOffset(offset=1, committed_ms=NOW, expires_ms=NOW + 5_000_000_000),
]
STATIC = StoredMember(
    member_id="reader-1",
    instance_id="reader",
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    session_timeout_ms=45_000,
    subscription=b"\x00\x01\x02",
    assignment=b"\xff" * 300,
)
DYNAMIC = StoredMember(
    member_id="client-2",
    instance_id=None,
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    session_timeout_ms=45_000,
    subscription=b"",
    assignment=b"",
)


class Coordinator:
    """Kafka's classes for the records of its group coordinator."""

    def __init__(self, tools: JavaTools) -> None:
        self._java = tools.jvm.java
        self.kafka = tools.jvm.org.apache.kafka
        self.group = self.kafka.coordinator.group
        self._serde = self.group.GroupCoordinatorRecordSerde()

    def read(self, record: Record) -> Any:
        wrap = self._java.nio.ByteBuffer.wrap
        value = None if record.value is None else wrap(record.value)
        return self._serde.deserialize(wrap(record.key), value)

    def written(self, record: Any) -> Record:
        value = self._serde.serializeValue(record)
        key = bytes(self._serde.serializeKey(record))
        return Record(key=key, value=None if value is None else bytes(value))

    def offset_record(self, committed: CommittedOffset) -> Any:
        """The record that Kafka makes of a commit."""
        util = self._java.util
        expires = util.OptionalLong.empty()
        if committed.expires_ms is not None:
            expires = util.OptionalLong.of(committed.expires_ms)
        epoch = util.OptionalInt.empty()
        if committed.leader_epoch >= 0:
            epoch = util.OptionalInt.of(committed.leader_epoch)
        topic_id = self.kafka.common.Uuid.ZERO_UUID
        if committed.topic_id is not None:
            signed = [
                int.from_bytes(committed.topic_id.bytes[at : at + 8], "big", signed=True) for at in (0, 8)
            ]
            topic_id = self.kafka.common.Uuid(*signed)
        offset = self.group.OffsetAndMetadata(
            committed.offset, epoch, committed.metadata, committed.committed_ms, expires, topic_id
        )
        return self.group.GroupCoordinatorRecordHelpers.newOffsetCommitRecord("g", "events", 3, offset)


@pytest.fixture(scope="module")
def coordinator(java: JavaRuntime, artifacts: Artifacts) -> Iterator[Coordinator]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield Coordinator(tools)
    finally:
        tools.close()


@pytest.mark.parametrize("committed", OFFSETS)
def test_kafka_writes_offsets_as_we_do(coordinator: Coordinator, committed: CommittedOffset) -> None:
    ours = offset_records.commit_record("g", "events", 3, committed)
    assert coordinator.written(coordinator.offset_record(committed)) == ours


def test_kafka_reads_our_offsets(coordinator: Coordinator) -> None:
    record = coordinator.read(offset_records.commit_record("g", "events", 3, OFFSETS[0]))
    key, value = record.key(), record.value().message()
    assert (key.group(), key.topic(), key.partition()) == ("g", "events", 3)
    assert (value.offset(), value.leaderEpoch(), value.metadata()) == (42, 7, "note \u00e9")
    assert value.commitTimestamp() == NOW


def test_kafka_reads_our_groups_and_writes_them_again(coordinator: Coordinator) -> None:
    group = StoredGroup(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="reader-1",
        state_since_ms=NOW,
        members=(STATIC, DYNAMIC),
    )
    ours = group_records.group_record("g", group)
    record = coordinator.read(ours)
    value = record.value().message()
    assert record.key().group() == "g"
    assert (value.protocolType(), value.generation(), value.protocol()) == ("consumer", 7, "range")
    assert (value.leader(), value.currentStateTimestamp()) == ("reader-1", NOW)
    member = value.members().get(0)
    assert (member.memberId(), member.groupInstanceId()) == ("reader-1", "reader")
    assert (member.clientId(), member.clientHost()) == ("client", "/127.0.0.1")
    assert (member.rebalanceTimeout(), member.sessionTimeout()) == (300_000, 45_000)
    assert (bytes(member.subscription()), bytes(member.assignment())) == (b"\x00\x01\x02", b"\xff" * 300)
    assert value.members().get(1).groupInstanceId() is None
    assert coordinator.written(record) == ours


def test_a_new_group_is_written_as_kafka_writes_it(coordinator: Coordinator) -> None:
    group = coordinator.group.classic.ClassicGroup(
        coordinator.kafka.common.utils.LogContext(),
        "g",
        coordinator.group.classic.ClassicGroupState.EMPTY,
        coordinator.kafka.common.utils.Time.SYSTEM,
    )
    theirs = coordinator.group.GroupCoordinatorRecordHelpers.newEmptyGroupMetadataRecord(group)
    stored = StoredGroup(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        state_since_ms=group.currentStateTimestampOrDefault(),
        members=(),
    )
    assert coordinator.written(theirs) == group_records.group_record("g", stored)


def test_kafka_reads_our_tombstones(coordinator: Coordinator) -> None:
    for ours in (offset_records.tombstone("g", "events", 3), group_records.tombstone("g")):
        record = coordinator.read(ours)
        assert record.value() is None
        assert coordinator.written(record) == ours
