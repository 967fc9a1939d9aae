"""The catalogue as the fold of the statement log, and the rule by which several writers agree.

The rule: a statement counts if it follows the last one that counts, that is, if its `after` is that one's
offset. A writer reads the log to its end, decides, and names the last statement that it saw; if another
arrived in between, its own does not count, and it decides again. So every decision that counts was based on
exactly the catalogue that it changes, without locks and without messages between writers.

A snapshot replaces all statements up to its offset, which are then retracted. Compaction may remove some of
them before others, so while the log is being read a statement may seem to count although it did not; the
snapshot corrects that, because statements after its offset are replayed on top of it.

Invariant: everybody who has read the log to its end has the same catalogue, whenever they read it and
whatever compaction removed. This holds because the newest snapshot is never retracted, nor is any statement
after its offset, and whether one of these counts depends on nothing before the snapshot. No I/O, no locks, no
time.
"""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import Final

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.catalogue.records import (
    BEGINNING,
    Effect,
    LogRecord,
    Outcome,
    PauseQuery,
    PutQuery,
    PutSource,
    PutType,
    RemoveQuery,
    RemoveSource,
    RetiredRecord,
    SnapshotRecord,
    StatementRecord,
)

# Number of outcomes to remember; writers ask for theirs a moment after they wrote.
RECENT: Final = 200


class LogState:
    """Changes only in `replay`."""

    def __init__(self) -> None:
        self.catalogue = Catalogue()
        # The offset of the last statement that counts.
        self.last = BEGINNING
        self._base = BEGINNING
        self._behind: dict[int, StatementRecord] = {}
        # Of the last statements that count, in order.
        self._recent: dict[str, Outcome] = {}
        # Keys that a snapshot made superfluous, until they are retracted.
        self._superfluous: dict[str, None] = {}

    def outcome(self, statement: str) -> Outcome | None:
        """The outcome of the statement with that id, if it counts."""
        return self._recent.get(statement)

    def commands(self) -> dict[str, Outcome]:
        """The newest outcome of each recent command."""
        return {outcome.command: outcome for outcome in self._recent.values()}

    def snapshot(self) -> SnapshotRecord:
        return SnapshotRecord(of=self.last, catalogue=self.catalogue, recent=tuple(self._recent.values()))

    @property
    def since_snapshot(self) -> int:
        return len(self._behind)

    def superfluous(self) -> tuple[str, ...]:
        """Keys of records that the newest snapshot replaces."""
        return tuple(self._superfluous)

    def replay(self, offset: int, record: LogRecord) -> None:
        if isinstance(record, StatementRecord):
            if offset <= self._base:
                self._superfluous[f"statement/{record.id}"] = None
            else:
                self._behind[offset] = record
                self._take(offset, record)
        elif isinstance(record, SnapshotRecord):
            self._stand_on(record)
        elif isinstance(record, RetiredRecord):
            self._superfluous.pop(record.key, None)

    def _stand_on(self, snapshot: SnapshotRecord) -> None:
        if snapshot.of <= self._base:
            if snapshot.of < self._base:
                self._superfluous[f"snapshot/{snapshot.of}"] = None
            return
        if self._base != BEGINNING:
            self._superfluous[f"snapshot/{self._base}"] = None
        for offset, record in self._behind.items():
            if offset <= snapshot.of:
                self._superfluous[f"statement/{record.id}"] = None
        behind = {offset: record for offset, record in self._behind.items() if offset > snapshot.of}
        self.catalogue, self.last, self._base = snapshot.catalogue, snapshot.of, snapshot.of
        self._behind = behind
        self._recent = {outcome.statement: outcome for outcome in snapshot.recent}
        for offset, record in behind.items():
            self._take(offset, record)

    def _take(self, offset: int, record: StatementRecord) -> None:
        if record.after != self.last:
            return
        query_id = None
        for effect in record.effects:
            self.catalogue = apply(self.catalogue, effect, offset)
            if isinstance(effect, PutQuery):
                query_id = query_id_of(effect, offset)
        self.last = offset
        self._recent[record.id] = Outcome(
            statement=record.id,
            offset=offset,
            command=record.command,
            message=record.message.replace("{query}", query_id or ""),
            query_id=query_id,
        )
        for forgotten in tuple(islice(self._recent, max(0, len(self._recent) - RECENT))):
            del self._recent[forgotten]


def query_id_of(effect: PutQuery, offset: int) -> str:
    return f"{effect.query.id}_{offset}" if effect.numbered else effect.query.id


def apply(catalogue: Catalogue, effect: Effect, offset: int) -> Catalogue:
    """The catalogue after one effect of the statement at `offset`."""
    sources, queries, types = dict(catalogue.sources), dict(catalogue.queries), dict(catalogue.types)
    match effect:
        case PutSource():
            sources[effect.source.name] = effect.source
        case RemoveSource():
            sources.pop(effect.name, None)
        case PutQuery():
            query_id = query_id_of(effect, offset)
            queries[query_id] = dataclasses.replace(effect.query, id=query_id)
        case RemoveQuery():
            queries.pop(effect.id, None)
        case PauseQuery():
            if effect.id in queries:
                queries[effect.id] = dataclasses.replace(queries[effect.id], paused=effect.paused)
        case PutType():
            types[effect.name] = effect.type
        case _:
            types.pop(effect.name, None)
    return Catalogue(sources=sources, queries=queries, types=types)
