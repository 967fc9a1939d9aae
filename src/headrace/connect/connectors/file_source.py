"""A source that reads the lines of a file and goes on as the file grows: Kafka's FileStreamSource.

Its partition is `{"filename": <the setting>}`, its offset `{"position": <bytes>}`, behind the end of the last
line that was read. Invariants: a line is given once its end is in the file, without it (`\\n`, `\\r\\n`,
`\\r`); a file that is not there yet is waited for. Unlike Kafka's, which counts characters, it counts bytes,
so it finds its place in any text; and when there is nothing to read, it looks whether the file was shortened
or another one is in its place, and begins at the beginning, with what is left of the former file first. It
cannot notice that a file was shortened and has grown beyond the position between two looks, or was replaced
by a longer one while no task ran.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final, cast

from headrace.connect.connectors.files import Files
from headrace.connect.data import STRING, SourceRecord
from headrace.connect.definitions import Definition, between
from headrace.connect.plugins import Config, Errors, Plugin, TaskContext
from headrace.core.errors import HeadraceError

CLASS: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_BATCH: Final = 2000
_LARGEST_BATCH: Final = 100_000
_CHUNK_BYTES: Final = 65_536
# No topic takes more, and memory is finite.
_LONGEST_LINE: Final = 8 * 1024 * 1024
_WAIT_SECONDS: Final = 0.2

_log = logging.getLogger(__name__)


def file_source(files: Files, version: str, *, reads_standard_input: bool = False) -> Plugin:
    """`reads_standard_input`: without a file, lines come from there, as in Kafka's standalone worker."""
    return Plugin(
        class_name=CLASS,
        kind="source",
        version=version,
        settings=(
            Definition(
                name="file",
                kind="STRING",
                default=None,
                importance="HIGH",
                documentation="File to read."
                + (" Without it, standard input." if reads_standard_input else ""),
            ),
            Definition(
                name="topic",
                kind="STRING",
                importance="HIGH",
                documentation="Topic to write to.",
                validator=_no_topic,
            ),
            Definition(
                name="batch.size",
                kind="INT",
                default=_BATCH,
                importance="LOW",
                documentation="Most lines that are read at once.",
                validator=between(1, _LARGEST_BATCH),
            ),
        ),
        new_task=lambda: FileSourceTask(files),
        task_class="org.apache.kafka.connect.file.FileStreamSourceTask",
        check=file_check(files, needs_file=not reads_standard_input),
        check_offset=_wrong_offset,
    )


def file_check(files: Files, *, needs_file: bool) -> Callable[[Config], Errors]:
    """Refuses paths that are not allowed, before anything is started."""

    def check(config: Config) -> Errors:
        path = config.get("file", "")
        if not path:
            return {"file": ["A file is required here"]} if needs_file else {}
        try:
            files.resolved(path)
        except HeadraceError as error:
            return {"file": [str(error)]}
        return {}

    return check


def _no_topic(topic: Any) -> str:
    return "" if topic else "String must be non-empty"


