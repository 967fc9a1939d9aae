"""Committed offsets: who may commit, what is read back, transactions, deletion, expiry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.group import Committer
from headrace.coordination.offsets import OffsetSettings
from headrace.coordination.replies import FetchedOffset
from headrace.coordination.requests import DeleteOffsetsRequest, FetchOffsetsRequest, OffsetToCommit
from tests.coordination.runtime import GROUP, REBALANCE_MS, SESSION_MS, Runtime

HOUR_MS = 60 * 60 * 1000
OK = (ErrorCode.none,)


def at(offset: int, *, topic: str = "events", partition: int = 0, **fields: object) -> OffsetToCommit:
    return OffsetToCommit(topic=topic, partition=partition, offset=offset, **fields)  # type: ignore[arg-type]


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def test_what_is_committed_is_read_back_with_all_that_stands_beside_it(runtime: Runtime) -> None:
    assert runtime.commit(at(7, metadata="note", leader_epoch=3), at(9, partition=1)) == OK * 2
    request = FetchOffsetsRequest(group_id=GROUP, partitions=(("events", 0), ("events", 1), ("events", 2)))
    assert runtime.offsets.fetch(request).partitions == (
        FetchedOffset(topic="events", partition=0, offset=7, leader_epoch=3, metadata="note"),
        FetchedOffset(topic="events", partition=1, offset=9),
        FetchedOffset(topic="events", partition=2),
    )
    assert runtime.fetched() == {("events", 0): 7, ("events", 1): 9}


def test_offsets_survive_a_restart(runtime: Runtime) -> None:
    runtime.commit(at(7, metadata="note", leader_epoch=3))
    before = runtime.offsets.committed(GROUP)
    runtime.reload()
    assert runtime.offsets.committed(GROUP) == before


def test_a_group_of_nobody_is_one_that_only_commits(runtime: Runtime) -> None:
    runtime.commit(at(1))
    assert runtime.group().state_name == "Empty"
    assert runtime.group().protocol_name_listed == ""


def test_a_group_that_is_not_known_has_no_offsets(runtime: Runtime) -> None:
    assert runtime.fetched(group_id="nobody") == {}
    request = FetchOffsetsRequest(group_id="nobody", partitions=(("events", 0),))
    assert runtime.offsets.fetch(request).partitions == (FetchedOffset(topic="events", partition=0),)


def test_a_member_of_a_group_that_is_not_known_may_not_commit(runtime: Runtime) -> None:
    assert runtime.commit(at(1), member_id="m", generation=1) == (ErrorCode.group_id_not_found,)
    assert runtime.commit(at(1), member_id="m", generation=1, knows_epochs=False) == (
        ErrorCode.illegal_generation,
    )
    transactional = runtime.commit(at(1), member_id="m", generation=1, producer_id=5)
    assert transactional == (ErrorCode.illegal_generation,)
    assert GROUP not in runtime.groups


def test_only_members_of_the_generation_commit(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    generation = runtime.group().generation
    assert runtime.commit(at(1), member_id=member_id, generation=generation) == OK
    assert runtime.commit(at(2), member_id=member_id, generation=generation - 1) == (
        ErrorCode.illegal_generation,
    )
    assert runtime.commit(at(2), member_id="other", generation=generation) == (ErrorCode.unknown_member_id,)
    # Somebody outside of the group, while it has members.
    assert runtime.commit(at(2)) == (ErrorCode.unknown_member_id,)
    assert runtime.fetched() == {("events", 0): 1}


def test_nobody_commits_between_join_and_assignment(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    runtime.ask_join(member_id=member_id)
    generation = runtime.group().generation
    assert runtime.group().state_name == "CompletingRebalance"
    committer = {"member_id": member_id, "generation": generation}
    assert runtime.commit(at(1), **committer) == (ErrorCode.rebalance_in_progress,)
    # In a transaction one may: the marker decides.
    assert runtime.commit(at(1), **committer, producer_id=5) == OK


def test_members_commit_while_a_rebalance_is_prepared(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    generation = runtime.group().generation
    runtime.ask_join(member_id=first)
    assert runtime.group().state_name == "PreparingRebalance"
    assert runtime.commit(at(4), member_id=second, generation=generation) == OK


def test_a_commit_is_a_sign_of_life(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    generation = runtime.group().generation
    for _ in range(3):
        runtime.advance(SESSION_MS - 1)
        assert runtime.commit(at(1), member_id=member_id, generation=generation) == OK
    runtime.advance(SESSION_MS)
    assert runtime.group().state_name == "Empty"


def test_metadata_has_a_limit(runtime: Runtime) -> None:
    limit = OffsetSettings().metadata_max_bytes
    assert runtime.commit(at(1, metadata="x" * (limit + 1)), at(2, partition=1, metadata="x" * limit)) == (
        ErrorCode.offset_metadata_too_large,
        ErrorCode.none,
    )
    assert runtime.fetched() == {("events", 1): 2}


def test_a_failed_write_is_told_to_each_partition_that_would_have_been_written() -> None:
    runtime = Runtime()
    runtime.fail_next_write = True
    assert runtime.commit(at(1, metadata="x" * 5000), at(2, partition=1)) == (
        ErrorCode.offset_metadata_too_large,
        ErrorCode.coordinator_not_available,
    )
    assert runtime.fetched() == {}


# Transactions.


def test_a_pending_commit_is_not_seen_and_makes_the_offset_unstable(runtime: Runtime) -> None:
    runtime.commit(at(1), at(1, partition=1))
    assert runtime.commit(at(5), producer_id=9) == OK
    assert runtime.fetched() == {("events", 0): 1, ("events", 1): 1}
    request = FetchOffsetsRequest(group_id=GROUP, partitions=None, require_stable=True)
    errors = {one.partition: (one.error, one.offset) for one in runtime.offsets.fetch(request).partitions}
    assert errors == {0: (ErrorCode.unstable_offset_commit, -1), 1: (ErrorCode.none, 1)}


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_the_marker_decides(runtime: Runtime, *, committed: bool, reload: bool) -> None:
    runtime.commit(at(1))
    runtime.commit(at(5), producer_id=9)
    if reload:
        runtime.reload()
    runtime.mark(9, committed=committed)
    assert runtime.fetched(require_stable=True) == {("events", 0): 5 if committed else 1}
    assert not runtime.offsets.has_open_transactions(GROUP)


def test_a_marker_touches_only_its_own_producer(runtime: Runtime) -> None:
    runtime.commit(at(5), producer_id=9)
    runtime.commit(at(6, partition=1), producer_id=10)
    runtime.mark(9, committed=True)
    assert runtime.fetched() == {("events", 0): 5}
    assert runtime.offsets.is_pending(GROUP, "events", 1)
    runtime.mark(11, committed=True)
    assert runtime.offsets.is_pending(GROUP, "events", 1)


def test_what_was_written_later_counts_whenever_the_marker_comes(runtime: Runtime) -> None:
    runtime.commit(at(5), producer_id=9)
    runtime.commit(at(8))
    runtime.mark(9, committed=True)
    assert runtime.fetched() == {("events", 0): 8}


def test_a_transaction_without_a_group_id_is_refused(runtime: Runtime) -> None:
    assert runtime.commit(at(1), group_id="", producer_id=9) == (ErrorCode.invalid_group_id,)
    assert runtime.commit(at(1), group_id="") == OK


class _StaleMember(ClassicGroup):
    """A group that replies to an outdated member like a consumer group."""

    def commit_error(self, committer: Committer) -> ErrorCode:  # noqa: ARG002
        return ErrorCode.stale_member_epoch


def test_producers_do_not_know_of_member_epochs(runtime: Runtime) -> None:
    runtime.groups[GROUP] = _StaleMember(GROUP)
    assert runtime.commit(at(1)) == (ErrorCode.stale_member_epoch,)
    assert runtime.commit(at(1), producer_id=9) == (ErrorCode.illegal_generation,)


# Deletion.


def delete(runtime: Runtime, *partitions: tuple[str, int]) -> tuple[ErrorCode, list[ErrorCode]]:
    request = DeleteOffsetsRequest(group_id=GROUP, partitions=partitions)
    reply = runtime.apply(runtime.offsets.decide_delete(request))
    return reply.error, [one.error for one in reply.partitions]


def test_single_offsets_are_deleted(runtime: Runtime) -> None:
    runtime.commit(at(1), at(2, partition=1))
    runtime.commit(at(3), producer_id=9)
    written = len(runtime.log)
    assert delete(runtime, ("events", 0), ("events", 5)) == (ErrorCode.none, [ErrorCode.none] * 2)
    assert len(runtime.log) == written + 1
    runtime.mark(9, committed=True)
    assert runtime.fetched() == {("events", 1): 2}
    runtime.reload()
    assert runtime.fetched() == {("events", 1): 2}


def test_offsets_in_use_are_not_deleted(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    generation = runtime.group().generation
    runtime.commit(at(1), at(1, topic="other"), member_id=member_id, generation=generation)
    assert delete(runtime, ("events", 0), ("other", 0)) == (
        ErrorCode.none,
        [ErrorCode.group_subscribed_to_topic, ErrorCode.none],
    )
    assert runtime.fetched() == {("events", 0): 1}


def test_offsets_of_a_group_of_another_protocol_are_kept_while_it_has_members(runtime: Runtime) -> None:
    runtime.stable_group(protocol_type="connect")
    assert delete(runtime, ("events", 0)) == (ErrorCode.non_empty_group, [])


def test_offsets_of_nobody_cannot_be_deleted(runtime: Runtime) -> None:
    assert delete(runtime, ("events", 0)) == (ErrorCode.group_id_not_found, [])
    decision = runtime.offsets.decide_delete(DeleteOffsetsRequest(group_id="", partitions=()))
    assert decision.reply is not None
    assert decision.reply.error is ErrorCode.invalid_group_id


def test_offsets_go_with_their_topic(runtime: Runtime) -> None:
    runtime.commit(at(1), at(2, topic="kept"))
    runtime.commit(at(1, topic="events", partition=4), group_id="another", producer_id=9)
    runtime.apply(runtime.offsets.decide_topics_deleted(frozenset({"events"})))
    runtime.mark(9, committed=True)
    assert runtime.fetched() == {("kept", 0): 2}
    assert runtime.fetched(group_id="another") == {}


# Expiry.


def expiring(retention_ms: int = 24 * HOUR_MS) -> Runtime:
    runtime = Runtime(offsets=OffsetSettings(retention_ms=retention_ms, retention_check_interval_ms=HOUR_MS))
    runtime.reload()
    return runtime


def test_without_members_offsets_expire_one_retention_after_their_commit() -> None:
    runtime = expiring()
    runtime.commit(at(1))
    runtime.advance(12 * HOUR_MS)
    runtime.commit(at(1, partition=1))
    runtime.advance(11 * HOUR_MS)
    assert len(runtime.fetched()) == 2
    runtime.advance(2 * HOUR_MS)
    assert runtime.fetched() == {("events", 1): 1}
    runtime.advance(12 * HOUR_MS)
    assert GROUP not in runtime.groups
    runtime.reload()
    assert GROUP not in runtime.groups


def test_a_retention_that_the_commit_asked_for_counts_instead() -> None:
    runtime = expiring()
    runtime.commit(at(1), retention_ms=2 * HOUR_MS)
    runtime.commit(at(1, partition=1))
    runtime.advance(3 * HOUR_MS)
    assert runtime.fetched() == {("events", 1): 1}


def test_offsets_live_as_long_as_somebody_subscribes_and_then_one_retention() -> None:
    runtime = expiring()
    (member_id,) = runtime.stable_group(session_timeout_ms=HOUR_MS // 2)
    generation = runtime.group().generation
    runtime.commit(at(1), at(1, topic="left"), member_id=member_id, generation=generation)
    for _ in range(240):
        runtime.advance(HOUR_MS // 4)
        assert runtime.heartbeat(member_id, generation) is ErrorCode.none
    # After 60 hours only the offset without subscribers has expired.
    assert runtime.fetched() == {("events", 0): 1}
    runtime.advance(HOUR_MS // 2)
    assert runtime.group().state_name == "Empty"
    runtime.advance(23 * HOUR_MS)
    assert runtime.fetched() == {("events", 0): 1}
    runtime.advance(2 * HOUR_MS)
    assert GROUP not in runtime.groups


def test_nothing_expires_under_a_transaction() -> None:
    runtime = expiring()
    runtime.commit(at(1))
    runtime.commit(at(2), producer_id=9)
    runtime.advance(48 * HOUR_MS)
    assert runtime.fetched() == {("events", 0): 1}
    runtime.mark(9, committed=False)
    runtime.advance(HOUR_MS)
    assert GROUP not in runtime.groups


def test_a_group_is_kept_that_has_nothing_but_an_open_transaction() -> None:
    runtime = expiring()
    runtime.commit(at(2), producer_id=9)
    runtime.advance(48 * HOUR_MS)
    assert GROUP in runtime.groups
    runtime.mark(9, committed=True)
    assert runtime.fetched() == {("events", 0): 2}


def test_an_expiry_that_cannot_be_written_is_tried_again() -> None:
    runtime = expiring()
    runtime.commit(at(1))
    runtime.advance(24 * HOUR_MS - 1)
    runtime.fail_next_write = True
    runtime.advance(1)
    assert runtime.fetched() == {("events", 0): 1}
    runtime.advance(HOUR_MS)
    assert GROUP not in runtime.groups


def test_a_group_is_kept_while_somebody_is_about_to_join() -> None:
    runtime = expiring()
    session_ms = 1_800_000
    for _ in range(8):
        runtime.member_id(session_timeout_ms=session_ms)
        runtime.advance(session_ms - 1)
        assert GROUP in runtime.groups
    runtime.advance(2 * HOUR_MS)
    assert GROUP not in runtime.groups


def test_nothing_expires_during_a_rebalance() -> None:
    runtime = expiring(retention_ms=1)
    first, second = runtime.stable_group(2, rebalance_timeout_ms=3 * HOUR_MS, session_timeout_ms=1_800_000)
    generation = runtime.group().generation
    runtime.commit(at(1, topic="left"), member_id=first, generation=generation)
    runtime.ask_join(member_id=first, rebalance_timeout_ms=3 * HOUR_MS, session_timeout_ms=1_800_000)
    for _ in range(4):
        runtime.advance(HOUR_MS // 4)
        assert runtime.heartbeat(second, generation) is ErrorCode.rebalance_in_progress
    assert runtime.fetched() == {("left", 0): 1}
    assert runtime.timers[("classic", "join", GROUP)] > runtime.now_ms + REBALANCE_MS


steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 2), st.sampled_from([None, 1, 2])),
        st.tuples(st.just("mark"), st.sampled_from([1, 2]), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 2), st.none()),
        st.tuples(st.just("reload"), st.none(), st.none()),
    ),
    max_size=30,
)


@given(steps=steps)
def test_offsets_against_a_model(steps: list[tuple[str, int, object]]) -> None:
    """The model keeps every write in order, and reads the newest one that counts."""
    runtime = Runtime()
    writes: list[tuple[int, int, object]] = []  # partition, offset, producer whose marker it waits for
    for number, (what, partition, detail) in enumerate(steps):
        if what == "commit":
            producer_id = detail if isinstance(detail, int) else None
            assert runtime.commit(at(number, partition=partition), producer_id=producer_id) == OK
            writes.append((partition, number, producer_id))
        elif what == "mark":
            runtime.mark(partition, committed=detail is True)
            writes = [
                (one, offset, None if waits == partition else waits)
                for one, offset, waits in writes
                if waits != partition or detail is True
            ]
        elif what == "delete" and GROUP in runtime.groups:
            delete(runtime, ("events", partition))
            writes = [write for write in writes if write[0] != partition]
        elif what == "reload":
            runtime.reload()
        expected: dict[tuple[str, int], int] = {}
        for one, offset, waits in sorted(writes, key=lambda write: write[1]):
            if waits is None:
                expected["events", one] = offset
        assert runtime.fetched() == expected
        unstable = {one for one, _, waits in writes if waits is not None}
        assert all(runtime.offsets.is_pending(GROUP, "events", one) == (one in unstable) for one in range(3))
