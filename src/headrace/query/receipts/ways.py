"""Which ways an event can take from its topic: the statements and the connectors that read it. Values, and
what the assembly has to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from headrace.lake.location import Location
from headrace.pipeline.runs.commits import Commit

# Topic id → partition → offset.
Offsets = Mapping[str, Mapping[int, int]]


class Yield(Enum):
    """What a statement makes of one record of a topic that it reads."""

    # One record, or a dead letter.
    ONE = "one"
    # Any number of records, each of which names it.
    ANY = "any"
    # Rows that come from many records and name none.
    STATE = "state"
    # None: it is read beside the records that become rows, as the table of a look-up is.
    BESIDE = "beside"


def place_of(location: Location) -> str:
    """The same for one folder, however it is written."""
    return str(location.path.resolve()) if location.is_local else str(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWay:
    """A statement reads the topic `source` and writes `sink`; what it cannot read goes to `letters`.

    `reason` says why its yield is not ONE. `begins` is where it began to read, and `sinks` where its sinks
    ended then, as far as that is known. It belongs to `statement`: a query's id can be used again.
    """

    query: str
    source: str
    sink: str
    letters: str
    gives: Yield
    reason: str = ""
    is_paused: bool = False
    statement: str = ""
    begins: Offsets = field(default_factory=dict)
    sinks: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWay:
    """A connector reads the topic `source` and writes a table; what it cannot read goes to `letters`.

    `query` names it in dead letters. `drops` says why a record may become neither a row nor a dead letter,
    `problem` why none becomes a row for now, `unseen` why nothing can be said of its rows; empty if not so.
    """

    connector: str
    query: str
    source: str
    table: str
    location: Location
    letters: str
    drops: str = ""
    problem: str = ""
    unseen: str = ""

    @property
    def location_key(self) -> str:
        """The same for one folder, however it is written."""
        return place_of(self.location)


Way = QueryWay | TableWay


class Ways(Protocol):
    """All methods may be called from any thread; all may block. They raise log_unavailable."""

    def of(self, topic: str) -> Sequence[Way]:
        """All that read the topic, by its name."""
        ...

    def commits(self, way: QueryWay) -> Sequence[Commit]:
        """What the query has recorded, the newest last."""
        ...

    def commits_of_letters(self, way: QueryWay) -> Sequence[Sequence[Commit]]:
        """The same of each part of it that only writes dead letters."""
        ...
