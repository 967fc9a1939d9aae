"""All tables in buckets that connectors write, by the names that questions use.

Names: a table in a bucket has the name of its last folder, as one in the lake's folder. If the lake's folder
has a table of that name too, or another bucket does, it is called by its whole address instead,
`"s3://bucket/topics/events"`; the plain name is that of the table in the lake's folder, or of nobody.

Invariants: naming the tables asks no bucket; each table is looked at by itself (`followed.py`). Safe for
several threads. Never reads a data file.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, Protocol

from headrace.core.errors import HeadraceError
from headrace.lake.location import Location
from headrace.query.buckets.followed import FRESH_SECONDS, FollowedBucketTable
from headrace.query.buckets.log_snapshot import unavailable
from headrace.query.table_snapshot import TableSnapshot

# What a list of tables may be behind, if nobody asks for their rows.
_LISTED_SECONDS: Final = 10.0
# How long it is known which tables there are, and how long if the log did not answer.
_KNOWN_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = 5.0
_FIRST_SECONDS: Final = 2.0

_logger = logging.getLogger(__name__)


class TablePlaces(Protocol):
    """Where connectors write. May block; raises log_unavailable."""

    def in_buckets(self) -> Collection[Location]: ...


class BucketTables:
    """`places` says which tables there are."""

    def __init__(self, places: TablePlaces) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._known: tuple[Location, ...] = ()
        self._asked = False
        self._asks_again = 0.0
        self._answered = threading.Event()
        self._is_closed = False
        self._followed: dict[Location, FollowedBucketTable] = {}

    def current(self, local: Collection[str]) -> dict[str, TableSnapshot]:
        """All tables by name, as they were seen last. `local` are the names of tables that are not here."""
        found: dict[str, TableSnapshot] = {}
        for table in self._tables(local).values():
            snapshot = table.snapshot
            if snapshot is not None:
                found[table.name] = snapshot
        return found

    def look(self, local: Collection[str], names: Collection[str], *, catalogue: bool) -> list[Future[None]]:
        """Look whether these tables (case-folded names), or all, have changed; what is done then."""
        looks: list[Future[None]] = []
        for name, table in self._tables(local).items():
            if name in names:
                looking = table.look(fresh_seconds=FRESH_SECONDS)
            elif catalogue:
                looking = table.look(fresh_seconds=_LISTED_SECONDS)
                if table.has_failed:
                    # A list of tables does not wait for a server that hangs.
                    continue
            else:
                continue
            if looking is not None:
                looks.append(looking)
        return looks

    def check(self, local: Collection[str], names: Collection[str]) -> None:
        """Raises bucket_unavailable if one of these tables (case-folded names) cannot be read now."""
        for name, table in self._tables(local).items():
            if name in names and (failure := table.failure):
                raise unavailable(table.name, failure)

    def doubt(self) -> None:
        """Look at all tables again before they are used: a file was gone."""
        with self._lock:
            followed = list(self._followed.values())
        for table in followed:
            table.doubt()

    def close(self) -> None:
        self._is_closed = True

    def _tables(self, local: Collection[str]) -> dict[str, FollowedBucketTable]:
        """By case-folded names."""
        places = self._places_now()
        with self._lock:
            for gone in self._followed.keys() - set(places):
                del self._followed[gone]
            named = _names(places, local)
            for place, name in named.items():
                known = self._followed.get(place)
                if known is None or known.name != name:
                    self._followed[place] = FollowedBucketTable(name, place)
            return {name.casefold(): self._followed[place] for place, name in named.items()}

    def _places_now(self) -> tuple[Location, ...]:
        """As they were a moment ago: a question on other tables must not wait for the log of connectors."""
        with self._lock:
            asks = not self._asked and not self._is_closed and time.monotonic() >= self._asks_again
            self._asked = self._asked or asks
        if asks:
            threading.Thread(target=self._ask, name="tables in buckets", daemon=True).start()
        # The first question after the start of the process.
        self._answered.wait(_FIRST_SECONDS)
        self._answered.set()
        return self._known

    def _ask(self) -> None:
        pause = _KNOWN_SECONDS
        try:
            self._known = tuple(self._places.in_buckets())
        except HeadraceError as error:
            # The log does not answer: the tables are where they were.
            pause = _AWAY_SECONDS
            _logger.info("Which tables are in buckets is not known: %s", error.message)
        except Exception:
            if not self._is_closed:
                _logger.exception("Which tables are in buckets is not known")
        finally:
            with self._lock:
                self._asked = False
                self._asks_again = time.monotonic() + pause
            self._answered.set()


def _names(places: Iterable[Location], local: Collection[str]) -> Mapping[Location, str]:
    taken = {name.casefold() for name in local}
    found = sorted(set(places), key=str)
    number: dict[str, int] = {}
    for place in found:
        number[place.name.casefold()] = number.get(place.name.casefold(), 0) + 1
    named: dict[Location, str] = {}
    by_name: dict[str, Location] = {}
    for place in found:
        folded = place.name.casefold()
        name = str(place) if folded in taken or number[folded] > 1 else place.name
        # Two storages may have the same address at different servers: the first one has it.
        if by_name.setdefault(name.casefold(), place) == place:
            named[place] = name
    return named
