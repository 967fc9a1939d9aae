"""What tests of syncing share: a log folder on a disk that counts and fails syncs, and a wait that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.log.config import LogConfig
from headrace.log.folder.data_folder import DataFolder
from headrace.testing.faulty_filesystem import FaultyFileSystem


@contextmanager
def folder_with_topic(
    folder: Path, disk: FaultyFileSystem, *, partitions: int, **settings: Any
) -> Iterator[DataFolder]:
    """A folder with the topic `t`; at the end it is left as a crash would leave it."""
    logs = DataFolder.open(folder, filesystem=disk, **settings)
    logs.create_topic("t", partitions, {}, LogConfig())
    yield logs
    logs.abandon()


async def waited(future: asyncio.Future[None] | None) -> None:
    assert future is not None
    await asyncio.wait_for(future, 120)
