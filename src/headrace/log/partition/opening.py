"""Creates and opens logs: finds the files in a partition's folder and removes leftovers.

Before `recovery` finds the end of the log, an interrupted swap of segments is finished (`swap_files`), and
files that are not part of the log are removed.

If records may be missing after the opening, the log continues behind the offsets that they may have had
(`hole`), in a new leader epoch (KIP-101).

Crash behaviour: opening removes only what does not count, so it can be interrupted and repeated. Byte format:
none of its own. Who may call: the data folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import remove_file
from headrace.log.partition.hole import skip_to
from headrace.log.partition.leader_epochs import EPOCHS_FILE
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.parts import LogParts
from headrace.log.partition.recovery import NOTHING_KNOWN, KnownState, Reserved, find_end
from headrace.log.partition.retention import START_FILE, read_start
from headrace.log.producers.snapshots import snapshot_path
from headrace.log.segments import swap_files
from headrace.log.segments.segment import DELETED

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.segments.segment_files import SegmentFiles

_DIGITS: Final = 20


def open_log(
    folder: str,
    *,
    config: LogConfig,
    files: SegmentFiles,
    durable: bool,
    tell_change: Callable[[PartitionLog], None],
    now_ms: int,
    known: KnownState = NOTHING_KNOWN,
    make_folder: Callable[[], None] | None = None,
) -> PartitionLog:
    """Open the log in a folder, or create it if the folder is empty. Raises StorageError.

    Pass `make_folder` if the folder does not exist. The first append creates it: this is the most expensive
    part of creating a log.
    """
    log = PartitionLog(
        folder,
        config=config,
        files=files,
        durable=durable,
        tell_change=tell_change,
        make_folder=make_folder,
    )
    parts = log.parts
    try:
        if make_folder is not None:
            _begin_empty(parts, known, now_ms)
        else:
            _open_existing(parts, known, now_ms)
        if log.shows_synced_only and parts.status.make_folder is None:
            # All records may have been acknowledged, but only synced ones can be read.
            log.flush()
    except OSError as error:
        raise StorageError(f"{folder} cannot be opened: {error}.") from error
    return log


def _open_existing(parts: LogParts, known: KnownState, now_ms: int) -> None:
    filesystem, folder = parts.segments.filesystem, parts.segments.path
    found = filesystem.files(folder)
    swap_files.recover(filesystem, folder, found)
    _remove_leftovers(parts, found)
    _find_files(parts, found, now_ms)
    nothing_lost = find_end(parts, known)
    if not known.clean:
        parts.flush.wrote(
            f"{folder}/{EPOCHS_FILE}",
            f"{folder}/{START_FILE}",
            parts.segments.active.path("txnindex"),
            snapshot_path(folder, parts.segments.end_offset),
        )
    if not (parts.epochs.resume() and nothing_lost):
        _continue_after_loss(parts, known.reserved, now_ms)


def _begin_empty(parts: LogParts, known: KnownState, now_ms: int) -> None:
    parts.segments.fill({}, 0, now_ms)
    parts.segments.end_at(0)
    parts.flush.names_changed()
    parts.epochs.assign(0, 0)
    if known.reserved is not None:
        # The power loss took even the folder.
        _continue_after_loss(parts, known.reserved, now_ms)


def _continue_after_loss(parts: LogParts, reserved: Reserved | None, now_ms: int) -> None:
    if reserved is not None:
        parts.epochs.know(reserved.leader_epoch, parts.segments.end_offset)
        skip_to(parts, reserved.bound, now_ms)
    parts.epochs.begin_next(parts.segments.start_offset, parts.segments.end_offset)
    parts.flush.wrote(f"{parts.segments.path}/{EPOCHS_FILE}")
    parts.status.changed()


def _remove_leftovers(parts: LogParts, found: dict[str, int]) -> None:
    """Remove files of deleted segments, unfinished files, and indexes without a log file."""
    segments = parts.segments
    for name in list(found):
        stem, _, kind = name.partition(".")
        orphan = kind in ("index", "timeindex", "txnindex") and f"{stem}.log" not in found
        if orphan or name.endswith((DELETED, ".tmp")):
            remove_file(segments.filesystem, f"{segments.path}/{name}")
            del found[name]


def _find_files(parts: LogParts, found: Mapping[str, int], now_ms: int) -> None:
    """Tell the parts which of their files exist."""
    segments = parts.segments
    sizes: dict[str, dict[int, int]] = {"log": {}, "snapshot": {}, "txnindex": {}}
    for name, size in found.items():
        stem, _, kind = name.partition(".")
        if len(stem) == _DIGITS and stem.isdigit() and kind in sizes:
            sizes[kind][int(stem)] = size
    start = read_start(segments.filesystem, segments.path) if START_FILE in found else 0
    segments.fill(sizes["log"], start, now_ms)
    if not sizes["log"]:
        parts.flush.names_changed()
    for segment in segments:
        if sizes["txnindex"].get(segment.base_offset):
            parts.aborted.found(segment)
    parts.snapshots.found(sizes["snapshot"])
    if EPOCHS_FILE in found:
        parts.epochs.read()
