"""Which files and which tails a question reads: all tables at one moment, and behind each the topic's tail.

Owns the lake's tables as this process follows them. Invariants: the snapshots of all tables that a question
names are taken at once, before any tail; a tail is asked for with the snapshot that it continues. Blocks:
call it from a thread. Never reads a data file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Protocol

from headrace.core.errors import HeadraceError
from headrace.query.buckets.log_snapshot import bucket_snapshot_at
from headrace.query.buckets.tables import BucketTables
from headrace.query.log_sources import LogSources
from headrace.query.questions import LIVE, OFF, NamedTables, Question, TablePlan
from headrace.query.references.moments import moment_of
from headrace.query.rollups.offers import LakeRollups, RollupOffer
from headrace.query.snapshots import LakeTables, TableSnapshot, snapshot_at
from headrace.query.sources import TailView, Waiting
from headrace.query.table_history import TableHistories
from headrace.query.table_snapshot import BucketSnapshot

# Longer than it takes to read the last moments of a topic; then the answer says what it lacks.
TAIL_WAIT_SECONDS: Final = 2.0


class Tails(Protocol):
    """The records of topics that are not in their tables yet. Threads may call it at once."""

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView: ...


class Planner:
    """Makes plans. `tails` is None where there is no log: then only the lake is read. `waiting` tells what
    waits before the topic of a table.
    """

    waiting: Callable[[TableSnapshot], tuple[Waiting, ...]] | None = None

    def __init__(
        self,
        lake_dir: Path,
        tails: Tails | None = None,
        sources: LogSources | None = None,
        bucket_tables: BucketTables | None = None,
    ) -> None:
        self._tables = LakeTables(lake_dir)
        self._bucket_tables = bucket_tables
        self._histories = TableHistories(_snapshot_at)
        self._rollups = LakeRollups(lake_dir)
        self._tails = tails
        self._sources = sources

    def snapshots(self) -> dict[str, TableSnapshot]:
        """All tables by name, now. Those in buckets are as they were seen last."""
        local = self._tables.current()
        if self._bucket_tables is None:
            return local
        return dict(sorted({**self._bucket_tables.current(local), **local}.items()))

    def look(self, snapshots: Mapping[str, TableSnapshot], named: NamedTables) -> list[Future[None]]:
        """Look at the tables in buckets that a question needs; the snapshots are newer when that is done."""
        if self._bucket_tables is None:
            return []
        return self._bucket_tables.look(_local(snapshots), _read_by(named), catalogue=named.catalogue)

    def check(self, snapshots: Mapping[str, TableSnapshot], named: NamedTables) -> None:
        """Raises bucket_unavailable."""
        if self._bucket_tables is not None:
            self._bucket_tables.check(_local(snapshots), _read_by(named))

    def doubt_buckets(self) -> None:
        """What was seen in buckets last is too old."""
        if self._bucket_tables is not None:
            self._bucket_tables.doubt()

    def table_at(self, newest: TableSnapshot, version: int) -> TableSnapshot:
        """The table at an old version; `Tails.view` has what came behind it. Raises version_not_found."""
        return self._histories.at_version(newest, version)

    def tables_at(self, moments: Collection[str]) -> dict[str, TableSnapshot]:
        """Tables at versions, by the names that statements have for them. Raises version_not_found."""
        snapshots = self.snapshots()
        plans = [self._plan_at(name, snapshots, ()) for name in moments]
        return {plan.name: plan.snapshot for plan in plans if plan.snapshot is not None}

    def plan(
        self,
        question: Question,
        snapshots: Mapping[str, TableSnapshot],
        named: NamedTables,
        widened: Collection[str],
    ) -> list[TablePlan]:
        """What a question reads of these snapshots; `named` has case-folded names."""
        plans = [self._plan_at(name, snapshots, widened) for name in named.moments]
        plans += self._plan_sources(named)
        freshness = named.freshness or question.freshness
        for name, snapshot in snapshots.items():
            is_read = name.casefold() in named.names
            if not is_read and not named.catalogue:
                continue
            tail: TailView | None = None
            upstream: tuple[Waiting, ...] = ()
            if is_read and self._tails is not None and freshness == LIVE and not snapshot.unreadable:
                # Before the tail: what a statement writes meanwhile may be counted, but is never left out.
                upstream = self.waiting(snapshot) if self.waiting is not None else ()
                tail = self._tails.view(snapshot, wait_seconds=TAIL_WAIT_SECONDS)
            rollups: tuple[RollupOffer, ...] = ()
            if is_read and question.rollups != OFF:
                rollups = self._rollups.offers(snapshot)
            plans.append(
                TablePlan(
                    name=name,
                    snapshot=snapshot,
                    tail=tail,
                    upstream=upstream,
                    widened=name in widened,
                    rollups=rollups,
                )
            )
        return plans

    def _plan_sources(self, named: NamedTables) -> list[TablePlan]:
        """What is read of the log itself. Raises no_such_topic, no_such_table, log_unavailable."""
        if self._sources is None:
            if named.topics or named.statement_tables:
                raise HeadraceError(
                    "query_failed",
                    "Topics cannot be asked here: only the lake is read.",
                    remedy="Ask the running platform (`POST /sql`).",
                )
            return []
        topics, tables = self._sources.plan(
            topics=named.topics, tables=named.statement_tables, perhaps=named.unknown
        )
        return [
            *(TablePlan(name=each.name, snapshot=None, once=True, topic=each) for each in topics),
            *(TablePlan(name=each.name, snapshot=None, once=True, statement_table=each) for each in tables),
        ]

    def _plan_at(
        self, name: str, snapshots: Mapping[str, TableSnapshot], widened: Collection[str]
    ) -> TablePlan:
        """A table at a version or a time: its files alone. Raises version_not_found, bad_request."""
        moment = moment_of(name)
        newest = next(each for each in snapshots.values() if each.name.casefold() == moment.table.casefold())
        if moment.version is not None:
            found = self.table_at(newest, moment.version)
        else:
            found = self._histories.at_time(newest, moment.at_ms or 0)
        return TablePlan(
            name=name,
            snapshot=dataclasses.replace(found, name=name),
            widened=newest.name in widened or name in widened,
            once=True,
            as_of=moment.described,
        )


def needs_bucket(snapshot: TableSnapshot, named: NamedTables) -> bool:
    """Whether a question needs the table, and it is in a bucket."""
    if not isinstance(snapshot, BucketSnapshot):
        return False
    return named.catalogue or snapshot.name.casefold() in _read_by(named)


def _read_by(named: NamedTables) -> frozenset[str]:
    """The case-folded names of tables, now or at a version."""
    return frozenset({*named.names, *(moment_of(name).table.casefold() for name in named.moments)})


def _snapshot_at(newest: TableSnapshot, version: int) -> TableSnapshot:
    if isinstance(newest, BucketSnapshot):
        return bucket_snapshot_at(newest, version)
    return snapshot_at(newest, version)


def _local(snapshots: Mapping[str, TableSnapshot]) -> list[str]:
    return [name for name, snapshot in snapshots.items() if not isinstance(snapshot, BucketSnapshot)]
