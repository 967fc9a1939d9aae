"""Producers wait for a reservation only if theirs is used up, and see an error if it cannot be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.broker.offset_reserving import ReservingAhead
from headrace.log.errors import StorageError, UnknownTopicError
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.broker.syncing import folder_with_topic, waited
from tests.log.batches import NOW, batch, contents

pytestmark = pytest.mark.anyio


@pytest.fixture
def logs(tmp_path: Path, disk: FaultyFileSystem) -> Iterator[DataFolder]:
    with folder_with_topic(tmp_path / "data", disk, partitions=20, reserving=True) as folder:
        yield folder


class Reserving:
    """The part under test, with what it told of logs whose high-water mark moved."""

    def __init__(self, logs: DataFolder) -> None:
        self.moved: list[PartitionLog] = []
        self.ahead = ReservingAhead(logs.reserving, self.moved.append)

    def append(self, log: PartitionLog, records: int = 1) -> asyncio.Future[None] | None:
        last_offset = log.append(batch(*[b"v"] * records), now_ms=NOW).last_offset
        return self.ahead.ask(log, last_offset) if last_offset >= log.reservation.ask_at else None


@asynccontextmanager
async def reserving(logs: DataFolder) -> AsyncIterator[Reserving]:
    each = Reserving(logs)
    try:
        yield each
    finally:
        await each.ahead.stop()


async def test_the_first_records_wait_and_share_one_write(logs: DataFolder, disk: FaultyFileSystem) -> None:
    partitions = logs.topics["t"].partitions
    async with reserving(logs) as reserve:
        futures = [reserve.append(log) for log in partitions]
        assert [log.high_water_mark for log in partitions] == [0] * 20
        assert contents(partitions[3]) == []
        before = disk.syncs
        for future in futures:
            await waited(future)
        assert disk.syncs == before + 1
        assert [log.high_water_mark for log in partitions] == [1] * 20
        assert len(contents(partitions[3])) == 1
        assert set(reserve.moved) == set(partitions)


async def test_in_the_steady_state_hardly_anybody_waits(logs: DataFolder, disk: FaultyFileSystem) -> None:
    log = logs.topics["t"].partitions[0]
    async with reserving(logs) as reserve:
        await waited(reserve.append(log))
        syncs = disk.syncs
        waits = 0
        for _ in range(300):
            future = reserve.append(log, 100)
            if future is not None:
                await waited(future)
                waits += 1
            await asyncio.sleep(0.001)
        # 30,000 records took a few writes, each for more offsets than the one before; a busy disk makes one
        # producer wait for a write, not more.
        written = disk.syncs - syncs
        assert 1 <= written <= 30
        assert waits <= written
        assert log.high_water_mark == log.end_offset == 30_001


async def test_a_burst_beyond_the_reservation_is_released_batch_by_batch(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    async with reserving(logs) as reserve:
        futures = [reserve.append(log, 400) for _ in range(50)]
        for future in futures:
            await waited(future)
        assert log.high_water_mark == log.end_offset == 20_000


async def test_a_reservation_that_cannot_be_written_is_an_error_now_and_tried_again_later(
    logs: DataFolder, disk: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.offset_reserving.RETRY_SECONDS", 0.01)
    log = logs.topics["t"].partitions[0]
    async with reserving(logs) as reserve:
        disk.refuse_sync = True
        with pytest.raises(StorageError, match="No offsets could be reserved"):
            await waited(reserve.append(log))
        assert (log.high_water_mark, log.end_offset) == (0, 1)
        disk.refuse_sync = False
        async with asyncio.timeout(120):
            while log.high_water_mark == 0:
                await asyncio.sleep(0.005)
        assert log.high_water_mark == 1


async def test_who_waits_for_a_deleted_topic_is_told(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    async with reserving(logs) as reserve:
        future = reserve.append(log)
        logs.delete_topic("t")
        with pytest.raises(UnknownTopicError):
            await waited(future)


async def test_who_still_waits_at_the_stop_is_told(logs: DataFolder) -> None:
    log = logs.topics["t"].partitions[0]
    reserve = Reserving(logs)
    await reserve.ahead.stop()
    future = reserve.append(log)
    await reserve.ahead.stop()
    with pytest.raises(StorageError, match="stopping"):
        await waited(future)
