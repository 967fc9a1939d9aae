"""What is known of an event's way at a moment. Values, and how they are put together.

`sql` and `lake` say of the event as a whole whether it can be seen there: it is pending as long as it may
still come into one of the tables that its topic leads to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.query.receipts.receipt import Receipt


class Seen(StrEnum):
    """Whether an event can be seen."""

    VISIBLE = "visible"
    PENDING = "pending"
    DEAD_LETTER = "dead_letter"
    # Neither a row nor a dead letter: a WHERE, or the like.
    LEFT_OUT = "left_out"
    UNKNOWN = "unknown"
    # Its topic leads to no table.
    NO_TABLE = "no_table"


class Passage(StrEnum):
    """What a statement has made of a record."""

    WRITTEN = "written"
    DEAD_LETTER = "dead_letter"
    LEFT_OUT = "left_out"
    # Its rows come from many records: no row names this one.
    TAKEN = "taken"
    # It began to read behind it.
    NOT_READ = "not_read"
    PENDING = "pending"
    UNKNOWN = "unknown"


_SEEN_BEHIND: dict[Passage, Seen] = {
    Passage.DEAD_LETTER: Seen.DEAD_LETTER,
    Passage.LEFT_OUT: Seen.LEFT_OUT,
    Passage.TAKEN: Seen.LEFT_OUT,
    Passage.NOT_READ: Seen.LEFT_OUT,
    Passage.PENDING: Seen.PENDING,
    Passage.UNKNOWN: Seen.UNKNOWN,
}
# The first that any of the places says counts for the whole.
_ORDER = (Seen.PENDING, Seen.VISIBLE, Seen.DEAD_LETTER, Seen.UNKNOWN, Seen.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAt:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTrace:
    """A statement on the way. `behind` is about how many records it has to read up to this one. Unless it
    `leads` to a table, nothing can be seen behind it.
    """

    query: str
    source: RecordAt
    sink: str
    passage: Passage
    records: tuple[RecordAt, ...] = ()
    reason: str = ""
    behind: int = 0
    leads: bool = True

    def as_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "source": self.source.as_json(),
            "sink": self.sink,
            "state": self.passage.value,
            "records": [record.as_json() for record in self.records],
            "behind": self.behind,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrace:
    """A table at the end. `version` is one that has the row; None if none is known to.

    `name` is that in SQL, and empty if SQL does not have the table.
    """

    table: str
    connector: str
    source: RecordAt
    sql: Seen
    lake: Seen
    version: int | None = None
    reason: str = ""
    behind: int = 0
    name: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "connector": self.connector,
            "source": self.source.as_json(),
            "sql": self.sql.value if self.name else None,
            "lake": self.lake.value,
            "version": self.version,
            "behind": self.behind,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTrace:
    """A dead letter, and which query or connector wrote it."""

    at: RecordAt
    by: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {**self.at.as_json(), "by": self.by, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """If it `is_looking`, more will be known in a moment, although nothing happens to the event."""

    receipt: Receipt
    queries: tuple[QueryTrace, ...] = ()
    tables: tuple[TableTrace, ...] = ()
    letters: tuple[LetterTrace, ...] = ()
    is_looking: bool = False

    @property
    def sql(self) -> Seen:
        return self._seen(table.sql for table in self.tables if table.name)

    @property
    def lake(self) -> Seen:
        return self._seen(table.lake for table in self.tables)

    @property
    def behind(self) -> str:
        """What it waits for, for an error; empty if for nothing."""
        waits = [
            f"query {each.query} has about {each.behind:,} records to read up to it"
            + (f" ({each.reason})" if each.reason else "")
            for each in self.queries
            if each.passage is Passage.PENDING
        ]
        waits += [
            f"table {each.table} is about {each.behind:,} records behind"
            + (f" ({each.reason})" if each.reason else "")
            for each in self.tables
            if Seen.PENDING in (each.sql, each.lake)
        ]
        return "; ".join(waits)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.receipt.topic,
            "partition": self.receipt.partition,
            "offset": self.receipt.offset,
            "sql": self.sql.value,
            "lake": self.lake.value,
            "queries": [each.as_json() for each in self.queries],
            "tables": [each.as_json() for each in self.tables],
            "dead_letters": [each.as_json() for each in self.letters],
        }

    def _seen(self, tables: Iterable[Seen]) -> Seen:
        # What was written is seen, or not, in the tables behind it.
        stopped = [each for each in self.queries if each.leads and each.passage is not Passage.WRITTEN]
        found = [*tables, *(_SEEN_BEHIND[each.passage] for each in stopped)]
        if not found:
            # Nothing of it can come into a table, but it is worth knowing what became of it.
            return self._without_tables()
        return next((each for each in _ORDER if each in found), Seen.LEFT_OUT)

    def _without_tables(self) -> Seen:
        passages = {each.passage for each in self.queries}
        for passage in (Passage.PENDING, Passage.DEAD_LETTER):
            if passage in passages:
                return _SEEN_BEHIND[passage]
        return Seen.NO_TABLE
