"""Reads ranges of data files in buckets, through the cache: the only place that asks a bucket for data.

Whoever asks gets the name of a local file that has the range at the same offset. Invariants: two questions
that need the same bytes share one request; each storage has its own threads, so one whose server hangs holds
up no other; a range is there, or an error is raised, within `PATIENCE_SECONDS`; after a failure the storage
is not asked for a moment, but fails at once. Nothing about it has credentials. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.lake.sink import S3Storage
from headrace.lake.storage.s3_client import Bucket
from headrace.lake.storage.table_files import StorageError
from headrace.query.buckets.cache import (
    BLOCK_BYTES,
    CachedObject,
    ObjectCache,
    StoredObject,
    runs,
)

PATIENCE_SECONDS: Final = 8.0
# Objects up to this size are read whole: a request costs more than its bytes.
_WHOLE_BYTES: Final = 1024 * 1024
# What of its end is read first: a Parquet file ends with its description.
_END_BYTES: Final = 64 * 1024
# An object is only read ahead if so many of its size have room in the cache.
_ROOM_AHEAD: Final = 16
# A range that is longer is read by several requests at once.
_REQUEST_BLOCKS: Final = 128
_THREADS: Final = 8
_AWAY_SECONDS: Final = 2.0
_ATTEMPTS: Final = 2

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A local file that has the bytes from `start` to `end` of an object, at the same offsets."""

    path: Path
    start: int
    end: int


class BucketReader:
    """Of one process."""

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self._cache = ObjectCache(folder, most_bytes=most_bytes)
        self._threads: dict[S3Storage, ThreadPoolExecutor] = {}
        self._fetching: dict[tuple[StoredObject, int], asyncio.Task[None]] = {}
        self._away: dict[S3Storage, tuple[float, OSError]] = {}
        self._is_closed = False

    @property
    def cached_bytes(self) -> int:
        return self._cache.used

    async def start(self) -> None:
        await asyncio.to_thread(self._cache.open)

    async def stop(self) -> None:
        self._is_closed = True
        tasks = set(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._cache.close)

    async def read(self, of: StoredObject, start: int, end: int) -> Held:
        """Raises FileNotFoundError if the object is gone, and other OSErrors."""
        if not 0 <= start < end <= of.size:
            raise StorageError(errno.EINVAL, f"bytes {start} to {end} of {of.size} were asked for")
        start, end = (0, of.size) if of.size <= _WHOLE_BYTES else (start, end)
        async with _patience(of):
            while True:
                entry = self._cache.entry(of)
                lacking = entry.lacks(start, end)
                if not lacking:
                    first, last = entry.extent(start, end)
                    return Held(path=entry.path, start=first, end=last)
                fetching = self._fetch(of, entry, lacking)
                await asyncio.gather(*(asyncio.shield(each) for each in fetching))

    def prepare(self, of: StoredObject) -> None:
        """Somebody will open the object soon."""
        start = max(0, of.size - _END_BYTES) if of.size > _WHOLE_BYTES else 0
        if (of.size - start) * _ROOM_AHEAD > self._cache.most_bytes:
            # It would take the place of what is being read.
            return
        entry = self._cache.entry(of)
        lacking = entry.lacks(start, of.size)
        if lacking and not self._is_away(of.storage):
            self._fetch(of, entry, lacking)

    def _fetch(self, of: StoredObject, entry: CachedObject, lacking: list[int]) -> set[asyncio.Task[None]]:
        """What is under way for these blocks, begun where nothing is. Raises the error of a storage that has
        just failed.
        """
        free = [each for each in lacking if (of, each) not in self._fetching]
        if free and (error := self._is_away(of.storage)) is not None:
            raise error
        for run in runs(free):
            for first in range(run.start, run.stop, _REQUEST_BLOCKS):
                part = range(first, min(first + _REQUEST_BLOCKS, run.stop))
                entry.pending += 1
                task = asyncio.create_task(self._fill(of, entry, part), name="read-bucket")
                # Nobody may be waiting: then its error is of no interest.
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
                for each in part:
                    self._fetching[of, each] = task
        return {self._fetching[of, each] for each in lacking}

    async def _fill(self, of: StoredObject, entry: CachedObject, part: range) -> None:
        loop = asyncio.get_running_loop()
        start, end = part.start * BLOCK_BYTES, min(part.stop * BLOCK_BYTES, of.size)
        try:
            await loop.run_in_executor(self._threads_of(of.storage), _copy, of, entry, start, end)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._away[of.storage] = (time.monotonic() + _AWAY_SECONDS, error)
            raise
        else:
            self._away.pop(of.storage, None)
            self._cache.fill(entry, part)
        finally:
            entry.pending -= 1
            for each in part:
                self._fetching.pop((of, each), None)

    def _is_away(self, storage: S3Storage) -> OSError | None:
        until, error = self._away.get(storage, (0.0, None))
        return error if time.monotonic() < until else None

    def _threads_of(self, storage: S3Storage) -> ThreadPoolExecutor:
        if storage not in self._threads:
            self._threads[storage] = ThreadPoolExecutor(_THREADS, thread_name_prefix="bucket")
        return self._threads[storage]


class _patience:  # noqa: N801 - used like a function
    """Ends with a StorageError after `PATIENCE_SECONDS`."""

    def __init__(self, of: StoredObject) -> None:
        self._of = of
        self._timeout = asyncio.timeout(PATIENCE_SECONDS)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._timeout.__aexit__(*error)  # type: ignore[arg-type]
        except TimeoutError:
            bucket = Bucket(self._of.storage)
            reason = f"no answer within {PATIENCE_SECONDS:g} s"
            raise bucket.failure("get_object", self._of.key, reason) from None


def _copy(of: StoredObject, entry: CachedObject, start: int, end: int) -> None:
    """From the bucket into the cache."""
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    bucket = Bucket(of.storage, is_hasty=True)
    wanted = f"bytes={start}-{end - 1}"
    for attempt in range(_ATTEMPTS):
        answer = bucket.ask("get_object", of.key, Key=of.key, Range=wanted)
        size = str(answer.get("ContentRange", "")).rpartition("/")[2]
        if size.isdecimal() and int(size) != of.size:
            raise bucket.failure("get_object", of.key, f"it has {size} bytes instead of {of.size}")
        try:
            content = answer["Body"].read()
        except BotoCoreError as error:
            # The client repeats requests, but not an answer that breaks off.
            if attempt + 1 == _ATTEMPTS:
                raise bucket.failure("get_object", of.key, str(error)) from error
            continue
        if len(content) == end - start:
            entry.write(start, content)
            return
        if not size and len(content) == of.size:
            # A server that knows no ranges.
            entry.write(start, content[start:end])
            return
    raise bucket.failure("get_object", of.key, f"{len(content)} bytes came instead of {end - start}")
