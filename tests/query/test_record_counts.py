"""The rules of counting, against a model of a log that gets gaps, loses its end and forgets its beginning."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.client.batches import Fetched
from headrace.client.topics import TopicIdentity
from headrace.client.visible_batches import Batch
from headrace.query.record_counts import Checkpoint, RecordCounts, decode, encode, thinned

TOPIC = TopicIdentity(name="events", topic_id="one", partitions=1)


@dataclass
class ModelLog:
    """The partition 0 of a topic: batches as (first offset, end, records), from `first` to `end`."""

    batches: list[tuple[int, int, int]] = field(default_factory=list)
    first: int = 0
    end: int = 0
    forgotten: int = 0

    @property
    def records(self) -> int:
        """All that were not lost, also those that retention has removed."""
        return self.forgotten + sum(records for _, _, records in self.batches)

    def append(self, records: int) -> None:
        self.batches.append((self.end, self.end + records, records))
        self.end += records

    def lose(self, batches: int, hole: int) -> None:
        """The newest batches are gone; the log goes on behind a gap that covers at least their offsets."""
        kept = self.batches[: max(0, len(self.batches) - batches)]
        self.batches = [*kept, (kept[-1][1] if kept else self.first, self.end + hole, 0)]
        self.end += hole

    def forget(self, batches: int) -> None:
        """Retention removes the oldest batches."""
        self.forgotten += sum(records for _, _, records in self.batches[:batches])
        self.batches = self.batches[batches:]
        self.first = self.batches[0][0] if self.batches else self.end

    def fetch(self, start: int, most_batches: int) -> Fetched:
        if not self.first <= start <= self.end:
            return Fetched(batches=(), position=start, first=self.first, end=self.end, is_out_of_range=True)
        given = [batch for batch in self.batches if batch[1] > start][:most_batches]
        return Fetched(
            batches=tuple(
                Batch(first=max(first, start), end=end, records=min(records, end - start))
                for first, end, records in given
                if records
            ),
            position=given[-1][1] if given else start,
            first=self.first,
            end=self.end,
        )


def drain(counts: RecordCounts, log: ModelLog, topic: TopicIdentity = TOPIC, most_batches: int = 2) -> None:
    for _ in range(1000):
        start = counts.starts([topic.name])[topic][0]
        fetched = log.fetch(start, most_batches)
        counts.fetched({(topic.topic_id, 0): fetched})
        if counts.starts([topic.name])[topic][0] == log.end:
            return
    raise AssertionError("the counts never reach the end of the log")


class Counting(RuleBasedStateMachine):
    """Whatever happens to the log and to the gateway, the count is that of the records that are not lost."""

    def __init__(self) -> None:
        super().__init__()
        self.log = ModelLog()
        self.now = 0
        self.stored = encode({})
        self.begin()

    def begin(self) -> None:
        self.counts = RecordCounts(decode(self.stored), with_earlier=["events"])
        self.counts.follow({"events": TOPIC})

    @rule(records=st.integers(1, 5), batches=st.integers(1, 4))
    def append(self, records: int, batches: int) -> None:
        for _ in range(batches):
            self.log.append(records)

    @rule(most_batches=st.integers(1, 3))
    def count(self, most_batches: int) -> None:
        self.drain(most_batches)

    @rule(seconds=st.integers(0, 3000))
    def store(self, seconds: int) -> None:
        self.now += seconds * 1000
        self.stored = encode(self.counts.checkpoints(self.now))

    @rule()
    def restart(self) -> None:
        self.begin()

    @rule(batches=st.integers(0, 5), hole=st.integers(0, 20))
    def power_failure(self, batches: int, hole: int) -> None:
        self.log.lose(batches, hole)
        self.begin()

    @rule(batches=st.integers(0, 3), hole=st.integers(0, 20))
    def log_restarts_alone(self, batches: int, hole: int) -> None:
        self.log.lose(batches, hole)
        self.counts.interrupted(self.now)

    @rule()
    def count_all(self) -> None:
        self.drain(10)

    @rule()
    def nothing_comes(self) -> None:
        """Other partitions have used up the bytes of the reply."""
        start = self.counts.starts(["events"])[TOPIC][0]
        if self.log.first <= start < self.log.end:
            self.counts.fetched({(TOPIC.topic_id, 0): self.log.fetch(start, 0)})

    def drain(self, most_batches: int) -> None:
        if self.log.end:
            drain(self.counts, self.log, most_batches=most_batches)

    @invariant()
    def the_end_is_right(self) -> None:
        other = RecordCounts(decode(encode(self.counts.checkpoints(self.now))), with_earlier=["events"])
        other.follow({"events": TOPIC})
        if self.log.end:
            drain(other, self.log)
            assert other.total("events") == self.log.records


TestCounting = Counting.TestCase


def counted(log: ModelLog, stored: bytes = b"{}") -> RecordCounts:
    counts = RecordCounts(decode(stored), with_earlier=["events"])
    counts.follow({"events": TOPIC})
    drain(counts, log)
    return counts


def test_a_start_fetches_only_what_came_since() -> None:
    log = ModelLog()
    for _ in range(1000):
        log.append(10)
    stored = encode(counted(log).checkpoints(1))
    log.append(3)
    counts = RecordCounts(decode(stored), with_earlier=["events"])
    counts.follow({"events": TOPIC})
    assert counts.starts(["events"]) == {TOPIC: {0: 9_999}}
    drain(counts, log)
    assert counts.total("events") == 10_003


def test_what_retention_removes_stays_counted() -> None:
    log = ModelLog()
    for _ in range(10):
        log.append(2)
    stored = encode(counted(log).checkpoints(1))
    log.forget(10)
    assert counted(log, stored).total("events") == 20, "all of it was removed"
    log.append(5)
    assert counted(log, stored).total("events") == 25
    log.forget(1)
    log.append(1)
    assert counted(log, stored).total("events") == 21, "five came and went while nobody counted"


def test_a_log_that_came_back_shorter_without_a_gap_is_counted_anew() -> None:
    log = ModelLog()
    log.append(4)
    log.append(6)
    stored = encode(counted(log).checkpoints(1))
    log.batches, log.end = log.batches[:1], 4
    assert counted(log, stored).total("events") == 4


def test_a_topic_made_again_counts_beside_the_first_one_only_where_that_is_wanted() -> None:
    first, second = ModelLog(), ModelLog()
    first.append(7)
    second.append(2)
    again = {
        name: TopicIdentity(name=name, topic_id=f"{name}-2", partitions=1) for name in ("events", "avro")
    }
    before = {
        name: TopicIdentity(name=name, topic_id=f"{name}-1", partitions=1) for name in ("events", "avro")
    }
    counts = RecordCounts({}, with_earlier=["events"])
    counts.follow(before)
    for topic in before.values():
        drain(counts, first, topic)
    stored = encode(counts.checkpoints(5))
    restarted = RecordCounts(decode(stored), with_earlier=["events"])
    assert restarted.total("events") == 7, "the topic is gone at the moment"
    for each in (counts, restarted):
        each.follow(again)
        for topic in again.values():
            drain(each, second, topic)
        assert (each.total("events"), each.total("avro")) == (9, 2)
    third = RecordCounts(decode(encode(restarted.checkpoints(9))), with_earlier=["events"])
    third.follow(again)
    assert third.total("events") == 9


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=300))
def test_a_history_stays_short_and_reaches_back(pauses: list[int]) -> None:
    history: tuple[Checkpoint, ...] = ()
    now = 0
    for number, pause in enumerate(pauses):
        now += pause
        history = thinned((*history, Checkpoint(position=number, records=number, at=now)), now)
    assert len(history) <= 14
    assert history[-1].position == len(pauses) - 1
    assert [each.position for each in history] == sorted(each.position for each in history)
    assert history[0].position == 0 or now < 1000


def test_an_empty_share_of_a_reply_leaves_the_count_as_it_is() -> None:
    """Other partitions have used up the bytes of the reply: the witness is there, it only did not come."""
    log = ModelLog()
    log.append(1000)
    stored = encode(counted(log).checkpoints(0))
    log.append(5)
    counts = RecordCounts(decode(stored), with_earlier=[])
    counts.follow({"events": TOPIC})
    start = counts.starts(["events"])[TOPIC][0]
    for _ in range(3):
        counts.fetched({(TOPIC.topic_id, 0): log.fetch(start, 0)})
        assert counts.total("events") == 1000
    drain(counts, log)
    assert counts.total("events") == 1005


def test_an_interruption_leaves_the_count_as_it_is() -> None:
    """Nothing was kept since the newest checkpoint: what was counted since then stays counted."""
    log = ModelLog()
    log.append(1000)
    counts = counted(log)
    counts.checkpoints(1)
    log.append(5)
    drain(counts, log)
    counts.interrupted(2)
    assert counts.total("events") == 1005
    drain(counts, log)
    assert counts.total("events") == 1005
