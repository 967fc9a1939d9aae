"""Reads the log of a table in a bucket for the first time: the commits behind the newest checkpoint together.

One after the other, a hundred of them would take seconds. Invariants: what is read ahead is handed out once,
with the identity that it had when it was read; everything else is asked for as ever.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace.lake.delta_log import LOG_FOLDER
from headrace.lake.location import Location
from headrace.lake.sink import S3Storage
from headrace.lake.storage.s3 import S3Files
from headrace.lake.storage.table_files import Identity

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*parquet")
_TOGETHER: Final = 12
# Of a longer log, the rest is read as it comes.
_MOST_AHEAD: Final = 500


class LogFiles(S3Files):
    """Of one table; its server has some seconds to answer each request. Belongs to one thread."""

    def __init__(self, storage: S3Storage, prefix: str) -> None:
        super().__init__(storage, prefix, is_hasty=True)
        self._ahead: dict[str, tuple[bytes, Identity]] = {}

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        if folder == LOG_FOLDER:
            self._read_ahead(found)
        return found

    def identity(self, name: str) -> Identity | None:
        if name in self._ahead:
            return self._ahead[name][1]
        return super().identity(name)

    def read(self, name: str) -> bytes:
        if name in self._ahead:
            return self._ahead.pop(name)[0]
        return super().read(name)

    def _read_ahead(self, names: list[str]) -> None:
        newest = max((int(match[1]) for each in names if (match := _CHECKPOINT.fullmatch(each))), default=-1)
        behind = sorted(
            each for each in names if (match := _COMMIT.fullmatch(each)) and int(match[1]) > newest
        )
        wanted = [f"{LOG_FOLDER}/{each}" for each in behind[:_MOST_AHEAD]]
        with ThreadPoolExecutor(_TOGETHER) as together:
            self._ahead = dict(zip(wanted, together.map(self._read, wanted), strict=True))


def log_files(location: Location) -> LogFiles:
    """For `DeltaLog`."""
    assert isinstance(location.storage, S3Storage)
    return LogFiles(location.storage, location.key)
