"""The names that files of cleaned segments go through until they are part of the log.

Steps, as Apache Kafka's, each a rename:

1. `<base>.index.cleaned`, `.timeindex.cleaned`, `.txnindex.cleaned`, then `<base>.log.cleaned` become
   `….swap`. With the last of these the swap counts.
2. The files of the segments that are replaced get `.deleted` behind their names (`partition/segment_swap`).
3. The `.swap` files get their names as parts of the log, `.log` last.

Crash behaviour: a start removes `.cleaned` files, and `.swap` files without a `<base>.log.swap`: nothing has
happened then. Where there is one, it removes what is left of the segments whose offsets the new one covers,
and does step 3. A segment that lies behind the last record that was kept is then left as it was: its records
are superseded, and the round, which has not been noted as done, is done again.

Invariants: renames reach the disk in their order; contents were synced before step 1. Byte format: that of
segments. Who may call: `partition/segment_swap`; recovery, while a log is opened; compaction, for the names.
Never touches a file of the log that is not replaced.
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
# The log is what counts: it is renamed last.
_IN_ORDER: Final = (*KINDS[1:], KINDS[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegment:
    """A finished `.cleaned` segment, which takes the place of the segments with these base offsets."""

    bases: tuple[int, ...]
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: bool
    """Whether it has a transaction index."""


def begin_swap(filesystem: FileSystem, folder: str, base_offset: int) -> None:
    """Step 1. Raises OSError."""
    _rename_all(filesystem, f"{folder}/{base_offset:020d}", CLEANED, SWAP)


def finish_swap(filesystem: FileSystem, folder: str, base_offset: int) -> None:
    """Step 3. Raises OSError."""
    _rename_all(filesystem, f"{folder}/{base_offset:020d}", SWAP, "")


def _rename_all(filesystem: FileSystem, stem: str, source: str, target: str) -> None:
    for kind in _IN_ORDER:
        try:
            filesystem.rename(f"{stem}.{kind}{source}", f"{stem}.{kind}{target}")
        except FileNotFoundError:
            if kind == "log":
                raise


def discard(filesystem: FileSystem, folder: str, cleaned: CleanedSegment) -> None:
    """Remove the files of a cleaned segment that is not wanted, as far as that can be done."""
    for kind in KINDS:
        for suffix in (CLEANED, SWAP):
            path = f"{folder}/{cleaned.bases[0]:020d}.{kind}{suffix}"
            try:
                remove_file(filesystem, path)
            except OSError as error:
                _log.warning("%s cannot be removed: %s", path, error)


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
