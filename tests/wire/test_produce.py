"""The Produce codec reads what kio writes, and kio reads what the codec writes."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.errors import MalformedRequestError
from headrace.wire.produce import Outcome, read_request, write_reply
from tests.wire.kio_entities import entities, read, topic_key, written

VERSIONS = range(3, 14)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_requests_are_read_as_kio_wrote_them(version: int, data: st.DataObject) -> None:
    module = import_module(f"kio.schema.produce.v{version}.request")
    expected = data.draw(entities(module.ProduceRequest))
    request = read_request(memoryview(bytearray(written(expected))), version)
    assert request.transactional_id == expected.transactional_id
    assert request.acks == expected.acks
    assert request.timeout_ms == round(expected.timeout.total_seconds() * 1000)
    assert [topic for topic, _ in request.topics] == [topic_key(topic) for topic in expected.topic_data]
    for (_key, partitions), topic in zip(request.topics, expected.topic_data, strict=True):
        assert [partition for partition, _ in partitions] == [item.index for item in topic.partition_data]
        for (_index, records), item in zip(partitions, topic.partition_data, strict=True):
            assert (None if records is None else bytes(records)) == item.records


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_a_request_that_was_cut_off_is_malformed(data: st.DataObject, version: int) -> None:
    module = import_module(f"kio.schema.produce.v{version}.request")
    whole = written(data.draw(entities(module.ProduceRequest)))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedRequestError):
        read_request(memoryview(whole)[:cut], version)


@given(data=st.binary(max_size=300), version=st.sampled_from(VERSIONS))
def test_random_bytes_are_read_or_refused(data: bytes, version: int) -> None:
    try:
        request = read_request(memoryview(data), version)
    except MalformedRequestError:
        return
    assert sum(len(records or b"") for _, parts in request.topics for _, records in parts) <= len(data)


outcomes = st.builds(
    Outcome,
    st.integers(0, 2**31 - 1),
    st.sampled_from([0, 1, 2, 45, 87]),
    st.integers(-1, 2**63 - 1),
    # As far as dates go, which is what kio makes of it.
    st.integers(-1, 4_102_444_800_000),
    st.integers(-1, 2**63 - 1),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.text(max_size=10) | st.none()), max_size=3),
    st.text(max_size=20) | st.none(),
)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_replies_are_read_by_kio_as_they_were_meant(version: int, data: st.DataObject) -> None:
    topics = (
        st.uuids().filter(lambda value: value.int != 0) if version >= 13 else st.text(min_size=1, max_size=20)
    )
    replies = data.draw(st.lists(st.tuples(topics, st.lists(outcomes, max_size=3)), max_size=3))
    module = import_module(f"kio.schema.produce.v{version}.response")
    reply = read(module.ProduceResponse, write_reply(replies, version))
    assert [topic_key(topic) for topic in reply.responses] == [topic for topic, _ in replies]
    for (_topic, expected), topic in zip(replies, reply.responses, strict=True):
        for outcome, answer in zip(expected, topic.partition_responses, strict=True):
            assert (answer.index, answer.error_code, answer.base_offset) == outcome[:3]
            assert answer.log_append_time == _as_date(outcome.log_append_time)
            if version >= 5:
                assert answer.log_start_offset == outcome.log_start_offset
            if version >= 8:
                errors = [(item.batch_index, item.batch_index_error_message) for item in answer.record_errors]
                assert errors == list(outcome.record_errors)
                assert answer.error_message == outcome.error_message


def test_topics_are_named_by_id_from_version_13_on() -> None:
    topic = uuid.uuid4()
    reply = read(
        import_module("kio.schema.produce.v13.response").ProduceResponse,
        write_reply([(topic, [Outcome(0, 0, 5)])], 13),
    )
    assert reply.responses[0].topic_id == topic


def _as_date(milliseconds: int) -> datetime | None:
    return None if milliseconds == -1 else datetime.fromtimestamp(milliseconds / 1000, UTC)
