"""Which files in a table's folder may be deleted: those that no version within the retention has.

A file is deleted if the table does not have it, it was removed from the table longer ago than the retention,
or never was in it, and it was written longer ago than that, too. So the files of a batch that is being
written, which no commit has yet, stay, and so does everything that a reader of an older version needs.

The log forgets removed files after a week (Delta's `deletedFileRetentionDuration`), so the retention is at
most that. Pure: no file, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.storage.table_files import StoredFile

# Then Delta's log forgets which files were removed.
LONGEST_HOURS: Final = 168
# Files that begin so are Delta's, ours or somebody's unfinished ones.
_HIDDEN: Final = ("_", ".")


def expired_files(
    stored: Iterable[StoredFile],
    *,
    present: Collection[str],
    removed: Mapping[str, int],
    partition_columns: Collection[str],
    before_ms: int,
) -> Iterator[StoredFile]:
    """`present` are the files of the table, `removed` when others were removed. `before_ms` is when the
    retention begins.
    """
    for file in stored:
        if file.name in present or _is_hidden(file.name, partition_columns):
            continue
        if file.modified_ms < before_ms and removed.get(file.name, 0) < before_ms:
            yield file


def refuse_retention(hours: int, *, least: int, is_forced: bool) -> None:
    """Raise bad_request for a retention that is longer than the log remembers, or, unless it is forced,
    shorter than the setting lake_vacuum_hours, `least`.
    """
    if not 0 <= hours <= LONGEST_HOURS:
        raise HeadraceError(
            "bad_request",
            f"Files cannot be kept for {hours} hours: Delta's log forgets after {LONGEST_HOURS} which files "
            "were removed.",
            remedy=f"Give 0 to {LONGEST_HOURS} hours.",
        )
    if hours < least and not is_forced:
        raise HeadraceError(
            "bad_request",
            f"{hours} hours are less than lake_vacuum_hours, {least}: versions of the last {least} hours "
            "could no longer be read or restored, and queries that read one now would fail.",
            remedy="To delete their files nevertheless, give --force.",
        )


def _is_hidden(name: str, partition_columns: Collection[str]) -> bool:
    *folders, file = name.split("/")
    return file.startswith(_HIDDEN) or any(
        folder.startswith(_HIDDEN) and folder.partition("=")[0] not in partition_columns for folder in folders
    )
