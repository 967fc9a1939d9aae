"""A table of the lake as it was at a version or at a time.

Owns a few snapshots of old versions. Invariants: a snapshot of an old version lists exactly the files that
the table had then; a version that is not there any more, or whose files were vacuumed, is an error that names
the versions that can be read, never an answer without some of its rows. Thread-safe. Never reads a data file
and never writes.

The time of a version is the one that its commit states. Of a time, the answer is the newest version whose
commit is not later; a time that has not come yet is refused, since the answer could still change.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from deltalake.exceptions import DeltaError

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog, SeenVersion
from headrace.query.table_snapshot import TableSnapshot, location_of

_MOST_KEPT: Final = 32
_MOST_TIMES: Final = 20_000
# Clocks of two machines differ a little.
_FUTURE_MS: Final = 2_000

# The snapshot of a table at a version. Raises DeltaError.
SnapshotAt = Callable[[TableSnapshot, int], TableSnapshot]
# With the version's commit: after a repair, another one has its number.
_Key = tuple[str, str, SeenVersion]


class TableHistories:
    """The versions of all tables. `read` reads one."""

    def __init__(self, read: SnapshotAt) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, TableSnapshot] = OrderedDict()
        self._times: OrderedDict[_Key, int | None] = OrderedDict()

    def at_version(self, newest: TableSnapshot, version: int) -> TableSnapshot:
        """`newest` is the table as it is now. Raises version_not_found, query_failed."""
        if newest.unreadable or version == newest.version:
            return newest
        if version > newest.version:
            raise HeadraceError(
                "version_not_found",
                f"Table {newest.name} has no version {version} yet: the newest is {newest.version}.",
                remedy=self._available(newest),
            )
        seen = DeltaLog(location_of(newest)).seen(version)
        key = (str(newest.folder), newest.table_id, seen)
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = self._read_or_refuse(newest, version)
            with self._lock:
                self._kept[key] = found
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        # Each time: somebody may vacuum the table at any time.
        if gone := _missing(found, newest):
            raise self._vacuumed(newest, version, gone)
        return found

    def at_time(self, newest: TableSnapshot, at_ms: int) -> TableSnapshot:
        """As `at_version`; the newest version that was committed then or before."""
        if newest.unreadable:
            return newest
        if at_ms > time.time() * 1000 + _FUTURE_MS:
            raise HeadraceError(
                "version_not_found",
                f"{_printed(at_ms)} has not come yet: table {newest.name} may still get versions before it.",
                remedy=self._available(newest),
            )
        return self.at_version(newest, self._version_at(newest, at_ms))

    def vacuumed(self, newest: TableSnapshot, version: int) -> HeadraceError:
        """The error for a version of which a file disappeared while it was read."""
        return self._vacuumed(newest, version, 1)

    def _version_at(self, newest: TableSnapshot, at_ms: int) -> int:
        log = DeltaLog(location_of(newest))
        readable = _in_log(log, newest.version)
        # Commits are in the order of their times, but for clocks that were set back.
        low, high = 0, len(readable)
        while low < high:
            middle = (low + high) // 2
            made = self._time(log, newest, readable[middle])
            if made is None or made <= at_ms:
                low = middle + 1
            else:
                high = middle
        if low and self._time(log, newest, readable[low - 1]) is not None:
            return readable[low - 1]
        first = next((each for each in readable if self._time(log, newest, each) is not None), None)
        reason = "its log says no times"
        if first is not None:
            made = self._time(log, newest, first) or 0
            reason = f"the oldest with a known time, {first}, is of {_printed(made)}"
        raise HeadraceError(
            "version_not_found",
            f"Table {newest.name} has no version of {_printed(at_ms)} any more: {reason}.",
            remedy=self._available(newest),
        )

    def _time(self, log: DeltaLog, newest: TableSnapshot, version: int) -> int | None:
        """When the version was committed, in milliseconds since 1970; None if its commit does not say it."""
        key = (str(newest.folder), newest.table_id, log.seen(version))
        with self._lock:
            if key in self._times:
                return self._times[key]
        found = _committed_ms(log, version)
        with self._lock:
            self._times[key] = found
            if len(self._times) > _MOST_TIMES:
                self._times.popitem(last=False)
        return found

    def _read_or_refuse(self, newest: TableSnapshot, version: int) -> TableSnapshot:
        try:
            found = self._read(newest, version)
        except DeltaError as error:
            raise HeadraceError(
                "version_not_found",
                f"Version {version} of table {newest.name} is not in its log any more.",
                remedy=self._available(newest),
            ) from error
        if found.version != version:
            raise HeadraceError(
                "version_not_found",
                f"Table {newest.name} was replaced while version {version} was read.",
                remedy="Ask again.",
            )
        return found

    def _vacuumed(self, newest: TableSnapshot, version: int, gone: int) -> HeadraceError:
        return HeadraceError(
            "version_not_found",
            f"Version {version} of table {newest.name} cannot be read any more: {gone} of its files "
            f"{'was' if gone == 1 else 'were'} deleted (vacuumed).",
            remedy=self._available(newest),
        )

    def _available(self, newest: TableSnapshot) -> str:
        try:
            oldest = self._oldest(newest)
        except (DeltaError, OSError, ValueError):
            return f"The newest version is {newest.version}."
        return f"The oldest version that can be read is {oldest}, the newest is {newest.version}."

    def _oldest(self, newest: TableSnapshot) -> int:
        """The oldest version from which on all can be read: vacuuming takes the files of the oldest first."""
        readable = _in_log(DeltaLog(location_of(newest)), newest.version)
        low, high = 0, len(readable) - 1
        while low < high:
            middle = (low + high) // 2
            try:
                is_whole = not _missing(self._read(newest, readable[middle]), newest)
            except DeltaError:
                is_whole = False
            if is_whole:
                high = middle
            else:
                low = middle + 1
        return readable[low] if readable else newest.version


def _in_log(log: DeltaLog, newest: int) -> list[int]:
    """The versions whose state the log still tells, up to the newest one."""
    versions = [version for version in log.versions() if version <= newest]
    if versions and versions[0] == 0:
        return versions
    checkpoints = [version for version in log.checkpoints() if version <= newest]
    first = min(checkpoints, default=newest)
    return sorted({first, *(version for version in versions if version > first)})


def _committed_ms(log: DeltaLog, version: int) -> int | None:
    try:
        actions = log.actions(version)
    except (FileNotFoundError, ValueError):
        return None
    info: dict[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
    found = info.get("inCommitTimestamp", info.get("timestamp"))
    return int(found) if isinstance(found, int | float) else None


def _missing(old: TableSnapshot, newest: TableSnapshot) -> int:
    """How many files of the old version are gone. Only files that the newest one does not have can be.

    In a bucket, reading them tells: asking for each takes too long.
    """
    if not location_of(old).is_local:
        return 0
    only_old: Collection[str] = set(old.files) - set(newest.files)
    return sum(not Path(file).exists() for file in only_old)


def _printed(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
