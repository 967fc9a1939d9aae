"""How decisions are carried out: written, replayed, answered, and what happens when one of that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.broker import Broker
from headrace.broker.configs import ConfigStore, static_log_config
from headrace.broker.coordinators.timers import EventLoopClock, Timers
from headrace.broker.errors import ApiError
from headrace.broker.group_commit import GroupCommit
from headrace.broker.settings import BrokerSettings, FsyncPolicy
from headrace.coordination.decision import Timer, TimerKey
from headrace.coordination.group import Committer
from headrace.coordination.replies import CommitReply, FetchOffsetsReply, JoinReply
from headrace.coordination.requests import (
    CommitRequest,
    DeleteOffsetsRequest,
    FetchOffsetsRequest,
    JoinRequest,
    OfferedProtocol,
    OffsetToCommit,
    SyncRequest,
)
from headrace.log.folder.data_folder import DataFolder
from headrace.testing.faulty_filesystem import FaultyFileSystem
from headrace.wire.records import Record, build_batch

pytestmark = pytest.mark.anyio
OpenBroker = Callable[..., AbstractAsyncContextManager[Broker]]
STATIC = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def opened(tmp_path: Path, disk: FaultyFileSystem) -> OpenBroker:
    """Opens a broker on the test's folder, with its coordinators."""

    @asynccontextmanager
    async def open_one(fsync: FsyncPolicy = "os", *, start: bool = True) -> AsyncIterator[Broker]:
        settings = BrokerSettings(data_dir=tmp_path / "data", fsync=fsync, configs=STATIC)
        logs = DataFolder.open(
            settings.data_dir,
            config_of=static_log_config(settings),
            durable=fsync == "always",
            filesystem=disk,
        )
        commit = GroupCommit(fsync, 1000, lambda _log: None, logs.reserving)
        commit.start()
        broker = Broker(settings, logs, ConfigStore(settings, logs), commit)
        if "events" not in logs.topics:
            broker.create_topic("events", 3, {})
        if start:
            broker.groups.shards.start()
            if broker.groups.shards.loading:
                await asyncio.wait_for(broker.groups.shards.all_loaded.wait(), 120)
        try:
            yield broker
        finally:
            for shards in (broker.groups.shards, broker.transactions.shards):
                shards.close()
                shards.end()
            await commit.stop()
            logs.close()

    return open_one


def commit(offset: int, *, group_id: str = "g") -> CommitRequest:
    wanted = OffsetToCommit(topic="events", partition=0, offset=offset)
    return CommitRequest(group_id=group_id, committer=Committer(), offsets=(wanted,))


def fetch(group_id: str = "g") -> FetchOffsetsRequest:
    return FetchOffsetsRequest(group_id=group_id, partitions=None)


def offsets(reply: object) -> list[int]:
    assert isinstance(reply, FetchOffsetsReply)
    assert reply.error is ErrorCode.none
    return [each.offset for each in reply.partitions]


def errors(reply: object) -> list[ErrorCode]:
    assert isinstance(reply, CommitReply)
    return [each.error for each in reply.partitions]


def join(member_id: str = "") -> JoinRequest:
    return JoinRequest(
        group_id="g",
        member_id=member_id,
        protocol_type="consumer",
        protocols=(OfferedProtocol(name="range", metadata=b"m"),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id_required=False,
    )


async def test_a_commit_is_there_after_a_reload(opened: OpenBroker) -> None:
    async with opened() as broker:
        assert errors(broker.groups.commit(commit(7))) == [ErrorCode.none]
        assert offsets(broker.groups.fetch_offsets(fetch())) == [7]
    async with opened() as broker:
        assert offsets(broker.groups.fetch_offsets(fetch())) == [7]


async def test_a_deleted_offset_is_gone_after_a_reload(opened: OpenBroker) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(7))
        broker.groups.delete_offsets(DeleteOffsetsRequest(group_id="g", partitions=(("events", 0),)))
    async with opened() as broker:
        assert offsets(broker.groups.fetch_offsets(fetch())) == []


async def test_what_cannot_be_written_has_not_happened(opened: OpenBroker, disk: FaultyFileSystem) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(1))
        disk.room = 0
        assert errors(broker.groups.commit(commit(2))) == [ErrorCode.coordinator_not_available]
        assert offsets(broker.groups.fetch_offsets(fetch())) == [1]
        disk.room = None
        assert errors(broker.groups.commit(commit(3))) == [ErrorCode.none]
    async with opened() as broker:
        assert offsets(broker.groups.fetch_offsets(fetch())) == [3]


async def test_members_hear_of_a_generation_that_cannot_be_written(
    opened: OpenBroker, disk: FaultyFileSystem
) -> None:
    async with opened() as broker:
        joined = await joins(broker)
        disk.room = 0
        sync = SyncRequest(
            group_id="g",
            member_id=joined.member_id,
            generation=joined.generation,
            assignments=((joined.member_id, b"all"),),
        )
        refused = broker.groups.sync(sync)
        if isinstance(refused, asyncio.Future):
            refused = await asyncio.wait_for(refused, 120)
        assert refused.error is ErrorCode.coordinator_not_available
        disk.room = None
        again = await joins(broker, joined.member_id)
        assert again.error in (ErrorCode.none, ErrorCode.unknown_member_id)


