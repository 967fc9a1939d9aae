"""What a run of the lake asks the log at its start: which records it has, which dead letters were sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.positions import Progress, Reached
from headrace.lake.resuming import resume
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.asked_topic import AskedTopic
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.lake.dead_letters import LetterTopic
from headrace.pipeline.spark.lake.table_start import gaps_before, starting_offsets
from headrace.pipeline.spark.stateless_run import RunContext, kept_gaps
from headrace.testing import EmbeddedBroker
from tests.lake.delta_folders import MadeCommits


@dataclass
class HasEverything:
    """A topic that has every record from where it begins."""

    topic_id: str
    starts: dict[int, int]

    def lacking(self, _offsets: Mapping[int, int]) -> set[int]:
        return set()


def _made(cluster: Cluster, name: str, *, partitions: int = 1) -> TopicIdentity:
    cluster.create_topic(name, partitions=partitions)
    found = cluster.topic(name)
    assert found is not None
    return found


def _letter(cluster: Cluster, topic: str, source: str) -> None:
    cluster.produce(topic, None, b"bad", headers=(("headrace-source", source.encode()),))


def test_a_topic_knows_which_records_it_has(broker: EmbeddedBroker, topic_name: str) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = _made(cluster, topic_name)
    for _ in range(3):
        cluster.produce(topic_name, None, b"value")
    asked = AskedTopic(cluster, topic)
    assert asked.starts == {0: 0}
    assert [asked.lacking({0: offset}) for offset in (0, 2)] == [set(), set()]
    assert [asked.lacking({0: offset}) for offset in (3, 99)] == [{0}, {0}]
    assert asked.lacking({0: 1, 7: 0}) == {7}
    cluster.close()


def test_only_dead_letters_of_this_query_and_incarnation_from_the_positions_on_count(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    letters = _made(cluster, topic_name)
    topic = TopicIdentity(name="t", topic_id="id", partitions=2)
    for source in (
        "lake/id/0/1/0",
        "lake/id/0/7/0",
        "lake/id/0/4/0",
        "lake/id/1/9/0",
        "lake/former id/0/8/0",
        "second table/id/0/8/0",
    ):
        _letter(cluster, topic_name, source)
    cluster.produce(topic_name, None, b"somebody else's")
    progress = Progress(positions=Reached(topic_id="id", offsets={0: 5}))

    def found(progress: Progress) -> LetterTopic:
        return LetterTopic(cluster, letters, query="lake", topic=topic, progress=progress)

    first = found(progress)
    assert first.sent.places == {(0, 7), (1, 9)}
    assert first.sent.ends == Reached(topic_id=letters.topic_id, offsets={0: 7})
    begin = Reached(topic_id=letters.topic_id, offsets={0: 3})
    later = progress.with_dead_letters(begin=begin, end=begin)
    assert found(later).sent.places == {(1, 9)}
    of_former = Reached(topic_id="another id", offsets={0: 3})
    recreated = progress.with_dead_letters(begin=of_former, end=of_former)
    assert found(recreated).sent.places == first.sent.places
    _letter(cluster, topic_name, "lake/id/0/8/0")
    assert first.ends() == {0: 8}
    cluster.close()


def test_spark_begins_at_the_positions_or_where_the_topic_begins() -> None:
    topic = TopicIdentity(name="t", topic_id="id", partitions=3)
    progress = Progress(positions=Reached(topic_id="id", offsets={0: 5, 1: 2}))
    assert starting_offsets(topic, {0: 0, 1: 4, 2: 0}, progress) == '{"t": {"0": 5, "1": 4, "2": -2}}'
    (gap,) = gaps_before(topic, {0: 0, 1: 4, 2: 0}, progress, now=7)
    assert (gap.topic, gap.topic_id, gap.partition, gap.first, gap.end, gap.at) == ("t", "id", 1, 2, 4, 7)


def test_what_expires_in_a_new_partition_before_it_is_read_is_a_gap() -> None:
    commits = MadeCommits()
    commits.add("WRITE", Progress(positions=Reached(topic_id="id", offsets={0: 5})))
    topic = TopicIdentity(name="t", topic_id="id", partitions=2)
    now = HasEverything(topic_id="id", starts={0: 0, 1: 4})
    progress = resume(commits, topic=now, dead_letters=now).progress.begun(now.starts)
    assert starting_offsets(topic, now.starts, progress) == '{"t": {"0": 5, "1": 4}}'
    (gap,) = gaps_before(topic, now.starts, progress, now=7)
    assert (gap.partition, gap.first, gap.end) == (1, 0, 4)


def test_what_expired_before_the_table_was_made_is_no_gap() -> None:
    commits = MadeCommits()
    commits.add("CREATE TABLE")
    topic = TopicIdentity(name="t", topic_id="id", partitions=2)
    now = HasEverything(topic_id="id", starts={0: 3, 1: 4})
    first = resume(commits, topic=now, dead_letters=now).progress.begun(now.starts)
    assert gaps_before(topic, now.starts, first, now=7) == ()
    # Nothing has come in the other partition until the first commit.
    commits.add("WRITE", first.advanced({0: 3}))
    second = resume(commits, topic=now, dead_letters=now).progress.begun(now.starts)
    assert second.positions.offsets == {0: 4, 1: 4}
    assert gaps_before(topic, now.starts, second, now=7) == ()


def test_a_gap_stays_known_when_the_table_has_gone_on_behind_it(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    query = f"{topic_name}-to-lake"
    gap = Gap(topic="t", topic_id="id", partition=1, first=2, end=4, at=7)

    def started(*gaps: Gap) -> tuple[Gap, ...]:
        """As by another process each time."""
        commits = CommitLog(cluster)
        context = RunContext(
            query=query,
            cluster=cluster,
            commits=commits,
            start=Commit(at=0, positions={}, sinks_from={}, sinks_to={}),
            on_gap="continue",
            settle_seconds=0.0,
        )
        try:
            return kept_gaps(context, gaps)
        finally:
            commits.close()

    assert started() == ()
    assert started(gap) == (gap,)
    assert started() == (gap,)
    assert started(dataclasses.replace(gap, at=9)) == (gap,), "it was noticed before"
    cluster.close()
