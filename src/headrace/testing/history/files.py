"""Histories as files: one JSON object per line, one file per client, merged by time.

Crash behaviour: a line is written with one unbuffered call, so what a killed client had recorded is there; an
incomplete last line was cut off by the kill and is ignored. Any other line that is not an event is an error.
Never reorders the events of one file: a client's own order is the order in which it wrote.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import msgspec

from headrace.testing.history.events import Event


class HistoryError(Exception):
    """Not a history: a line that is not an event, or events that contradict each other."""


class _Tag(msgspec.Struct):
    event: str


_TAG: msgspec.json.Decoder[_Tag] = msgspec.json.Decoder(_Tag)
_EVENTS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__dataclass_fields__["event"].default: msgspec.json.Decoder(kind) for kind in get_args(Event)
}


class HistoryWriter:
    """Appends events to a file. Thread-safe: each line is one write."""

    def __init__(self, path: Path | str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._encoder = msgspec.json.Encoder()

    def write(self, event: Event) -> None:
        line = self._encoder.encode(event) + b"\n"
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written: the disk is full")

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def decode(line: bytes) -> Event:
    """Decode one line. Raises HistoryError."""
    try:
        tag = _TAG.decode(line).event
        decoder = _EVENTS.get(tag)
        if decoder is None:
            raise HistoryError(f"there is no event {tag!r}")
        event: Event = decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise HistoryError(str(error)) from error
    return event


def read_history(paths: Path | str | Iterable[Path | str]) -> list[Event]:
    """The events of all files, ordered by time. Raises HistoryError, which names the file and line."""
    files = [paths] if isinstance(paths, Path | str) else sorted(paths)
    return list(heapq.merge(*(_events(Path(path)) for path in files), key=attrgetter("time")))


def _events(path: Path) -> Iterator[Event]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decode(line)
            except HistoryError as error:
                raise HistoryError(f"{path}, line {number}: {error}") from error
