"""Uses rollups in a worker: rewrites a question, and makes the views that it then reads.

A view is there for one question. It has the rows of a rollup, and behind them the rows of the table that came
later: of files that were added since, and of the tail. Those are not grouped: each is a group of its own.
Belongs to one worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import duckdb

from headrace.lake.rollups.definition import duckdb_type
from headrace.query.lake_database import LakeDatabase
from headrace.query.questions import TablePlan
from headrace.query.rollups.expressions import PREFIX
from headrace.query.rollups.offers import RollupOffer
from headrace.query.rollups.rewriting import Rewriting, Rewritten
from headrace.query.rollups.trees import Trees
from headrace.query.table_snapshot import Column, TableSnapshot, quoted
from headrace.query.workers.tail_rows import Tail

# Dashboards ask the same questions again and again.
_MOST_KNOWN: Final = 256
# Far from the numbers of tables.
_FIRST_NUMBER: Final = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RollupTail:
    """The tail of a table, and the relation that its rows are in; empty if it has only files."""

    tail: Tail
    relation: str


class RollupUse:
    """Of one worker's database."""

    def __init__(self, database: LakeDatabase, connection: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._connection = connection
        self._trees: Trees | None = None
        self._numbers: dict[str, int] = {}
        self._made: list[str] = []
        self._is_in_transaction = False
        # Statements that were looked at, with all that they were looked at with.
        self._known: OrderedDict[object, Rewritten | None] = OrderedDict()

    def end(self) -> None:
        """The question has ended."""
        if self._is_in_transaction:
            self._is_in_transaction = False
            # It may have ended with an error.
            with contextlib.suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")

    def forget(self) -> None:
        """Remove what was made for the last question: whoever asks for the tables sees none of it."""
        self.end()
        made, self._made = self._made, []
        for name in made:
            self._connection.execute(f"DROP VIEW IF EXISTS {quoted(name)}")

    def rewritten(
        self,
        sql: str,
        parameters: Sequence[object],
        plans: Sequence[TablePlan],
        snapshots: Mapping[str, TableSnapshot],
        tails: Mapping[str, RollupTail],
        *,
        is_close: bool = False,
    ) -> Rewritten | None:
        """The statement over rollups; None if the plain way is the one. `tails` are relations with the tails
        of tables, by their names. `is_close`: the last digit of averages may differ.
        """
        offered = {
            plan.name.casefold(): plan
            for plan in plans
            # The lake alone knows all values of some tails: a rollup may need those.
            if plan.rollups and not (plan.name in tails and tails[plan.name].tail.unknown)
        }
        if not offered:
            return None
        if self._trees is None:
            self._trees = Trees(self._connection)

        def view_of(table: str, offer: RollupOffer) -> str:
            plan = offered[table]
            return self._view(offer, plan, snapshots[plan.name], tails.get(plan.name))

        columns = {table: snapshots[plan.name].columns for table, plan in offered.items()}
        definitions = [[offer.definition for offer in plan.rollups] for plan in offered.values()]
        key = repr((sql, list(parameters), columns, definitions, is_close))
        if key in self._known:
            return self._again(self._known[key], offered, view_of)
        self._trees.parameters = parameters
        statements = self._trees.parsed(sql)
        if statements.get("error"):
            return None
        rewriting = Rewriting(
            self._trees,
            columns={table: [column.name for column in found] for table, found in columns.items()},
            offers={table: plan.rollups for table, plan in offered.items()},
            view_of=view_of,
            is_close=is_close,
        )
        if self._trees.uses_now(statements):
            # The present moment is that of the transaction: the bounds looked at are those that count.
            self._connection.execute("BEGIN TRANSACTION")
            self._is_in_transaction = True
            made = rewriting.rewritten(statements)
            if made is None:
                self.end()
            return made
        made = rewriting.rewritten(statements)
        self._known[key] = made
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return made

    @staticmethod
    def _again(
        known: Rewritten | None,
        offered: Mapping[str, TablePlan],
        view_of: Callable[[str, RollupOffer], str],
    ) -> Rewritten | None:
        """The same, with the files of now."""
        if known is None:
            return None
        used: dict[str, tuple[RollupOffer, ...]] = {}
        for table, before in known.used.items():
            ids = {offer.definition.id for offer in before}
            used[table] = tuple(offer for offer in offered[table].rollups if offer.definition.id in ids)
            try:
                for offer in used[table]:
                    view_of(table, offer)
            except duckdb.Error:
                return None
        return Rewritten(sql=known.sql, used=used)

    def _view(
        self, offer: RollupOffer, plan: TablePlan, table: TableSnapshot, tail: RollupTail | None
    ) -> str:
        definition = offer.definition
        groups, later, both = (f"{kind}/{definition.id}" for kind in ("groups", "later", "rollup"))
        kept = TableSnapshot(
            name=groups,
            folder=offer.folder,
            table_id=definition.id,
            version=offer.stands_for,
            columns=tuple(Column(name=each.name, type=duckdb_type(each.type)) for each in definition.columns),
            partition_columns=(),
            files=offer.files,
        )
        self._show(kept, widened=False)
        named = ", ".join(f"{each.name} AS {quoted(PREFIX + each.name)}" for each in definition.columns)
        rows = f"SELECT {named} FROM {quoted(groups)}"
        if offer.recent or tail is not None:
            self._show(
                dataclasses.replace(table, name=later, files=offer.recent), widened=plan.widened, tail=tail
            )
            single = ", ".join(
                f"CAST({each.row} AS {duckdb_type(each.type)}) AS {quoted(PREFIX + each.name)}"
                for each in definition.columns
            )
            rows = f"{rows} UNION ALL SELECT {single} FROM {quoted(later)}"
        self._made.append(both)
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(both)} AS {rows}")
        return quoted(both)

    def _show(self, snapshot: TableSnapshot, *, widened: bool, tail: RollupTail | None = None) -> None:
        number = self._numbers.setdefault(snapshot.name, _FIRST_NUMBER + len(self._numbers))
        self._made.append(snapshot.name)
        self._database.list_files(self._connection, snapshot, number)
        if tail is None:
            self._database.list_tail(self._connection, snapshot, number)
        else:
            found = tail.tail
            self._database.list_tail(
                self._connection, snapshot, number, files=found.files, begun=found.begun, starts=found.starts
            )
        self._database.create_view(
            self._connection,
            snapshot,
            number,
            widened=widened,
            tail="" if tail is None else tail.relation,
            has_begun=tail is not None and bool(tail.tail.begun),
        )
