"""Which files and which tails a question reads: all tables at one moment, and behind each the topic's tail.

Owns the lake's tables as this process follows them. Invariants: the snapshots of all tables that a question
names are taken at once, before any tail; a tail is asked for with the snapshot that it continues. Blocks:
call it from a thread. Never reads a data file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Protocol

from headrace.query.buckets.tables import BucketTables
from headrace.query.questions import LIVE, NamedTables, Question, TablePlan
from headrace.query.snapshots import LakeTables, TableSnapshot
from headrace.query.sources import TailView
from headrace.query.table_snapshot import BucketSnapshot

# Longer than it takes to read the last moments of a topic; then the answer says what it lacks.
TAIL_WAIT_SECONDS: Final = 2.0


class Tails(Protocol):
    """The records of topics that are not in their tables yet. Threads may call it at once."""

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView: ...


class Planner:
    """Makes plans. `tails` is None where there is no log: then only the lake is read."""

    def __init__(
        self, lake_dir: Path, tails: Tails | None = None, bucket_tables: BucketTables | None = None
    ) -> None:
        self._tables = LakeTables(lake_dir)
        self._tails = tails
        self._bucket_tables = bucket_tables

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
        return self._bucket_tables.look(_local(snapshots), named.names, catalogue=named.catalogue)

    def check(self, snapshots: Mapping[str, TableSnapshot], named: NamedTables) -> None:
        """Raises bucket_unavailable."""
        if self._bucket_tables is not None:
            self._bucket_tables.check(_local(snapshots), named.names)

    def doubt_buckets(self) -> None:
        """What was seen in buckets last is too old."""
        if self._bucket_tables is not None:
            self._bucket_tables.doubt()

    def plan(
        self,
        question: Question,
        snapshots: Mapping[str, TableSnapshot],
        named: NamedTables,
        widened: Collection[str],
    ) -> list[TablePlan]:
        """What a question reads of these snapshots; `named` has case-folded names."""
        plans: list[TablePlan] = []
        for name, snapshot in snapshots.items():
            is_read = name.casefold() in named.names
            if not is_read and not named.catalogue:
                continue
            tail: TailView | None = None
            if is_read and self._tails is not None and question.freshness == LIVE and not snapshot.unreadable:
                tail = self._tails.view(snapshot, wait_seconds=TAIL_WAIT_SECONDS)
            plans.append(TablePlan(name=name, snapshot=snapshot, tail=tail, widened=name in widened))
        return plans


def _local(snapshots: Mapping[str, TableSnapshot]) -> list[str]:
    return [name for name, snapshot in snapshots.items() if not isinstance(snapshot, BucketSnapshot)]
