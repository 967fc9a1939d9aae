"""Putting cleaned segments in the place of those that they were made of, so that a crash cannot break a log.

Steps, as Apache Kafka's, each a rename:

1. `<base>.index.cleaned`, `.timeindex.cleaned`, `.txnindex.cleaned`, then `<base>.log.cleaned` become
   `….swap`. With the last of these the swap counts.
2. The files of the segments that are replaced get `.deleted` behind their names; they are removed after
   `file.delete.delay.ms`, in which readers finish.
3. The `.swap` files get their names as parts of the log, `.log` last.

Crash behaviour: a start removes `.cleaned` files, and `.swap` files without a `<base>.log.swap`: nothing has
happened then. Where there is one, it removes what is left of the segments whose offsets the new one covers,
and does step 3. A segment that lies behind the last record that was kept is then left as it was: its records
are superseded, and the round, which has not been noted as done, is done again.

Invariants: renames reach the disk in their order; contents were synced before step 1. A segment in memory is
good at every step: while step 3 has not succeeded, it goes by the name `.swap`. A `FileRange` of a segment
that was replaced stays readable. Byte format: that of segments. Who may call: the cleaner on the log's
thread; `recovery` while a log is opened. Never touches the last segment.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from headrace.log.compaction.segment_writer import CLEANED, KINDS
from headrace.log.errors import StorageError
from headrace.log.filesystem import FileSystem, remove_file
from headrace.log.segments.batch_walk import walk
from headrace.log.segments.segment import Segment
from headrace.log.segments.segment_files import SegmentFile

if TYPE_CHECKING:
    from headrace.log.compaction.cleaning_task import CleanedSegment
    from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)
SWAP: Final = ".swap"
_DIGITS: Final = 20
_LOG_SWAP: Final = f".log{SWAP}"
# The log is what counts: it is renamed last.
_IN_ORDER: Final = (*KINDS[1:], KINDS[0])


class ReplacedMeanwhileError(StorageError):
    """Segments that were to be replaced are not part of the log any more: the round is of no use."""


def put_in_place(log: PartitionLog, cleaned: CleanedSegment, *, now_ms: int) -> None:
    """Replace segments of a log by a cleaned one. Raises ReplacedMeanwhileError, StorageError.

    If it raises, the log is as it was.
    """
    base_offset = cleaned.bases[0]
    first = bisect_left(log.bases, base_offset)
    last = first + len(cleaned.bases)
    if log.closed or tuple(log.bases[first:last]) != cleaned.bases or last >= len(log.bases):
        discard(log, cleaned)
        raise ReplacedMeanwhileError(f"segments of {log.name} have changed while they were cleaned.")
    segment = Segment(
        log.path,
        base_offset,
        log.files,
        size=cleaned.size,
        interval=log.config.index_interval_bytes,
        created_ms=now_ms,
    )
    segment.max_timestamp, segment.max_timestamp_offset = cleaned.max_timestamp, cleaned.max_timestamp_offset
    segment.timestamp_known = True
    if cleaned.aborted:
        segment.transactions = None
    try:
        for kind in _IN_ORDER:
            _rename_if_there(log.filesystem, segment.path(kind) + CLEANED, segment.path(kind) + SWAP)
    except OSError as error:
        discard(log, cleaned)
        raise StorageError(f"segments of {log.name} cannot be replaced: {error}.") from error
    segment.suffix = SWAP
    replaced = log.segments[first:last]
    log.segments[first:last] = [segment]
    log.bases[first:last] = [base_offset]
    log.size_bytes += cleaned.size - sum(each.size for each in replaced)
    log.new_names = True
    if _mark_deleted(log, replaced, now_ms):
        finish(log, segment)
    log.joined |= len(cleaned.bases) > 1
    log.mark_dirty()


def finish(log: PartitionLog, segment: Segment) -> bool:
    """Give a segment that is in place its name; False if that did not work, which does no harm."""
    plain = f"{segment.folder}/{segment.base_offset:020d}."
    try:
        for kind in _IN_ORDER:
            _rename_if_there(log.filesystem, f"{plain}{kind}{SWAP}", f"{plain}{kind}")
    except OSError as error:
        _log.warning("%s cannot be renamed: %s", segment.log_path, error)
        return False
    segment.suffix = ""
    return True


def discard(log: PartitionLog, cleaned: CleanedSegment) -> None:
    """Remove the files of a cleaned segment that is not wanted, as far as that can be done."""
    for kind in KINDS:
        for suffix in (CLEANED, SWAP):
            try:
                remove_file(log.filesystem, f"{log.path}/{cleaned.bases[0]:020d}.{kind}{suffix}")
            except OSError as error:
                _log.warning("a file of %s cannot be removed: %s", log.name, error)


def _mark_deleted(log: PartitionLog, replaced: list[Segment], now_ms: int) -> bool:
    done = True
    for segment in replaced:
        try:
            paths = segment.mark_deleted()
            log.deleted.append((now_ms + log.config.file_delete_delay_ms, paths))
        except OSError as error:
            # Its name would make it a part of the log again: the new segment keeps its own until a start.
            _log.warning("%s cannot be renamed: %s", segment.log_path, error)
            segment.forget()
            done = False
    return done


def _rename_if_there(filesystem: FileSystem, source: str, target: str) -> None:
    try:
        filesystem.rename(source, target)
    except FileNotFoundError:
        if source.endswith((f".log{CLEANED}", _LOG_SWAP)):
            raise


def recover(filesystem: FileSystem, folder: str, found: dict[str, int]) -> None:
    """Finish or undo what a crash broke off. `found` are the files of the folder. Raises OSError."""
    swapped = sorted(name for name in found if name.endswith(_LOG_SWAP))
    stems = {name[:_DIGITS] for name in swapped}
    for name in list(found):
        if name.endswith(CLEANED) or (name.endswith(SWAP) and name[:_DIGITS] not in stems):
            _remove(filesystem, folder, found, name)
    for name in swapped:
        _log.warning("%s/%s: a crash came between, putting it in place", folder, name)
        stem = name[:_DIGITS]
        behind = _next_offset(filesystem, f"{folder}/{name}", found[name], int(stem))
        for other in [other for other in found if _is_between(other, int(stem), behind)]:
            _remove(filesystem, folder, found, other)
        for kind in _IN_ORDER:
            target = f"{stem}.{kind}"
            if f"{target}{SWAP}" in found:
                filesystem.rename(f"{folder}/{target}{SWAP}", f"{folder}/{target}")
                found[target] = found.pop(f"{target}{SWAP}")


def _is_between(name: str, base_offset: int, next_offset: int) -> bool:
    """Whether a file belongs to a segment that is behind the first replaced one and was replaced too."""
    stem, _, kind = name.partition(".")
    return kind in KINDS and len(stem) == _DIGITS and stem.isdigit() and base_offset < int(stem) < next_offset


def _next_offset(filesystem: FileSystem, path: str, size: int, base_offset: int) -> int:
    """The offset behind the last batch of a segment."""
    following = base_offset
    file = SegmentFile(filesystem, path, write=False)
    for _position, fields in walk(file, 0, size, verify=False):
        following = fields[0] + fields[6] + 1
    return following


def _remove(filesystem: FileSystem, folder: str, found: dict[str, int], name: str) -> None:
    remove_file(filesystem, f"{folder}/{name}")
    del found[name]
