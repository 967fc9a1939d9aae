"""The reserved offsets of all logs on the disk: after a power loss a log continues behind its reservation.

Byte format of `reserved-offsets`: text, one line for each reservation, with the topic's id in Kafka's
notation, the partition, the offset before which everything is reserved, the leader epoch, and the CRC-32C of
all that in hexadecimal digits, for example

    Fo3QXzUoTtWvKnMPEZP1mA 0 41000 2 9b1f03c7

A line is appended, and everything is synced before its offsets are used. The largest offset of a partition
counts. Zeros after the last line are room for more, so that a sync need not change the file's size. A full
file is replaced by one with only the lines that count.

Invariants: only partitions that were written to since the last clean stop have a line. Crash behaviour: a
damaged line counts as missing, as its sync has not returned. After a failed sync the file is replaced as a
whole. Who may call: `reserving`; `write` in any thread, but one at a time. Never looks at a log.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.log.filesystem import FileSystem, read_file, remove_file, write_atomically, write_fully
from headrace.log.folder.topic_catalogue import decode_id, encode_id
from headrace.log.partition.recovery import Reserved

_log = logging.getLogger(__name__)

RESERVED_OFFSETS: Final = "reserved-offsets"
_LEAST_ROOM: Final = 16 << 10


class ReservedLog(NamedTuple):
    """The log that a reservation is for: a topic that is created again does not inherit it."""

    topic_id: uuid.UUID
    partition: int


class Reservations:
    """The reservations of one data folder."""

    def __init__(self, filesystem: FileSystem, folder: str) -> None:
        self._filesystem: Final = filesystem
        self._folder: Final = folder
        self._path: Final = f"{folder}/{RESERVED_OFFSETS}"
        self._all: dict[ReservedLog, Reserved] = {}
        # Where the next line goes, and the size of the file; None if the file must be replaced first.
        self._room: tuple[int, int] | None = None

    def load(self) -> None:
        """Read the file. Raises OSError."""
        try:
            content = read_file(self._filesystem, self._path)
        except FileNotFoundError:
            return
        for log, reserved in _lines(content):
            self._merge(log, reserved)

    def of(self, log: ReservedLog) -> Reserved | None:
        """What is reserved for a log."""
        return self._all.get(log)

    def __len__(self) -> int:
        return len(self._all)

    def replace(self, reservations: Mapping[ReservedLog, Reserved]) -> None:
        """Replace all reservations durably. Raises OSError."""
        self._all = dict(reservations)
        self._rewrite()

    def write(self, reservations: Mapping[ReservedLog, Reserved]) -> None:
        """Add reservations durably. If this raises OSError, they do not count."""
        for log, reserved in reservations.items():
            self._merge(log, reserved)
        content = b"".join(_line(log, reserved) for log, reserved in reservations.items())
        if self._room is None or self._room[0] + len(content) > self._room[1]:
            self._rewrite()
            return
        position, size = self._room
        self._room = None
        descriptor = self._filesystem.open(self._path, write=True)
        try:
            write_fully(self._filesystem, descriptor, content, position)
            self._filesystem.fdatasync(descriptor)
        finally:
            self._filesystem.close(descriptor)
        self._room = (position + len(content), size)

    def forget(self, log: ReservedLog) -> None:
        """The log was deleted. The file forgets it when it is next replaced."""
        self._all.pop(log, None)

    def clear(self) -> None:
        """Everything is synced, and nothing will be written before the next start. Raises OSError."""
        if self._room is not None or self._all:
            self._all.clear()
            self._room = None
            remove_file(self._filesystem, self._path)

    def _merge(self, log: ReservedLog, reserved: Reserved) -> None:
        before = self._all.get(log)
        if before is None or before.bound < reserved.bound:
            self._all[log] = reserved

    def _rewrite(self) -> None:
        self._room = None
        # A copy: another thread may forget a log meanwhile.
        content = b"".join(_line(log, reserved) for log, reserved in self._all.copy().items())
        size = len(content) + max(_LEAST_ROOM, len(content))
        write_atomically(self._filesystem, self._path, content.ljust(size, b"\0"), sync=True)
        self._filesystem.sync_directory(self._folder)
        self._room = (len(content), size)


def _line(log: ReservedLog, reserved: Reserved) -> bytes:
    text = f"{encode_id(log.topic_id)} {log.partition} {reserved.bound} {reserved.leader_epoch}".encode()
    return b"%s %08x\n" % (text, crc32c(text))


def _lines(content: bytes) -> Iterator[tuple[ReservedLog, Reserved]]:
    for line in content.replace(b"\0", b"").splitlines():
        text, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x" % crc32c(text):
            _log.warning("ignoring a damaged line of %s", RESERVED_OFFSETS)
            continue
        topic_id, partition, bound, leader_epoch = text.decode().split(" ")
        yield (
            ReservedLog(decode_id(topic_id), int(partition)),
            Reserved(bound=int(bound), leader_epoch=int(leader_epoch)),
        )
