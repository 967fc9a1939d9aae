"""The Fetch codec reads what kio writes, and kio reads what the codec writes."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.errors import MalformedRequestError
from headrace.wire.fetch import PartitionReply, read_request, write_reply
from tests.wire.kio_entities import entities, read, topic_key, written

VERSIONS = range(4, 19)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_requests_are_read_as_kio_wrote_them(version: int, data: st.DataObject) -> None:
    module = import_module(f"kio.schema.fetch.v{version}.request")
    expected = data.draw(entities(module.FetchRequest))
    request = read_request(memoryview(written(expected)), version)
    assert request.max_wait_ms == round(expected.max_wait.total_seconds() * 1000)
    assert request.min_bytes == expected.min_bytes
    assert request.max_bytes == expected.max_bytes
    assert request.isolation_level == expected.isolation_level
    assert request.session_id == getattr(expected, "session_id", 0)
    assert request.session_epoch == getattr(expected, "session_epoch", -1)
    assert [topic for topic, _ in request.topics] == [topic_key(topic) for topic in expected.topics]
    for (_key, partitions), topic in zip(request.topics, expected.topics, strict=True):
        for fetch, item in zip(partitions, topic.partitions, strict=True):
            assert fetch.partition == item.partition
            assert fetch.offset == item.fetch_offset
            assert fetch.max_bytes == item.partition_max_bytes
            assert fetch.leader_epoch == getattr(item, "current_leader_epoch", -1)
            assert fetch.last_epoch == getattr(item, "last_fetched_epoch", -1)
    forgotten = getattr(expected, "forgotten_topics_data", ())
    assert request.forgotten == [(topic_key(topic), list(topic.partitions)) for topic in forgotten]


def test_tagged_fields_are_skipped() -> None:
    module = import_module("kio.schema.fetch.v18.request")
    partition = module.FetchPartition(partition=3, fetch_offset=7, partition_max_bytes=100, high_watermark=12)
    expected = module.FetchRequest(
        cluster_id="somewhere",
        replica_state=module.ReplicaState(replica_id=4, replica_epoch=5),
        max_wait=timedelta(milliseconds=500),
        min_bytes=1,
        topics=(module.FetchTopic(topic_id=UUID(int=9), partitions=(partition, partition)),),
        forgotten_topics_data=(),
        rack_id="rack",
    )
    request = read_request(memoryview(written(expected)), 18)
    assert [fetch.offset for fetch in request.topics[0][1]] == [7, 7]
    assert request.max_wait_ms == 500


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_a_request_that_was_cut_off_is_malformed(data: st.DataObject, version: int) -> None:
    module = import_module(f"kio.schema.fetch.v{version}.request")
    whole = written(data.draw(entities(module.FetchRequest)))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedRequestError):
        read_request(memoryview(whole)[:cut], version)


@given(data=st.binary(max_size=300), version=st.sampled_from(VERSIONS))
def test_random_bytes_are_read_or_refused(data: bytes, version: int) -> None:
    try:
        request = read_request(memoryview(data), version)
    except MalformedRequestError:
        return
    assert sum(len(partitions) for _, partitions in request.topics) <= len(data)


offsets = st.integers(-1, 2**63 - 1)
replies = st.builds(
    lambda partition, code, marks, aborted, records: PartitionReply(
        partition, code, *marks, aborted, records, len(records)
    ),
    st.integers(0, 2**31 - 1),
    st.sampled_from([0, 1, 3, 6]),
    st.tuples(offsets, offsets, offsets),
    st.none() | st.lists(st.tuples(st.integers(0, 2**63 - 1), offsets), max_size=2),
    st.binary(max_size=300),
)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_replies_are_read_by_kio_as_they_were_meant(version: int, data: st.DataObject) -> None:
    keys = (
        st.uuids().filter(lambda value: value.int != 0) if version >= 13 else st.text(min_size=1, max_size=20)
    )
    topics = data.draw(st.lists(st.tuples(keys, st.lists(replies, max_size=3)), max_size=3))
    module = import_module(f"kio.schema.fetch.v{version}.response")
    body = b"".join(bytes(piece) for piece in write_reply(topics, version, error_code=0, session_id=77))
    reply = read(module.FetchResponse, body)
    if version >= 7:
        assert reply.session_id == 77
    assert [topic_key(topic) for topic in reply.responses] == [key for key, _ in topics]
    for (_key, expected), topic in zip(topics, reply.responses, strict=True):
        for partition, answer in zip(expected, topic.partitions, strict=True):
            assert answer.partition_index == partition.partition
            assert answer.error_code == partition.error_code
            assert answer.high_watermark == partition.high_water_mark
            assert answer.last_stable_offset == partition.last_stable_offset
            assert answer.records == partition.records
            if version >= 5:
                assert answer.log_start_offset == partition.log_start_offset
            aborted = answer.aborted_transactions
            pairs = None if aborted is None else [(item.producer_id, item.first_offset) for item in aborted]
            assert pairs == (None if partition.aborted is None else list(partition.aborted))
