"""When producers hear that their records are on the disk, and what they hear when the disk fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.broker.group_commit import GroupCommit
from headrace.broker.settings import FsyncPolicy
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError, UnknownTopicError
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.faulty_filesystem import FaultyFileSystem
from headrace.wire.records import Record, build_batch
from tests.broker.syncing import folder_with_topic, waited
from tests.log.batches import contents

pytestmark = pytest.mark.anyio


@pytest.fixture
def logs(tmp_path: Path, disk: FaultyFileSystem) -> Iterator[DataFolder]:
    with folder_with_topic(tmp_path / "data", disk, partitions=2, durable=True) as folder:
        yield folder


@asynccontextmanager
async def committing(
    logs: DataFolder, policy: FsyncPolicy, *, interval_ms: int = 20
) -> AsyncIterator[GroupCommit]:
    commit = GroupCommit(policy, interval_ms, lambda _log: None, logs.reserving)
    commit.start()
    try:
        yield commit
    finally:
        await commit.stop()


def append(log: PartitionLog) -> int:
    return log.append(build_batch([Record(0, value=b"v")]), now_ms=1_000).last_offset


async def until_flushed(log: PartitionLog) -> None:
    async with asyncio.timeout(120):
        while log.flushed_offset < log.end_offset:
            await asyncio.sleep(0.005)


async def test_always_answers_after_the_sync_and_shares_it(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    async with committing(logs, "always") as commit:
        futures = [commit.appended(log, append(log)) for _ in range(10)]
        assert log.high_water_mark == 0
        for future in futures:
            await waited(future)
        assert log.high_water_mark == 10


async def test_a_failed_sync_is_an_error_now_and_tried_again_later(
    logs: DataFolder, disk: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.group_commit.RETRY_SECONDS", 0.01)
    log = logs.topics["t"].partitions[0]
    async with committing(logs, "always") as commit:
        await waited(commit.appended(log, append(log)))
        disk.refuse_sync = True
        with pytest.raises(StorageError, match="could not be brought to the disk"):
            await waited(commit.appended(log, append(log)))
        assert log.high_water_mark == 1
        disk.refuse_sync = False
        await until_flushed(log)
        assert log.high_water_mark == 2


async def test_who_waits_for_a_deleted_topic_is_told(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    async with committing(logs, "always") as commit:
        future = commit.appended(log, append(log))
        logs.delete_topic("t")
        with pytest.raises(UnknownTopicError):
            await waited(future)


async def test_interval_syncs_without_being_waited_for(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[1]
    async with committing(logs, "interval") as commit:
        assert commit.appended(log, append(log)) is None
        await until_flushed(log)


async def test_a_topic_can_ask_for_syncs_at_intervals_of_its_own(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    log.configure(LogConfig(flush_ms=10))
    async with committing(logs, "os") as commit:
        for _ in range(3):
            assert commit.appended(log, append(log)) is None
        await until_flushed(log)


@pytest.mark.parametrize("policy", ["os", "interval"])
async def test_the_record_that_reaches_flush_messages_is_answered_after_the_sync(
    tmp_path: Path, disk: FaultyFileSystem, policy: FsyncPolicy
) -> None:
    """As in Kafka, which syncs in the append: with flush.messages=1 all that was answered survives."""
    logs = DataFolder.open(tmp_path / "data", reserving=True, filesystem=disk)
    logs.create_topic("t", 1, {}, LogConfig(flush_messages=3))
    (log,) = logs.topics["t"].partitions
    async with committing(logs, policy, interval_ms=60_000) as commit:
        await waited(commit.appended(log, append(log)))
        assert log.flushed_offset == 0, "the first record waits for its reservation only"
        assert commit.appended(log, append(log)) is None
        disk.refuse_sync = True
        with pytest.raises(StorageError):
            await waited(commit.appended(log, append(log)))
        disk.refuse_sync = False
        await waited(commit.appended(log, append(log)))
        assert log.flushed_offset == log.high_water_mark == 4
        assert commit.appended(log, append(log)) is None
        disk.power_loss()
    logs.abandon()
    logs = DataFolder.open(tmp_path / "data", reserving=True, filesystem=FaultyFileSystem())
    assert len(contents(logs.topics["t"].partitions[0])) == 4
    logs.close()


async def test_a_record_that_is_synced_needs_no_reservation(tmp_path: Path, disk: FaultyFileSystem) -> None:
    logs = DataFolder.open(tmp_path / "data", reserving=True, filesystem=disk)
    logs.create_topic("t", 1, {}, LogConfig(flush_messages=1))
    (log,) = logs.topics["t"].partitions
    async with committing(logs, "os") as commit:
        for number in range(1, 2_000):
            await waited(commit.appended(log, append(log)))
            assert log.flushed_offset == log.high_water_mark == number
    logs.close()


@pytest.mark.parametrize("policy", ["os", "interval"])
async def test_with_flush_messages_1_nobody_reads_what_is_not_synced(
    tmp_path: Path, disk: FaultyFileSystem, policy: FsyncPolicy
) -> None:
    """Else something could be derived from a record that a power loss takes back."""
    logs = DataFolder.open(tmp_path / "data", reserving=True, filesystem=disk)
    logs.create_topic("t", 1, {}, LogConfig(flush_messages=1))
    (log,) = logs.topics["t"].partitions
    async with committing(logs, policy, interval_ms=60_000) as commit:
        written = commit.appended(log, append(log))
        assert (log.end_offset, log.high_water_mark, log.last_stable_offset) == (1, 0, 0)
        await waited(written)
        assert log.high_water_mark == log.last_stable_offset == 1
        disk.refuse_sync = True
        with pytest.raises(StorageError):
            await waited(commit.appended(log, append(log)))
        assert log.high_water_mark == 1
        disk.refuse_sync = False
    logs.close()


async def test_a_log_that_is_to_show_synced_records_only_keeps_showing_what_it_showed(
    tmp_path: Path, disk: FaultyFileSystem
) -> None:
    logs = DataFolder.open(tmp_path / "data", reserving=True, filesystem=disk)
    logs.create_topic("t", 1, {}, LogConfig())
    (log,) = logs.topics["t"].partitions
    async with committing(logs, "os") as commit:
        await waited(commit.appended(log, append(log)))
        commit.appended(log, append(log))
        assert (log.flushed_offset, log.high_water_mark) == (0, 2)
        log.configure(LogConfig(flush_messages=1))
        assert log.high_water_mark == 2, "the latest offset never goes backwards"
        append(log)
        assert log.high_water_mark == 2
        await waited(commit.sync(log))
        assert log.flushed_offset == log.high_water_mark == 3
        assert commit.sync(log) is None
        log.configure(LogConfig())
        append(log)
        assert log.high_water_mark == 4
    logs.close()


async def test_after_a_killed_process_a_log_with_flush_messages_1_shows_all_its_records(
    tmp_path: Path, disk: FaultyFileSystem
) -> None:
    """They may have been acknowledged; now they are synced as well."""
    data = tmp_path / "data"
    logs = DataFolder.open(data, reserving=True, filesystem=disk)
    logs.create_topic("t", 1, {"flush.messages": "1"}, LogConfig(flush_messages=1))
    append(logs.topics["t"].partitions[0])
    logs.abandon()
    logs = DataFolder.open(
        data, reserving=True, filesystem=disk, config_of=lambda _: LogConfig(flush_messages=1)
    )
    (log,) = logs.topics["t"].partitions
    assert log.flushed_offset == log.high_water_mark == log.end_offset == 1
    logs.close()


async def test_without_a_wish_nothing_is_synced(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    async with committing(logs, "os") as commit:
        for _ in range(100):
            commit.appended(log, append(log))
        await asyncio.sleep(0.05)
    assert log.flushed_offset == 0


async def test_stopping_syncs_what_is_left(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    async with committing(logs, "interval", interval_ms=60_000) as commit:
        commit.appended(log, append(log))
    assert log.flushed_offset == 1
