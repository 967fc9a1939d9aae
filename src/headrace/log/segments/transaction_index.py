"""The index of the transactions that a marker in one segment aborted.

Byte format of `<base offset>.txnindex`, as Kafka's: entries of 34 bytes, big-endian, without a header:

    version i16 (0) | producer_id i64 | first_offset i64 | last_offset i64 | last_stable_offset i64

An entry means: the records that the producer wrote from `first_offset` to its abort marker at `last_offset`
do not count; once the marker was written, all transactions before `last_stable_offset` were decided. The
transaction may have begun in an earlier segment. For example, producer 7 writes offsets 10 and 12, producer 8
opens a transaction at 11, and the marker at 13 aborts producer 7: `7, 10, 13, 11`.

Invariants: `last_offset` increases from entry to entry and lies in the segment. The first `saved` entries are
in the file; a segment without aborted transactions has no file. Crash behaviour: the file is updated before a
written point is recorded (`checkpoints`) and when the segment is closed; a start finds later markers in the
log again. There is no checksum: a file that cannot be the index of its segment is rebuilt from the batches
(`aborted_transactions`). Who may call: `log/`. Never opens a file.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from headrace.log.segments.offset_index import CorruptIndexError

ENTRY_SIZE: Final = 34
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """Records of one producer, between two offsets, that readers of committed records must not see."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment, in marker order."""

    __slots__ = ("entries", "file_longer", "saved")

    def __init__(
        self, entries: list[AbortedTransaction] | None = None, *, saved: int = 0, file_longer: bool = False
    ) -> None:
        """`file_longer`: the file may contain more than the `saved` entries."""
        self.entries: list[AbortedTransaction] = entries or []
        self.saved = saved
        self.file_longer = file_longer

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: AbortedTransaction) -> None:
        self.entries.append(entry)

    def truncate(self, offset: int) -> None:
        """Drop the transactions whose marker is at or after an offset."""
        kept = len(self.entries)
        while kept and self.entries[kept - 1].last_offset >= offset:
            kept -= 1
        del self.entries[kept:]
        if kept < self.saved:
            self.saved = kept
            self.file_longer = True

    def overlapping(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Entries with an offset from `start` to before `end`, and whether no later segment can have more."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found, True
        return found, False

    def mark_saved(self) -> None:
        """Record that the file now contains all entries and nothing else."""
        self.saved = len(self)
        self.file_longer = False

    def to_bytes(self, first: int = 0) -> bytes:
        """The entries from a number on, in the file's format."""
        return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self.entries[first:])

    @classmethod
    def parse(cls, content: bytes, base_offset: int, end_offset: int) -> TransactionIndex:
        """Parse the index of a segment. Raises CorruptIndexError, but not for every fault."""
        if len(content) % ENTRY_SIZE:
            raise CorruptIndexError(f"{len(content)} bytes are not a whole number of entries")
        entries = []
        last = base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTransaction(*fields)
            if version != _VERSION or not (
                last < entry.last_offset < end_offset and 0 <= entry.first_offset < entry.last_offset
            ):
                raise CorruptIndexError(f"the entry {entry} of version {version} cannot be right")
            last = entry.last_offset
            entries.append(entry)
        return cls(entries, saved=len(entries))
