"""The renames by which the files of a cleaned segment become part of the log.

Steps, as in Apache Kafka, each a rename:

1. `<base>.index.cleaned`, `.timeindex.cleaned`, `.txnindex.cleaned`, then `<base>.log.cleaned` become
   `….swap`. The last of these renames commits the swap.
2. The files of the replaced segments get the suffix `.deleted` (`partition/segment_swap`).
3. The `.swap` files get their final names, `.log` last.

Crash behaviour: a start removes `.cleaned` files, and `.swap` files without a `<base>.log.swap`: the swap had
not been committed. If there is one, the start removes what is left of the segments whose offsets the new one
covers, and does step 3. A segment after the last retained record then stays as it was: its records are
superseded, and the round, which was not recorded as done, is repeated.

Invariants: renames reach the disk in order; contents were synced before step 1. Byte format: that of
segments. Who may call: `partition/segment_swap`; `opening`; compaction, for the names. Never touches a file
of the log that is not being replaced.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headrace.log.filesystem import FileSystem, remove_file
from headrace.log.segments.batch_walk import walk
from headrace.log.segments.segment import KINDS
from headrace.log.segments.segment_files import SegmentFile

_log = logging.getLogger(__name__)
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_DIGITS: Final = 20
_LOG_SWAP: Final = f".log{SWAP}"
# The log file decides, so it is renamed last.
_IN_ORDER: Final = (*KINDS[1:], KINDS[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegment:
    """A finished `.cleaned` segment, which replaces the segments with these base offsets."""

    bases: tuple[int, ...]
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: bool
    """Whether it has a transaction index."""


def rename_all(filesystem: FileSystem, folder: str, base_offset: int, source: str, target: str) -> None:
    """Give the files of a segment another suffix: step 1, or with `target` empty, step 3. Raises OSError."""
    stem = f"{folder}/{base_offset:020d}"
    for kind in _IN_ORDER:
        try:
            filesystem.rename(f"{stem}.{kind}{source}", f"{stem}.{kind}{target}")
        except FileNotFoundError:
            if kind == "log":
                raise


def discard(filesystem: FileSystem, folder: str, cleaned: CleanedSegment) -> None:
    """Remove the files of an unwanted cleaned segment. Failures are only logged."""
    for kind in KINDS:
        for suffix in (CLEANED, SWAP):
            path = f"{folder}/{cleaned.bases[0]:020d}.{kind}{suffix}"
            try:
                remove_file(filesystem, path)
            except OSError as error:
                _log.warning("%s cannot be removed: %s", path, error)


def recover(filesystem: FileSystem, folder: str, found: dict[str, int]) -> None:
    """Finish or undo swaps that a crash interrupted. `found`: the files of the folder. Raises OSError."""
    swapped = sorted(name for name in found if name.endswith(_LOG_SWAP))
    stems = {name[:_DIGITS] for name in swapped}
    for name in list(found):
        if name.endswith(CLEANED) or (name.endswith(SWAP) and name[:_DIGITS] not in stems):
            _remove(filesystem, folder, found, name)
    for name in swapped:
        _log.warning("finishing the interrupted swap of %s/%s", folder, name)
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
    """Whether a file belongs to a replaced segment other than the first."""
    stem, _, kind = name.partition(".")
    return kind in KINDS and len(stem) == _DIGITS and stem.isdigit() and base_offset < int(stem) < next_offset


def _next_offset(filesystem: FileSystem, path: str, size: int, base_offset: int) -> int:
    """The offset after the last batch of a segment."""
    following = base_offset
    file = SegmentFile(filesystem, path, write=False)
    for _position, fields in walk(file, 0, size, verify=False):
        following = fields[0] + fields[6] + 1
    return following


def _remove(filesystem: FileSystem, folder: str, found: dict[str, int], name: str) -> None:
    remove_file(filesystem, f"{folder}/{name}")
    del found[name]
