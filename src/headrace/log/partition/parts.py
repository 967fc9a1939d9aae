"""The parts of a partition log: each owns its own piece of state, and only its methods change it.

| part | owns |
|---|---|
| `segments` | the segments in their order; where the log starts and ends |
| `producers` | what is known of producers and their open transactions |
| `snapshots` | the files with the producers' state |
| `aborted` | the indexes of aborted transactions |
| `epochs` | the leader epoch, and the file of those before it |
| `flush` | how far the log is on the disk; the high-water mark |
| `deleted` | files that wait for their removal |
| `status` | whether the log has its folder, is open, and has changed since its last checkpoint |

What takes several of them (rolling, retention, truncation, reading, recovery, replacing segments) is a module
of functions without state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.log.partition.deleted_files import DeletedFiles
from headrace.log.partition.epoch_file import EpochFile
from headrace.log.partition.flushing import FlushState
from headrace.log.partition.status import LogStatus
from headrace.log.producers.aborted_transactions import AbortedTransactions
from headrace.log.producers.producer_state import ProducerState
from headrace.log.producers.snapshots import ProducerSnapshots
from headrace.log.segments.segment_list import SegmentList

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.segments.segment_files import SegmentFiles


class LogParts:
    """See above."""

    __slots__ = ("aborted", "deleted", "epochs", "flush", "producers", "segments", "snapshots", "status")

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
        """The parts of a log that nothing is known of yet. For the last two see `LogStatus`."""
        self.segments: Final = SegmentList(folder, files, config)
        self.producers: Final = ProducerState(self.segments.name)
        self.snapshots: Final = ProducerSnapshots(self.segments, self.producers)
        self.aborted: Final = AbortedTransactions(self.segments, self.snapshots)
        self.epochs: Final = EpochFile(folder, files.filesystem, sync=durable)
        self.flush: Final = FlushState(self.segments, durable=durable)
        self.deleted: Final = DeletedFiles(self.segments)
        self.status: Final = LogStatus(make_folder, tell_change)
