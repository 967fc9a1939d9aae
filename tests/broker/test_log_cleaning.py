"""Cleaning on the broker's event loop, with the processes that do the work."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from headrace.broker.configs.store import ConfigStore
from headrace.broker.log_cleaning import LogCleaning
from headrace.broker.settings import BrokerSettings
from headrace.log.compaction.cleaner import Cleaner
from headrace.log.compaction.cleaning_process import CleaningProcess
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from tests.freezing import freeze
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import append, compact_config, names_in, offsets_of

CONFIG = compact_config()


def filled(path: Path) -> tuple[DataFolder, PartitionLog]:
    folder, log = open_log(path, CONFIG)
    for number in range(50):
        append(log, (b"k%d" % (number % 3), b"v"))
    log.roll(now_ms=NOW)
    log.flush()
    return folder, log


def cleaning_of(folder: DataFolder, **configs: str) -> LogCleaning:
    settings = BrokerSettings(data_dir=Path(folder.path), configs=configs)
    return LogCleaning(Cleaner(folder), ConfigStore(settings, folder), lambda: NOW)


def test_a_round(tmp_path: Path) -> None:
    folder, log = filled(tmp_path / "data")
    cleaning = cleaning_of(folder)

    async def two_rounds() -> tuple[bool, bool]:
        return await cleaning.clean_one(), await cleaning.clean_one()

    assert asyncio.run(two_rounds()) == (True, False)
    assert offsets_of(log) == [47, 48, 49]
    folder.close()


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    folder, log = filled(tmp_path / "data")
    cleaning = cleaning_of(folder, **{"log.cleaner.enable": "false"})
    assert asyncio.run(cleaning.clean_one()) is False
    assert len(offsets_of(log)) == 50
    folder.close()


def test_it_goes_on_until_it_is_cancelled(tmp_path: Path) -> None:
    folder, log = filled(tmp_path / "data")
    cleaning = cleaning_of(folder, **{"log.cleaner.backoff.ms": "1"})

    async def run() -> None:
        task = asyncio.create_task(cleaning.run())
        while len(offsets_of(log)) > 3:
            await asyncio.sleep(0.01)
        append(log, (b"k0", b"w"))
        log.roll(now_ms=NOW)
        log.flush()
        while len(offsets_of(log)) > 3:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert offsets_of(log) == [47, 49, 50]
    folder.close()


def test_a_process_that_dies_is_followed_by_another(tmp_path: Path) -> None:
    folder, log = filled(tmp_path / "data")
    cleaner = Cleaner(folder)
    job = cleaner.begin(NOW)
    assert job is not None
    process = CleaningProcess(job.task)
    freeze(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.stop()
    cleaner.give_up(job, "it was killed")
    cleaner.tidy(job)
    assert not [name for name in names_in(log) if name.endswith(".cleaned")]
    assert asyncio.run(cleaning_of(folder).clean_one())
    assert len(offsets_of(log)) == 3
    folder.close()


def test_a_round_ends_with_the_broker(tmp_path: Path) -> None:
    folder, log = filled(tmp_path / "data")
    cleaning = cleaning_of(folder, **{"log.cleaner.io.max.bytes.per.second": "10"})

    async def run() -> None:
        task = asyncio.create_task(cleaning.clean_one())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(run())
    assert len(offsets_of(log)) == 50
    assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap"))]
    folder.close()
