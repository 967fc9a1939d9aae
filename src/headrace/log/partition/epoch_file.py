"""The leader epoch of a partition, and the file `leader-epoch-checkpoint` with the epochs before it.

Owns both. Byte format: `leader_epochs`. Crash behaviour: the file is replaced as a whole; a damaged file
counts as missing, and the epochs are found in the batches that recovery looks at. Who may call: the partition
log and its parts.
"""

from __future__ import annotations

import logging
from typing import Final

from headrace.log.filesystem import FileSystem, read_file, write_atomically
from headrace.log.partition.leader_epochs import CorruptCheckpointError, LeaderEpochs

_log = logging.getLogger(__name__)
EPOCHS_FILE: Final = "leader-epoch-checkpoint"


class EpochFile(LeaderEpochs):
    """The epochs of one partition; each batch gets the `current` one."""

    __slots__ = ("_filesystem", "_folder", "_sync", "current")

    def __init__(self, folder: str, filesystem: FileSystem, *, sync: bool) -> None:
        super().__init__()
        self._folder: Final = folder
        self._filesystem: Final = filesystem
        self._sync: Final = sync
        self.current = 0

    @property
    def _path(self) -> str:
        return f"{self._folder}/{EPOCHS_FILE}"

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
