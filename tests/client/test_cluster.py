"""The cluster as a client sees it: topics with their ids, offsets, and what the log refuses."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.client.cluster import Cluster
from headrace.client.errors import log_unavailable
from headrace.client.message_sizes import derived_topic_config
from headrace.client.topics import COMPACTED, printed_topic_id
from headrace.client.writing import Outgoing, RecordWriter, Written
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.testing import EmbeddedBroker
from tests.broker.broker_process import BrokerProcess
from tests.ports import free_port
from tests.query.records import wait_until


@pytest.fixture
def cluster(broker: EmbeddedBroker) -> Cluster:
    return Cluster(broker.bootstrap)


def test_a_log_that_is_away_has_not_lost_its_partitions(broker_process: BrokerProcess) -> None:
    """Whoever notes where a topic ends must not take the answer of nobody for that of an empty topic."""
    patient = Cluster(broker_process.bootstrap)
    patient.create_topic("kept", partitions=2)
    kept = patient.lookup(["kept"]).values()
    cluster = Cluster(broker_process.bootstrap, timeout_seconds=1)

    def knows_both() -> bool:
        """A busy log may not answer in time, but never with a part."""
        try:
            ends = cluster.latest(kept)
        except HeadraceError as error:
            if error.code != "log_unavailable":
                raise
            return False
        assert len(ends) == 2
        return True

    wait_until(knows_both, "the log answers")
    broker_process.kill()
    # Sooner or later librdkafka knows that there is no leader, and says so at once.
    for _ in range(3):
        with pytest.raises(HeadraceError) as away:
            cluster.latest(kept)
        assert away.value.code == "log_unavailable"
    broker_process.start()
    wait_until(knows_both, "the log answers again")


def test_a_topic_made_again_has_another_id(cluster: Cluster, topic_name: str) -> None:
    assert cluster.topic(topic_name) is None
    assert cluster.create_topic(topic_name, partitions=2)
    assert not cluster.create_topic(topic_name, partitions=3), "it is there already"
    first = cluster.topic(topic_name)
    assert first is not None
    assert first.partitions == 2
    assert first.replicas == (1, 1)
    assert first.places == ((topic_name, 0), (topic_name, 1))
    assert cluster.delete_topic(topic_name)
    assert not cluster.delete_topic(topic_name)
    cluster.create_topic(topic_name, partitions=2)
    second = cluster.topic(topic_name)
    assert second is not None
    assert second.topic_id != first.topic_id
    assert second != first


def test_looking_for_a_topic_does_not_make_it(cluster: Cluster, topic_name: str) -> None:
    assert cluster.lookup([topic_name, "not a name!"]) == {}
    assert cluster.end_offsets(topic_name) == {}
    assert topic_name not in cluster.topic_names()


def test_offsets_of_all_partitions(cluster: Cluster, topic_name: str) -> None:
    cluster.create_topic(topic_name, partitions=2)
    topics = cluster.lookup([topic_name]).values()
    for value in (b"a", b"b"):
        cluster.produce(topic_name, b"the same key", value)
    assert sorted(cluster.end_offsets(topic_name).values()) == [0, 2]
    assert sorted(cluster.stretches(topics)[topic_name].values()) == [(0, 0), (0, 2)]
    cluster.delete_topic(topic_name)
    assert cluster.stretches(topics) == {}, "a topic deleted meanwhile is left out"


def test_what_the_log_refuses_is_the_fault_of_the_request(cluster: Cluster, topic_name: str) -> None:
    with pytest.raises(HeadraceError, match=f"could not create topic `{topic_name}`") as refused:
        cluster.create_topic(topic_name, replicas=5)
    assert refused.value.code == "query_failed"


def test_a_log_that_is_not_there_is_one_error_for_all() -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    lost = Cluster(bootstrap, timeout_seconds=0.3)
    for call in (lost.topic_names, lambda: lost.topic("a"), lambda: lost.create_topic("a")):
        with pytest.raises(HeadraceError) as caught:
            call()
        expected = log_unavailable(bootstrap, "…", "…")
        assert (caught.value.code, caught.value.remedy) == (expected.code, expected.remedy)
        assert caught.value.message.startswith(f"The log at {bootstrap} could not ")


def test_a_topic_that_cannot_keep_what_it_is_for_is_refused(cluster: Cluster, topic_name: str) -> None:
    cluster.create_topic(topic_name, partitions=2, config=COMPACTED)
    with pytest.raises(HeadraceError, match=r"cannot hold plans: .* 2 partitions") as caught:
        cluster.ensure_compacted_topic(topic_name, holds="plans")
    assert caught.value.code == "invalid_setting"
    cluster.ensure_compacted_topic(f"{topic_name}_2", holds="plans")
    cluster.ensure_compacted_topic(f"{topic_name}_2", holds="plans")


def test_a_derived_topic_takes_a_whole_event_with_its_key_and_headers(
    cluster: Cluster, topic_name: str
) -> None:
    settings = Settings(max_event_bytes=1_500_000)
    cluster.create_topic(topic_name, partitions=1, config=derived_topic_config(settings))
    writer = RecordWriter(cluster.bootstrap, timeout_seconds=120, largest_message=8_000_000)
    event = bytes(settings.max_event_bytes)
    headers = (("reason", bytes(500_000)),)
    fits = Outgoing(topic=topic_name, key=event, value=event, headers=headers)
    fits_not = Outgoing(topic=topic_name, key=event + event, value=event)
    written, refused = writer.write_all([fits]), writer.write_all([fits_not])
    writer.close()
    assert written == [Written(partition=0, offset=0)]
    assert isinstance(refused[0], KafkaError)
    assert refused[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_topic_id_has_no_slash() -> None:
    assert printed_topic_id("a+b/c") == "a-b_c"
