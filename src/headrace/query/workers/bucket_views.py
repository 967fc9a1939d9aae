"""Views of tables in buckets, narrowed to the files that a question needs.

Invariants: a view reads all files of its snapshot unless the plan of the question rules some out, and none if
the question does not name it; a question whose plan could not be made runs over all files, and reports what
is wrong with it. `now()` in the plan is
that of the question: both are in one transaction, which `end` closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from headrace.query.lake_database import LakeDatabase
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.workers.bucket_files import BucketFiles
from headrace.query.workers.file_pruning import conditions_in, kept_files, references_to


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketView:
    """A view with its number; `restore` lets it read the table again after a stand-in."""

    number: int
    snapshot: TableSnapshot
    restore: Callable[[], None]


class BucketViews:
    """Of one connection."""

    def __init__(
        self, database: LakeDatabase, connection: duckdb.DuckDBPyConnection, files: BucketFiles
    ) -> None:
        self._database = database
        self._connection = connection
        self._files = files
        self._in_transaction = False
        # How many files of each view the question does not need.
        self.skipped: dict[int, int] = {}

    def begin(self) -> None:
        """A new question."""
        self.end()
        self.skipped.clear()
        self._files.begin()

    def list_files(self, views: Sequence[BucketView], text: str, parameters: Sequence[object]) -> None:
        """Let the views that a statement names read files: those that it needs something of."""
        kept: dict[int, list[int]] = {}
        planned = [view for view in views if view.snapshot.stored and view.snapshot.stored.statistics]
        if planned:
            self._connection.begin()
            self._in_transaction = True
            try:
                kept = self._kept(text, parameters, planned)
            except duckdb.Error:
                # The question has the same error, and reports it. The stand-ins go with the transaction.
                self.end()
        for view in views:
            numbers = kept.get(view.number)
            files = view.snapshot.files
            self.skipped[view.number] = 0 if numbers is None else len(files) - len(numbers)
            self._files.admit(_sizes(view.snapshot))
            self._files.expect(files if numbers is None else [files[each] for each in numbers])
            self._database.list_files(self._connection, view.snapshot, view.number, kept=numbers)
        if self._in_transaction:
            for view in planned:
                # Behind the list: a view over files with different columns opens all that it lists.
                view.restore()

    def end(self) -> None:
        if self._in_transaction:
            self._in_transaction = False
            self._connection.rollback()

    def _kept(
        self, text: str, parameters: Sequence[object], views: Sequence[BucketView]
    ) -> dict[int, list[int]]:
        """By the numbers of the views: the numbers of the files to read, unless it is all of them."""
        for view in views:
            self._database.create_stand_in(self._connection, view.snapshot, view.number)
        rows = self._connection.execute(f"EXPLAIN (FORMAT json) {text}", list(parameters) or None).fetchall()
        scans = conditions_in(str(rows[-1][1]))
        found: dict[int, list[int]] = {}
        for view in views:
            of_table = scans.get(view.number, [])
            if len(of_table) < max(1, references_to(self._connection, text, view.snapshot.name)):
                continue
            numbers = kept_files(self._connection, view.snapshot, of_table)
            if numbers is not None:
                found[view.number] = numbers
        return found


def _sizes(snapshot: TableSnapshot) -> Mapping[str, int]:
    sizes = snapshot.stored.sizes if snapshot.stored is not None else ()
    return dict(zip(snapshot.files, sizes, strict=True))
