"""Apache Kafka's own classes read the transactions in our logs, and accept our markers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordination.transactions.records import (
    TopicPartition,
    Transaction,
    tombstone,
    transaction_record,
)
from headrace.coordination.transactions.states import State
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.log.config import LogConfig
from headrace.wire.control_batches import EndMarker, build_end_marker
from headrace.wire.records import Record, build_batch
from tests.conformance.java_tools import JavaTools
from tests.log.batches import NOW, batch, open_folder, open_log
from tests.log.transactional import end, write


@pytest.fixture(scope="module")
def java_tools(java: JavaRuntime, artifacts: Artifacts) -> Iterator[JavaTools]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield tools
    finally:
        tools.close()


@pytest.mark.parametrize("committed", [True, False])
def test_markers_are_the_bytes_that_kafka_writes(java_tools: JavaTools, committed: bool) -> None:
    record = java_tools.jvm.org.apache.kafka.common.record.internal
    kind = record.ControlRecordType.COMMIT if committed else record.ControlRecordType.ABORT
    records = record.MemoryRecords.withEndTransactionMarker(
        0, NOW, 0, 7, 3, record.EndTransactionMarker(kind, 11)
    )
    buffer = records.buffer()
    content = bytearray(buffer.remaining())
    for number in range(len(content)):
        content[number] = buffer.get(number) & 0xFF
    ours = build_end_marker(EndMarker(committed, 11), producer_id=7, producer_epoch=3, timestamp=NOW)
    # The log sets the leader epoch.
    assert content[:12] + content[16:] == ours[:12] + ours[16:]


def test_a_log_with_transactions(java_tools: JavaTools, tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=1000))
    for number in range(12):
        write(log, b"x" * 50, b"y", producer=number % 3, epoch=number // 3)
        log.append(batch(b"between"), now_ms=NOW)
        if number < 10:
            end(
                log,
                committed=number % 2 == 0,
                producer=number % 3,
                epoch=number // 3 + 1,
                coordinator_epoch=4,
            )
    aborted = log.aborted_between(0, log.end_offset)
    ongoing = dict(log.parts.producers.ongoing)
    folder.close()
    assert (len(aborted), len(ongoing)) == (5, 2)
    files = ",".join(str(path) for path in sorted(log.folder.glob("*.txnindex")))
    done = java_tools.run("kafka-dump-log", "--files", files)
    assert (done.exit_code, done.errors) == (0, "")
    lines = re.findall(
        r"^version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)$",
        done.output,
        re.MULTILINE,
    )
    assert [tuple(map(int, line)) for line in lines] == [tuple(each) for each in aborted]
    logs = ",".join(str(path) for path in sorted(log.folder.glob("*.log")))
    done = java_tools.run("kafka-dump-log", "--files", logs, "--deep-iteration", "--print-data-log")
    assert done.exit_code == 0
    assert done.output.count("endTxnMarker: COMMIT coordinatorEpoch: 4") == 5
    assert done.output.count("endTxnMarker: ABORT coordinatorEpoch: 4") == 5
    snapshot = log.folder / f"{log.end_offset:020d}.snapshot"
    done = java_tools.run("kafka-dump-log", "--files", str(snapshot))
    for producer_id, first_offset in ongoing.items():
        line = rf"producerId: {producer_id} .* currentTxnFirstOffset: OptionalLong\[{first_offset}\]"
        assert re.search(line, done.output)


def test_the_records_of_the_coordinator(java_tools: JavaTools, tmp_path: Path) -> None:
    transaction = Transaction(
        transactional_id="orders",
        producer_id=7,
        previous_producer_id=6,
        producer_epoch=3,
        last_producer_epoch=2,
        timeout_ms=60_000,
        state=State.PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("events", 0), TopicPartition("events", 1)}),
        started_ms=10,
        updated_ms=11,
        client_version=2,
    )
    with open_folder(tmp_path) as folder:
        log = folder.create_topic("__transaction_state", 1, {}, LogConfig()).partitions[0]
        for record in (transaction_record(transaction), tombstone("clicks")):
            log.append(build_batch([Record(0, 0, record.key, record.value)], base_timestamp=NOW), now_ms=NOW)
    path = tmp_path / "__transaction_state-0" / f"{0:020d}.log"
    done = java_tools.run("kafka-dump-log", "--files", str(path), "--transaction-log-decoder")
    assert done.exit_code == 0
    payload = re.search(r"key: (\{.*\}) payload: (\{.*\})$", done.output, re.MULTILINE)
    assert payload is not None
    assert json.loads(payload[1]) == {"type": "0", "data": {"transactionalId": "orders"}}
    assert json.loads(payload[2]) == {
        "version": "1",
        "data": {
            "producerId": 7,
            "previousProducerId": 6,
            "producerEpoch": 3,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": 2,
            "transactionPartitions": [{"topic": "events", "partitionIds": [0, 1]}],
            "transactionLastUpdateTimestampMs": 11,
            "transactionStartTimestampMs": 10,
            "clientTransactionVersion": 2,
        },
    }
    assert '{"transactionalId":"clicks"}} payload: <DELETE>' in done.output
