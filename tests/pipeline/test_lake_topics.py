"""What a run of the lake asks the log at its start: which records it has, which dead letters were sent."""

from __future__ import annotations

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.positions import Progress, Reached
from headrace.pipeline.spark.lake_dead_letters import already_sent
from headrace.pipeline.spark.lake_start import AskedTopic, gaps_before, starting_offsets
from headrace.testing import EmbeddedBroker


def _made(cluster: Cluster, name: str, *, partitions: int = 1) -> TopicIdentity:
    cluster.create_topic(name, partitions=partitions)
    found = cluster.topic(name)
    assert found is not None
    return found


def _letter(cluster: Cluster, topic: str, query: str, read_from: str) -> None:
    headers = (("headrace-query", query.encode()), ("headrace-read-from", read_from.encode()))
    cluster.produce(topic, None, b"bad", headers=headers)


def test_a_topic_knows_which_records_it_has(broker: EmbeddedBroker, topic_name: str) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = _made(cluster, topic_name)
    for _ in range(3):
        cluster.produce(topic_name, None, b"value")
    asked = AskedTopic(cluster, topic)
    assert asked.starts == {0: 0}
    assert [asked.has_record(0, offset) for offset in (0, 2, 3, 99)] == [True, True, False, False]
    assert not asked.has_record(7, 0)
    cluster.close()


def test_only_dead_letters_of_this_query_and_incarnation_from_the_positions_on_count(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    letters = _made(cluster, topic_name)
    topic = TopicIdentity(name="t", topic_id="id", partitions=2)
    for query, read_from in (
        ("lake", "t/id/0/1"),
        ("lake", "t/id/0/7"),
        ("lake", "t/id/0/4"),
        ("lake", "t/id/1/9"),
        ("lake", "t/former id/0/8"),
        ("second table", "t/id/0/8"),
    ):
        _letter(cluster, topic_name, query, read_from)
    cluster.produce(topic_name, None, b"somebody else's")
    progress = Progress(positions=Reached(topic_id="id", offsets={0: 5}))
    sent = already_sent(cluster, letters, query="lake", topic=topic, progress=progress)
    assert sent.places == {(0, 7), (1, 9)}
    assert sent.ends == Reached(topic_id=letters.topic_id, offsets={0: 7})
    begin = Reached(topic_id=letters.topic_id, offsets={0: 3})
    later = progress.with_dead_letters(begin=begin, end=begin)
    assert already_sent(cluster, letters, query="lake", topic=topic, progress=later).places == {(1, 9)}
    of_former = Reached(topic_id="another id", offsets={0: 3})
    recreated = progress.with_dead_letters(begin=of_former, end=of_former)
    assert already_sent(cluster, letters, query="lake", topic=topic, progress=recreated).places == sent.places
    cluster.close()


def test_spark_begins_at_the_positions_or_where_the_topic_begins() -> None:
    topic = TopicIdentity(name="t", topic_id="id", partitions=3)
    progress = Progress(positions=Reached(topic_id="id", offsets={0: 5, 1: 2}))
    assert starting_offsets(topic, {0: 0, 1: 4, 2: 0}, progress) == '{"t": {"0": 5, "1": 4, "2": -2}}'
    (gap,) = gaps_before(topic, {0: 0, 1: 4, 2: 0}, progress, now=7)
    assert (gap.topic, gap.topic_id, gap.partition, gap.first, gap.end, gap.at) == ("t", "id", 1, 2, 4, 7)
