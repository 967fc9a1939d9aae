"""Answers what a worker asks of files in buckets: which local file has the bytes.

Invariants: only files of the tables of the worker's last plan are read, whatever it asks for; a request is
answered with a place or a reason, neither of which has credentials. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headrace.lake.sink import S3Storage
from headrace.query.buckets.cache import StoredObject
from headrace.query.buckets.reading import BucketReader
from headrace.query.table_snapshot import BucketSnapshot, TableSnapshot

_MOST_AHEAD: Final = 8


class BucketReads:
    """Of one worker. `answer` sends an answer."""

    def __init__(self, reader: BucketReader, answer: Callable[[bytes], None]) -> None:
        self._reader = reader
        self._answer = answer
        self._admitted: tuple[BucketSnapshot, ...] = ()
        self._running: set[asyncio.Task[None]] = set()

    def admit(self, snapshots: Iterable[TableSnapshot]) -> None:
        """From now on, the files of these can be read, and no others."""
        self._admitted = tuple(each for each in snapshots if isinstance(each, BucketSnapshot))

    def asked(self, payload: bytes) -> None:
        task = asyncio.create_task(self._serve(payload), name="serve-read")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def close(self) -> None:
        for task in self._running:
            task.cancel()

    async def _serve(self, payload: bytes) -> None:
        found: Mapping[str, Any]
        number = 0
        try:
            request = json.loads(payload)
            number, start, end = (int(request[name]) for name in ("number", "start", "end"))
            found = await self._found(str(request["file"]), start, end, request.get("ahead", ()))
        except (ValueError, KeyError, TypeError):
            found = {"failure": "a worker asked for something that is no range of a file"}
        self._answer(json.dumps({"number": number, **found}).encode())

    async def _found(self, file: str, start: int, end: int, ahead: Iterable[str]) -> Mapping[str, Any]:
        of = self._object(file)
        if of is None:
            return {"failure": "a worker asked for a file that is not of its question's tables"}
        for each in list(ahead)[:_MOST_AHEAD]:
            following = self._object(str(each))
            if following is not None:
                self._reader.prepare(following)
        try:
            held = await self._reader.read(of, start, end)
        except FileNotFoundError:
            return {"gone": f"s3://{of.storage.bucket}/{of.key}"}
        except OSError as error:
            return {"failure": error.strerror or str(error)}
        return {"path": str(held.path), "start": held.start, "end": held.end}

    def _object(self, file: str) -> StoredObject | None:
        for snapshot in self._admitted:
            found = snapshot.objects.get(file)
            if found is not None:
                name, size = found
                location = snapshot.location
                assert isinstance(location.storage, S3Storage)
                key = f"{location.key}/{name}".strip("/")
                return StoredObject(storage=location.storage, key=key, size=size)
        return None
