"""What tables and their tails have of records that are asked for.

For each table one look is under way at a time, in a thread of a pool: it takes the newest version and the
tail behind it, as a question would, and examines everything that is asked for at once. So a table that
hangs holds up nobody who waits for another one. `on_change` is called when a look has ended.

Invariants: a record is visible only where its row was found, in a chunk of the tail or in a file of the
version; and what is visible stays so, except for deletions and restores of others. Safe for several threads.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.core.errors import HeadraceError
from headrace.lake.location import Location
from headrace.query.planning import Tails
from headrace.query.receipts.origins import Lane
from headrace.query.receipts.table_rows import Identity, TableRows, offsets_in
from headrace.query.receipts.traces import Seen
from headrace.query.receipts.ways import place_of
from headrace.query.sources import TailView
from headrace.query.table_snapshot import TableSnapshot, location_of
from headrace.query.tail.versions import TableChangedError

# The offset of a record that is not in the topic any more: only its row can be found.
NOWHERE: Final = -1

_log = logging.getLogger(__name__)

# How long a look waits for the tail to read on.
_TAIL_SECONDS: Final = 0.5
_MOST_LOOKS: Final = 8
_MOST_KNOWN: Final = 20_000
_IDLE_SECONDS: Final = 120.0
# Between two looks that find nothing new.
_PAUSE_SECONDS: Final = 0.02
_LAKE_PAUSE_SECONDS: Final = 0.2


class Wanted(NamedTuple):
    """A record of a table's topic, and where its row says that it comes from."""

    topic_id: str
    partition: int
    offset: int
    lane: Lane
    source_offset: int

    @property
    def identity(self) -> Identity:
        return self.lane, self.source_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of a record. `is_decided`: the lake has read it. `is_read`: the tail has. If there is no
    row of it then, its dead letter lies at or above `letters_from`.
    """

    sql: Seen
    lake: Seen
    name: str
    version: int | None = None
    reason: str = ""
    behind: int = 0
    is_decided: bool = False
    is_read: bool = False
    letters_from: Mapping[int, int] | None = None
    looked: float = 0.0


class Tables:
    """`snapshots` gives the tables that SQL has, now."""

    def __init__(
        self,
        snapshots: Callable[[], Mapping[str, TableSnapshot]],
        tails: Tails | None,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._snapshots = snapshots
        self._tails = tails
        self._on_change = on_change
        self._lock = threading.Lock()
        self._tables: dict[str, _Table] = {}
        self._pool = ThreadPoolExecutor(_MOST_LOOKS, thread_name_prefix="looks at tables")
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def names(self) -> dict[str, str]:
        """The names that SQL has for the tables at these places."""
        return {place_of(location_of(each)): name for name, each in self._snapshots().items()}

    def look(self, location: Location, wanted: Wanted) -> Row | None:
        """What was found last; None before the first look. Does not wait."""
        place = place_of(location)
        with self._lock:
            table = self._tables.get(place)
            if table is None:
                table = self._tables[place] = _Table(location)
            table.asked = table.wanted[wanted] = time.monotonic()
            return table.known.get(wanted)

    def look_on(self, now: float) -> float:
        """Begin the looks that are due. Returns in how many seconds another one is. `now` is monotonic."""
        next_due = now + _IDLE_SECONDS
        with self._lock:
            for place, table in list(self._tables.items()):
                due = table.due
                if table.asked < now - _IDLE_SECONDS and not table.is_busy:
                    del self._tables[place]
                elif due is not None and due > now:
                    next_due = min(next_due, due)
                elif due is not None and not self._is_closed:
                    table.is_busy = True
                    self._pool.submit(self._look_at, table)
        return next_due - now

    def _look_at(self, table: _Table) -> None:
        try:
            with self._lock:
                wanted = {each: table.known.get(each) for each in table.wanted}
            rows = self._rows(table, wanted)
            with self._lock:
                table.take(rows, time.monotonic())
        except Exception as error:
            # Whoever waits would wait for ever.
            _log.error("Table %s cannot be looked at.", table.location, exc_info=error)
            reason = f"the table cannot be looked at: {type(error).__name__}"
            with self._lock:
                now = time.monotonic()
                table.take({each: _pending("", reason, looked=now) for each in table.wanted}, now)
        finally:
            table.is_busy = False
            self._on_change()

    def _rows(self, table: _Table, wanted: Mapping[Wanted, Row | None]) -> dict[Wanted, Row]:
        began = time.monotonic()
        snapshot = next(
            (
                each
                for each in self._snapshots().values()
                if place_of(location_of(each)) == place_of(table.location)
            ),
            None,
        )
        if snapshot is None:
            return {each: _pending("", "SQL does not have the table", looked=began) for each in wanted}
        if snapshot.unreadable:
            return {
                each: _pending(
                    snapshot.name, f"the table cannot be read: {snapshot.unreadable}", looked=began
                )
                for each in wanted
            }
        view = TailView(chunks=(), starts={}, reached={})
        if self._tails is not None:
            view = self._tails.view(snapshot, wait_seconds=_TAIL_SECONDS)
        try:
            return table.rows(snapshot, view, wanted, began)
        except (HeadraceError, OSError, TableChangedError) as error:
            return {
                each: _pending(snapshot.name, f"the table cannot be read: {error}", looked=began)
                for each in wanted
            }


class _Table:
    """One table. The lock of `Tables` guards what changes; `rows` is called by one thread at a time."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.asked = time.monotonic()
        self.wanted: dict[Wanted, float] = {}
        self.known: OrderedDict[Wanted, Row] = OrderedDict()
        self.is_busy = False
        self._looked = 0.0
        self._rows: tuple[str, TableRows] | None = None
        self._repairs = 0

    @property
    def due(self) -> float | None:
        """When the next look is; None if nobody wants one, or one is under way."""
        if self.is_busy or not self.wanted:
            return None
        rows = [self.known.get(each) for each in self.wanted]
        waits_for_sql = any(row is None or row.sql is not Seen.VISIBLE for row in rows)
        return self._looked + (_PAUSE_SECONDS if waits_for_sql else _LAKE_PAUSE_SECONDS)

    def take(self, rows: Mapping[Wanted, Row], now: float) -> None:
        self._looked = now
        for wanted, row in rows.items():
            self.known[wanted] = row
            self.known.move_to_end(wanted)
            if self.wanted.get(wanted, 0.0) <= row.looked:
                # Nobody has asked since the look began.
                self.wanted.pop(wanted, None)
        while len(self.known) > _MOST_KNOWN:
            self.known.popitem(last=False)

    def rows(
        self, snapshot: TableSnapshot, view: TailView, wanted: Mapping[Wanted, Row | None], began: float
    ) -> dict[Wanted, Row]:
        """`wanted` has what was known of each before."""
        known = wanted
        if self._rows is None or self._rows[0] != snapshot.table_id:
            self._rows = snapshot.table_id, TableRows(self.location, snapshot.table_id)
            self._repairs = 0
            known = {}
        rows, version = self._rows[1], snapshot.version
        if (repairs := rows.repairs()) != self._repairs:
            # Other commits have the numbers of the versions in which rows were found.
            self._repairs = repairs
            known = {}
        found: dict[Wanted, Row] = {}
        for each, row in known.items():
            if row is not None and row.version is not None and rows.keeps(row.version, version):
                found[each] = dataclasses.replace(row, looked=began)
        asked = [each for each in wanted if each not in found]
        positions = rows.positions(version)
        decided = {
            each
            for each in asked
            if each.offset == NOWHERE or each.offset < positions.of(each.topic_id).get(each.partition, 0)
        }
        in_tail = _in_tail(view, [each for each in asked if each not in decided])
        read = {each for each in asked if each.offset < view.reached.get(each.partition, 0)}
        # A record that was read and is not in the tail may be a row that the table had before.
        maybe_in_files = {each for each in asked if each in decided or (each in read and each not in in_tail)}
        there = rows.having(version, {each.identity for each in maybe_in_files})
        for each in asked:
            if each in maybe_in_files and each.identity in there:
                found[each] = Row(
                    sql=Seen.VISIBLE, lake=Seen.VISIBLE, name=snapshot.name, version=version, looked=began
                )
                continue
            is_decided = each in decided
            behind = max(each.offset + 1 - view.reached.get(each.partition, 0), 0)
            found[each] = Row(
                sql=Seen.VISIBLE if each in in_tail else Seen.PENDING,
                lake=Seen.PENDING,
                name=snapshot.name,
                reason=view.reason if each not in in_tail else "",
                behind=0 if each in in_tail or is_decided else behind,
                is_decided=is_decided,
                is_read=each in read,
                letters_from=rows.letters_from(
                    version, topic_id=each.topic_id, partition=each.partition, offset=each.offset
                )
                if (is_decided or each in read) and each not in in_tail and each.offset != NOWHERE
                else None,
                looked=began,
            )
        return found


def _in_tail(view: TailView, wanted: Iterable[Wanted]) -> set[Wanted]:
    """Those of which the tail has a row."""
    found: set[Wanted] = set()
    by_partition: dict[int, list[Wanted]] = {}
    for each in wanted:
        if view.starts.get(each.partition, 0) <= each.offset < view.reached.get(each.partition, 0):
            by_partition.setdefault(each.partition, []).append(each)
    for partition, some in by_partition.items():
        there = offsets_in(view.chunks, partition, {each.offset for each in some})
        found |= {each for each in some if each.offset in there}
    return found


def _pending(name: str, reason: str, *, looked: float = 0.0) -> Row:
    return Row(sql=Seen.PENDING, lake=Seen.PENDING, name=name, reason=reason, looked=looked)