def _wrong_offset(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> str:
    if "filename" not in partition:
        return "Partition objects should contain the key 'filename'"
    if offset is None:
        return ""
    position = offset.get("position")
    if "position" not in offset:
        return "Offset objects should either be null or contain the key 'position'"
    if not isinstance(position, int) or isinstance(position, bool):
        return "The value for the 'position' key in the offset is expected to be a Long value"
    return (
        ""
        if position >= 0
        else "The value for the 'position' key in the offset should be a non-negative value"
    )


class FileSourceTask:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: BinaryIO | None = None
        self._rest = b""
        # Where `_rest` begins in the file, and how much of it has no end of a line.
        self._position = 0
        self._scanned = 0
        self._said_missing = False

    def start(self, config: Config, context: TaskContext) -> None:
        self._context = context
        self._path = config.get("file") or ""
        self._topic = config["topic"]
        self._batch = int(config.get("batch.size", _BATCH))
        self._partition = {"filename": self._path} if self._path else None
        if self._partition is not None:
            found = context.source_offset(self._partition)
            self._position = int(found["position"]) if found is not None else 0

    def poll(self) -> Sequence[SourceRecord]:
        file = self._opened()
        if file is None:
            return []
        lines = self._lines(file) or self._lines_of_another(file)
        if not lines:
            self._context.wait(_WAIT_SECONDS)
        return lines

    def commit(self) -> None:
        """Nothing to do: the file stays as it is."""

    def stop(self) -> None:
        if self._file is not None and self._path:
            self._file.close()

    def _opened(self) -> BinaryIO | None:
        if self._file is None:
            if not self._path:
                self._file = cast(BinaryIO, _StandardInput())
                return self._file
            try:
                self._file = self._files.open_reading(self._path)
            except FileNotFoundError:
                if not self._said_missing:
                    _log.warning("Couldn't find file %s, waiting for it to be created", self._path)
                self._said_missing = True
                self._context.wait(_WAIT_SECONDS)
                return None
            self._file.seek(self._position)
        return self._file

    def _lines(self, file: BinaryIO) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        while len(found) < self._batch:
            line, end = _first_line(self._rest, self._scanned)
            if line is None:
                # The last byte may be one half of an end.
                self._scanned = max(0, len(self._rest) - 1)
                chunk = file.read(_CHUNK_BYTES)
                if not chunk:
                    break
                self._rest += chunk
                if len(self._rest) > _LONGEST_LINE:
                    raise ValueError(f"{self._path} has a line longer than {_LONGEST_LINE} bytes")
                continue
            self._rest = self._rest[end:]
            self._position += end
            self._scanned = 0
            found.append(self._record(line))
        return found

    def _lines_of_another(self, file: BinaryIO) -> list[SourceRecord]:
        """Begin at the beginning, if the file was shortened or replaced; what is left of the former one."""
        if not self._path:
            return []
        here = os.fstat(file.fileno())
        if here.st_size < self._position + len(self._rest):
            _log.warning("%s was shortened: it is read from its beginning", self._path)
            self._begin()
            file.seek(0)
            return []
        try:
            there = self._files.resolved(self._path).stat()
            if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                return []
            # Whoever writes may have written more before the other file was there.
            left = self._lines(file)
            if left:
                return left
            other = self._files.open_reading(self._path)
        except FileNotFoundError:
            return []
        _log.warning("another file is at %s: it is read from its beginning", self._path)
        rest = self._rest
        self._begin()
        file.close()
        self._file = other
        # Nobody will end this line any more.
        return [self._record(rest.removesuffix(b"\r"))] if rest else []

    def _begin(self) -> None:
        self._rest, self._position, self._scanned = b"", 0, 0

    def _record(self, line: bytes) -> SourceRecord:
        return SourceRecord(
            topic=self._topic,
            value=line.decode("utf-8", "replace"),
            value_schema=STRING,
            source_partition=self._partition,
            source_offset={"position": self._position},
        )


def _first_line(text: bytes, start: int) -> tuple[bytes | None, int]:
    """The first whole line and where the next one begins; None if its end is not there yet. There is no end
    before `start`.
    """
    feed = text.find(b"\n", start)
    carriage = text.find(b"\r", start, feed if feed >= 0 else len(text))
    if carriage >= 0:
        if carriage + 1 == len(text):
            # The other half of the end may follow.
            return None, 0
        return text[:carriage], carriage + (2 if text[carriage + 1 : carriage + 2] == b"\n" else 1)
    return (text[:feed], feed + 1) if feed >= 0 else (None, 0)


class _StandardInput:
    """Standard input without waiting for it, and without a lock that would outlive the task."""

    def read(self, most: int) -> bytes:
        ready, _, _ = select.select([sys.stdin.fileno()], [], [], 0)
        return os.read(sys.stdin.fileno(), most) if ready else b""
