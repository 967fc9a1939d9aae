"""Which leader epoch wrote which offsets of a partition (KIP-101), and the file that remembers it.

On a single node the epoch changes only when recovery begins a new one, but consumers ask for it (KIP-320) to
find out whether the records they have read still exist.

Byte format of `leader-epoch-checkpoint`, text as written by Apache Kafka: a line with the version (0), a line
with the number of entries, then for each entry a line with the epoch and the first offset written under it.
For example, epoch 0 from offset 0 on and epoch 3 from offset 120 on:

    0
    2
    0 0
    3 120

Invariants: epochs and start offsets both increase from entry to entry. Crash behaviour: the file is replaced
as a whole; a damaged file counts as missing, and the epochs are found in the batches that recovery looks at.
Opening a log removes superfluous entries (the log's end or start moved and the file did not).

Who may call: the partition log and its parts, from one thread.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import Final

from headrace.log.filesystem import FileSystem, read_file, write_atomically

_log = logging.getLogger(__name__)
EPOCHS_FILE: Final = "leader-epoch-checkpoint"
VERSION: Final = 0
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class CorruptCheckpointError(Exception):
    """Neither Kafka nor this module wrote this content. The batches contain the epochs too."""


class LeaderEpochs:
    """The epochs of one partition with their start offsets, oldest first."""

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []

    @property
    def latest(self) -> int | None:
        """The newest epoch with an entry."""
        return self._epochs[-1] if self._epochs else None

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Pairs of epoch and start offset, oldest first."""
        return tuple(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Let `epoch` begin at `start_offset`. Return whether that changed anything.

        Drop entries that contradict the new one: those that are not older, and those that begin at or after
        its start (nothing was written under them).
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot begin at offset {start_offset}")
        epochs, starts = self._epochs, self._start_offsets
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and its end: where the next begins, or the log ends.

        (-1, -1) for an epoch that this log has not reached. For an epoch older than all entries: that epoch
        itself with the first known start, so that a reader begins there.
        """
        epochs = self._epochs
        if epoch == UNDEFINED_EPOCH or not epochs or epoch > epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(epochs, epoch)
        return (epochs[above - 1] if above else epoch), self._start_offsets[above]

    def epoch_for(self, offset: int) -> int | None:
        """The epoch that wrote an offset; None for an offset before all entries."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else None

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop everything before `start_offset`. Return whether that changed anything."""
        keep = bisect_right(self._start_offsets, start_offset)
        if not keep or (keep == 1 and self._start_offsets[0] == start_offset):
            return False
        del self._epochs[: keep - 1]
        del self._start_offsets[: keep - 1]
        self._start_offsets[0] = start_offset
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop epochs that begin at or after `end_offset`. Return whether there were any."""
        before = len(self._epochs)
        while self._start_offsets and self._start_offsets[-1] >= end_offset >= 0:
            self._epochs.pop()
            self._start_offsets.pop()
        return len(self._epochs) != before

    def clear(self) -> None:
        self._epochs.clear()
        self._start_offsets.clear()

    def to_bytes(self) -> bytes:
        """The content of the checkpoint file."""
        lines = [str(VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in self.entries]
        return ("\n".join(lines) + "\n").encode("ascii")

    def load(self, content: bytes) -> None:
        """Replace the entries with those of a checkpoint file.

        Raises CorruptCheckpointError and is empty then.
        """
        self.clear()
        try:
            version, count, *lines = content.decode("ascii").splitlines()
            if int(version) != VERSION or int(count) != len(lines):
                raise ValueError(f"version {version} with {count} entries, and there are {len(lines)}")
            for line in lines:
                epoch, start_offset = line.split()
                self.assign(int(epoch), int(start_offset))
        except ValueError as error:
            self.clear()
            raise CorruptCheckpointError(f"not a leader epoch checkpoint: {error}") from error


class EpochFile(LeaderEpochs):
    """The epochs of one partition with their file; each batch gets the `current` one."""

    __slots__ = ("_filesystem", "_path", "_sync", "current")

    def __init__(self, folder: str, filesystem: FileSystem, *, sync: bool) -> None:
        super().__init__()
        self._path: Final = f"{folder}/{EPOCHS_FILE}"
        self._filesystem: Final = filesystem
        self._sync: Final = sync
        self.current = 0

    def read(self) -> None:
        """Load the file. Raises OSError."""
        try:
            self.load(read_file(self._filesystem, self._path))
        except CorruptCheckpointError as error:
            _log.warning("ignoring the damaged file %s: %s", self._path, error)

    def write(self) -> None:
        """Raises OSError."""
        write_atomically(self._filesystem, self._path, self.to_bytes(), sync=self._sync)

    def resume(self) -> bool:
        """Continue with the newest epoch. Return False if none is known."""
        latest = self.latest
        self.current = latest or 0
        return latest is not None

    def know(self, epoch: int, start_offset: int) -> None:
        """Continue with an epoch that is newer than all in the log, whose records begin there or are lost."""
        if self.latest is None or epoch > self.latest:
            self.assign(epoch, start_offset)
            self.current = epoch

    def begin_next(self, start_offset: int, end_offset: int) -> None:
        """Begin a new epoch at the end of a log with this start and end. Raises OSError."""
        latest = self.latest
        self.truncate_from_start(start_offset)
        self.truncate_from_end(end_offset)
        self.current = 0 if latest is None else latest + 1
        self.assign(self.current, end_offset)
        self.write()

    def start_moved(self, start_offset: int) -> None:
        """Drop the epochs before the new start of the log. Raises OSError."""
        if self.truncate_from_start(start_offset):
            self.write()