async def joins(broker: Broker, member_id: str = "") -> JoinReply:
    reply = broker.groups.join(join(member_id))
    if isinstance(reply, asyncio.Future):
        reply = await asyncio.wait_for(reply, 120)
    return reply


async def test_with_always_a_commit_is_answered_when_it_is_on_the_disk(
    opened: OpenBroker, disk: FaultyFileSystem
) -> None:
    async with opened("always") as broker:
        await asyncio.wait_for(_future(broker.groups.commit(commit(1))), 120)
        disk.refuse_sync = True
        answer = _future(broker.groups.commit(commit(2)))
        assert errors(await asyncio.wait_for(answer, 120)) == [ErrorCode.coordinator_not_available]
        told = await asyncio.wait_for(_future(broker.groups.fetch_offsets(fetch())), 120)
        assert isinstance(told, FetchOffsetsReply)
        assert told.error is ErrorCode.coordinator_not_available
        disk.refuse_sync = False
        assert errors(await asyncio.wait_for(_future(broker.groups.commit(commit(3))), 120)) == [
            ErrorCode.none
        ]
        assert offsets(broker.groups.fetch_offsets(fetch())) == [3]


def _future(answer: object) -> asyncio.Future[object]:
    assert isinstance(answer, asyncio.Future)
    return answer


async def test_a_request_whose_connection_is_gone_is_forgotten(opened: OpenBroker) -> None:
    async with opened() as broker:
        first = await joins(broker)
        # The second has to wait for the first to join again.
        waiting = _future(broker.groups.join(join()))
        waiting.cancel()
        await asyncio.sleep(0)
        again = await joins(broker, first.member_id)
        assert again.generation == first.generation + 1
        assert len(again.members) == 2


async def test_until_the_load_is_done_clients_come_again(opened: OpenBroker) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(7))
    async with opened(start=False) as broker:
        with pytest.raises(ApiError) as refusal:
            broker.groups.fetch_offsets(fetch())
        assert refusal.value.code is ErrorCode.coordinator_load_in_progress
        await asyncio.wait_for(broker.groups.shards.all_loaded.wait(), 120)
        assert offsets(broker.groups.fetch_offsets(fetch())) == [7]


async def test_records_that_nobody_understands_are_passed_over(
    opened: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(7))
        log = broker.logs.topics["__consumer_offsets"].partitions[broker.groups.partition_of("g")]
        log.append(build_batch([Record(0, key=b"\x00\x63?", value=b"v")]), now_ms=broker.now_ms())
        log.append(build_batch([Record(0, key=b"\x00\x01", value=b"v")]), now_ms=broker.now_ms())
        broker.groups.commit(commit(8))
    async with opened() as broker:
        assert offsets(broker.groups.fetch_offsets(fetch())) == [8]
    first, second = [record.getMessage() for record in caplog.records if "skipped" in record.msg]
    assert "offset 1 " in first
    assert "offset 2 " in second


async def test_a_topic_that_is_deleted_takes_its_offsets_along(opened: OpenBroker) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(7))
        broker.delete_topic("events")
        assert offsets(broker.groups.fetch_offsets(fetch())) == []


async def test_offsets_begin_anew_when_their_topic_was_deleted(opened: OpenBroker) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(7))
        broker.delete_topic("__consumer_offsets")
        assert offsets(broker.groups.fetch_offsets(fetch())) == []
        broker.groups.commit(commit(8))
        assert offsets(broker.groups.fetch_offsets(fetch())) == [8]


async def test_a_broker_that_stops_answers_no_more(opened: OpenBroker) -> None:
    async with opened() as broker:
        broker.groups.commit(commit(7))
        broker.groups.shards.close()
        with pytest.raises(ApiError) as refusal:
            broker.groups.commit(commit(8))
        assert refusal.value.code is ErrorCode.coordinator_not_available


async def test_timers_fire_once_at_the_last_time_that_was_set() -> None:
    clock = [1_000]
    fired: list[tuple[TimerKey, int]] = []
    all_fired = asyncio.Event()

    def due(key: TimerKey, now_ms: int) -> None:
        fired.append((key, now_ms))
        if key == ("last",):
            all_fired.set()

    timers = Timers(due, EventLoopClock(lambda: clock[0]))
    timers.set([Timer(key=("moved",), at_ms=1_010), Timer(key=("cancelled",), at_ms=1_001)])
    timers.set([Timer(key=("moved",), at_ms=1_020), Timer(key=("cancelled",), at_ms=None)])
    # The wall clock stands still: nobody hears of a time before the one that was asked for.
    timers.set([Timer(key=("last",), at_ms=1_060)])
    await asyncio.wait_for(all_fired.wait(), 120)
    assert fired == [(("moved",), 1_020), (("last",), 1_060)]
    assert len(timers) == 0
