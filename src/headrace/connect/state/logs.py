"""Where state is kept: a log of keyed records that are folded, live and at the start alike.

`CompactedLog` of `client/` is one, in a topic; `MemoryLog` and `FileLog` are for a standalone worker.
Invariants: a record is folded while `progress` is held, after it is kept; an append that returned True is
kept. A `FileLog` replaces its file as a whole, so a kill leaves the old or the new content.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from headrace.client.followed import CompactedLog
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError

# Key, value, and the place of the record, which grows.
Fold = Callable[[bytes, bytes | None, int], None]
# How long a call waits for the log.
TIMEOUT_SECONDS: Final = 15.0


class StateLog(Protocol):
    """All methods may be called from any thread; all may block."""

    @property
    def progress(self) -> threading.Condition: ...

    @property
    def is_alive(self) -> bool:
        """Whether what is written is still folded."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def read_to_end(self) -> None:
        """Fold everything that was written before, by anybody. Raises log_unavailable."""

    def append(self, key: bytes, value: bytes | None) -> bool:
        """Keep a record and fold it. False if nobody knows whether it is kept. Raises log_unavailable."""

    def append_later(self, key: bytes, value: bytes | None) -> None:
        """Keep a record in the background; if that fails, it is lost."""


# Makes a log from what it holds, in words, and its fold.
LogFactory = Callable[[str, Fold], StateLog]


def compacted_log(bootstrap: str, topic: str) -> LogFactory:
    """State in a compacted topic."""

    def make(holds: str, fold: Fold) -> StateLog:
        def read(record: Record) -> None:
            fold(record.key() or b"", record.value(), record.offset() or 0)

        return CompactedLog(bootstrap, topic, read, holds=holds, timeout=TIMEOUT_SECONDS)

    return make


class MemoryLog:
    """Keeps nothing beyond the life of the process."""

    def __init__(self, _: str, fold: Fold) -> None:
        self.progress = threading.Condition(threading.RLock())
        self.is_alive = True
        self._fold = fold
        self._end = 0

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def read_to_end(self) -> None: ...

    def append(self, key: bytes, value: bytes | None) -> bool:
        with self.progress:
            self._fold(key, value, self._end)
            self._end += 1
            self.progress.notify_all()
        return True

    def append_later(self, key: bytes, value: bytes | None) -> None:
        self.append(key, value)


class FileLog(MemoryLog):
    """Keeps the newest record of each key in a file: `{"key in base64": "value in base64"}`."""

    def __init__(self, path: Path, holds: str, fold: Fold) -> None:
        super().__init__(holds, fold)
        self._path = path
        self._holds = holds
        self._kept: dict[str, str] = {}

    @classmethod
    def at(cls, path: Path) -> LogFactory:
        return lambda holds, fold: cls(path, holds, fold)

    def start(self) -> None:
        """Raises invalid_setting if the file is not ours."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unusable(str(error)) from error
        try:
            kept: Any = json.loads(text) if text else {}
            records = [(base64.b64decode(key), base64.b64decode(value)) for key, value in kept.items()]
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise self._unusable("it was written by another program") from error
        self._kept = kept
        for key, value in records:
            super().append(key, value)

    def append(self, key: bytes, value: bytes | None) -> bool:
        with self.progress:
            name = base64.b64encode(key).decode()
            kept = (
                {**self._kept, name: base64.b64encode(value).decode()}
                if value is not None
                else {other: each for other, each in self._kept.items() if other != name}
            )
            try:
                self._replace(json.dumps(kept, indent=1))
            except OSError as error:
                raise self._unusable(str(error)) from error
            self._kept = kept
            return super().append(key, value)

    def _replace(self, text: str) -> None:
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)

    def _unusable(self, reason: str) -> HeadraceError:
        return HeadraceError(
            "invalid_setting",
            f"The file {self._path} cannot hold {self._holds}: {reason}.",
            remedy="Choose another file, or remove this one to start from the beginning.",
        )
