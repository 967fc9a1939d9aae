"""Whether a log still has what it had: records, markers, and what compaction leaves count; holes do not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.pipeline.runs.witnesses import has_records, stands
from headrace.wire.record_batch import BatchHeader
from tests.broker.broker_process import PowerCutBroker
from tests.runs.sink_topic import SOURCE, Sink


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[PowerCutBroker]:
    process = PowerCutBroker(tmp_path / "log")
    process.start()
    yield process
    process.end()


def test_a_witness_stands_only_where_there_is_a_record(sink: Sink) -> None:
    sink.write(0, f"Q/{SOURCE}/0/0/0", f"Q/{SOURCE}/0/1/0")
    assert sink.has(0, 1)
    assert not sink.has(0, 2), "behind the last record"
    assert not sink.has(0, 7), "behind the end"
    assert not sink.has(1, 0), "of an empty partition"
    assert has_records(sink.cluster.bootstrap, [sink.topic], {})


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_marker_of_a_transaction_is_a_witness(sink: Sink, is_committed: bool) -> None:
    other = Producer({"bootstrap.servers": sink.cluster.bootstrap, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(10)
    other.begin_transaction()
    sink.write(0, "Z/other/0/0/0", producer=other)
    assert sink.has(0, 0), "the transaction is open"
    if is_committed:
        other.commit_transaction(10)
    else:
        other.abort_transaction(10)
    assert sink.cluster.latest([sink.topic])[sink.topic.name, 0] == 2
    assert sink.has(0, 1)
    assert sink.has(0, 0)


def test_a_hole_is_none_and_neither_is_what_follows(machine: PowerCutBroker) -> None:
    sink = Sink(machine.bootstrap)
    sink.write(0, f"Q/{SOURCE}/0/0/0", f"Q/{SOURCE}/0/1/0")
    sink.cluster.close()
    machine.cut_power("none")
    machine.start()
    sink.reconnect(machine.bootstrap)
    assert not sink.has(0, 1), "in the hole at the end"
    sink.write(0, f"Q/{SOURCE}/0/2/0")
    assert not sink.has(0, 1), "in the hole"
    assert sink.has(0, sink.cluster.latest([sink.topic])[sink.topic.name, 0] - 1)
    sink.cluster.close()


def batch(
    first: int, last: int = -1, *, epoch: int = 0, records: int = 1, producer: int = 7, attributes: int = 0
) -> BatchHeader:
    return BatchHeader(
        base_offset=first,
        length=0,
        leader_epoch=epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(last, first) - first,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        record_count=records,
    )


def at_nine(batches: Sequence[BatchHeader], start: int = 0) -> bool:
    def headers_from(offset: int) -> Sequence[BatchHeader]:
        assert offset >= start, "out of range"
        # Few at a time, as a fetch has its limits.
        return [each for each in batches if each.next_offset > offset][:2]

    return stands(headers_from, 9, start)


def test_what_compaction_left_of_a_batch_stands() -> None:
    assert at_nine([batch(0, 3), batch(4, 9, records=2)])
    assert at_nine([batch(0, 3), batch(4, 9, records=0)]), "it is empty, but of a producer"


def test_a_hole_stands_for_nothing() -> None:
    assert not at_nine([batch(0, 3), batch(4, 1003, records=0, producer=-1)])
    assert not at_nine([batch(0, 3)])
    assert not at_nine([])


def test_a_gap_within_a_leader_epoch_was_compacted() -> None:
    assert at_nine([batch(0, 3), batch(4, 4), batch(5, 5), batch(6, 6), batch(12, 14)])
    assert at_nine([batch(2, 2), batch(1000)], start=1)
    assert at_nine([batch(7), batch(20)], start=7)


def test_a_gap_between_leader_epochs_may_have_been_a_hole() -> None:
    assert not at_nine([batch(0, 3), batch(12, 14, epoch=1)])
    assert not at_nine([batch(12, 14)]), "nothing is left before it"
    assert not at_nine([batch(12, 14)], start=5)


def test_a_hole_next_to_a_gap_proves_nothing() -> None:
    assert not at_nine([batch(0, 3), batch(12, 14, records=0, producer=-1)])
    assert not at_nine([batch(0, 5, records=0, producer=-1), batch(12, 14)])
