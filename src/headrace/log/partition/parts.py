"""The parts of a partition log: each owns a piece of the state, which only its methods change.

| part | owns |
|---|---|
| `segments` | the segments in order; where the log starts and ends |
| `producers` | the known producers and their open transactions |
| `snapshots` | the snapshot files of the producers |
| `aborted` | the indexes of aborted transactions |
| `epochs` | the leader epoch, and the file of earlier ones |
| `reservation` | which offsets are reserved on the disk |
| `flush` | how far the log is on the disk; the high-water mark |
| `deleted` | files that are to be removed |
| `status` | whether the log has its folder, is open, and has changed since its last checkpoint |

Operations on several parts (rolling, retention, reading, recovery, swapping segments) are modules of
functions without state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.log.partition.deleted_files import DeletedFiles
from headrace.log.partition.flushing import FlushState
from headrace.log.partition.leader_epochs import EpochFile
from headrace.log.partition.reservation import Reservation
from headrace.log.producers.aborted_transactions import AbortedTransactions
from headrace.log.producers.producer_state import ProducerState
from headrace.log.producers.snapshots import ProducerSnapshots
from headrace.log.segments.segment_list import SegmentList

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.segments.segment_files import SegmentFiles


class LogStatus:
    """Calls `tell` for the first change after each checkpoint, and for no other."""

    __slots__ = ("_tell", "closed", "dirty", "make_folder")

    def __init__(self, make_folder: Callable[[], None] | None, tell: Callable[[], None]) -> None:
        # Creates the folder; None if that exists.
        self.make_folder = make_folder
        self._tell: Final = tell
        self.closed = False
        self.dirty = False

    def changed(self) -> None:
        """Ask the next checkpoint to include this log.

        A closed log never changes, whatever is still under way for it: another may have its name by then.
        """
        if not (self.dirty or self.closed):
            self.dirty = True
            self._tell()

    def checkpointed(self) -> None:
        """A checkpoint includes all changes so far."""
        self.dirty = False

    def close(self) -> None:
        """Allow no more appends or flushes."""
        self.closed = True

    def folder_made(self) -> None:
        """The folder exists, with the files that belong to every log."""
        self.make_folder = None


class LogParts:
    """The parts listed above."""

    __slots__ = (
        "aborted",
        "deleted",
        "epochs",
        "flush",
        "producers",
        "reservation",
        "segments",
        "snapshots",
        "status",
    )

    def __init__(
        self,
        folder: str,
        files: SegmentFiles,
        config: LogConfig,
        *,
        durable: bool,
        make_folder: Callable[[], None] | None,
        tell_change: Callable[[], None],
    ) -> None:
        """Create the parts of a log before it is opened. For the last two arguments see `LogStatus`."""
        self.segments: Final = SegmentList(folder, files, config)
        self.producers: Final = ProducerState(self.segments.name)
        self.snapshots: Final = ProducerSnapshots(self.segments, self.producers)
        self.aborted: Final = AbortedTransactions(self.segments, self.snapshots)
        self.epochs: Final = EpochFile(folder, files.filesystem, sync=durable)
        self.reservation: Final = Reservation()
        self.flush: Final = FlushState(self.segments, self.reservation, durable=durable)
        self.deleted: Final = DeletedFiles(self.segments)
        self.status: Final = LogStatus(make_folder, tell_change)
