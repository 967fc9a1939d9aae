"""Commits of members of consumer groups that are behind by an epoch (KIP-1251), and of producers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination.consumer.values import ClassicProtocols
from headrace.coordination.decision import Producer
from headrace.coordination.group import Committer
from headrace.coordination.offsets import Offsets, OffsetSettings
from headrace.coordination.requests import CommitRequest, OffsetToCommit
from tests.coordination.consumer_runtime import GROUP, Consumer, ConsumerRuntime
from tests.coordination.fake_topics import FakeTopics

TOO_LONG = "m" * 11


@pytest.fixture
def runtime() -> ConsumerRuntime:
    return ConsumerRuntime(FakeTopics(events=4))


class Committing:
    """Member `a` had all partitions at epoch 2; `b` has two of them now."""

    def __init__(self, runtime: ConsumerRuntime) -> None:
        a, b = (Consumer(runtime, name, frozenset({"events"})) for name in ("a", "b"))
        a.beat()
        a.take()
        self._events = runtime.topics.id("events")
        for consumer in (a, b) * 6:
            consumer.beat()
            consumer.take()
        self.kept = min(a.owned[self._events])
        self.moved = min(b.owned[self._events])
        self._offsets = Offsets(runtime.groups, OffsetSettings(metadata_max_bytes=10))

    def commit(
        self,
        *partitions: int,
        epoch: int = 2,
        metadata: str = "",
        by_name: bool = False,
        in_transaction: bool = False,
    ) -> list[ErrorCode]:
        request = CommitRequest(
            group_id=GROUP,
            committer=Committer(member_id="a", generation=epoch, transactional=in_transaction),
            offsets=tuple(
                OffsetToCommit(
                    topic="events",
                    partition=partition,
                    offset=5,
                    topic_id=None if by_name else self._events,
                    metadata=metadata if partition == self.moved else "",
                )
                for partition in partitions
            ),
            producer=Producer(producer_id=1, producer_epoch=0) if in_transaction else None,
        )
        decision = self._offsets.decide_commit(request, now_ms=1)
        assert decision.reply is not None
        errors = [each.error for each in decision.reply.partitions]
        assert len(decision.records) == errors.count(ErrorCode.none)
        return errors


@pytest.fixture
def late(runtime: ConsumerRuntime) -> Committing:
    return Committing(runtime)


def test_what_a_member_has_had_since_its_epoch_can_be_committed(late: Committing) -> None:
    assert late.commit(late.kept) == [ErrorCode.none]
    assert late.commit(late.kept, epoch=3) == [ErrorCode.none]


def test_one_partition_that_moved_spoils_all(late: Committing) -> None:
    assert late.commit(late.kept, late.moved) == [ErrorCode.stale_member_epoch] * 2
    assert late.commit(late.kept, epoch=1) == [ErrorCode.stale_member_epoch]
    assert late.commit(late.kept, epoch=4) == [ErrorCode.stale_member_epoch]
    assert late.commit(late.kept, by_name=True) == [ErrorCode.stale_member_epoch]


def test_what_is_refused_for_its_metadata_does_not_count(late: Committing) -> None:
    assert late.commit(late.kept, late.moved, metadata=TOO_LONG) == [
        ErrorCode.none,
        ErrorCode.offset_metadata_too_large,
    ]


def test_in_a_transaction(late: Committing) -> None:
    assert late.commit(late.kept, in_transaction=True) == [ErrorCode.none]
    assert late.commit(late.moved, in_transaction=True) == [ErrorCode.illegal_generation]


def test_producers_that_do_not_say_for_whom_they_commit(late: Committing, runtime: ConsumerRuntime) -> None:
    group = runtime.group()
    assert group.commit_error(Committer(transactional=True)) is ErrorCode.none
    assert group.commit_error(Committer()) is ErrorCode.unknown_member_id
    assert group.commit_error(Committer(transactional=True, member_id="x")) is ErrorCode.unknown_member_id
    assert late


def test_a_classic_member_of_a_consumer_group(late: Committing, runtime: ConsumerRuntime) -> None:
    """It only knows generations, and gets their error."""
    group = runtime.group()
    member = group.members["a"]
    classic = ClassicProtocols(session_timeout_ms=30_000, protocols=(("range", b""),))
    group.members["a"] = replace(member, metadata=replace(member.metadata, classic=classic))
    assert late.commit(late.kept) == [ErrorCode.none]
    assert late.commit(late.moved) == [ErrorCode.illegal_generation]
    assert late.commit(late.kept, epoch=4) == [ErrorCode.illegal_generation]
