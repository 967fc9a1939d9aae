"""The statement tables of a question as views in a worker's database: `"table"."VIEWS"`, or just `VIEWS`.

Owns the rows of the tables that were asked for last: as long as a topic has no new records, they are not read
again. Invariants: the views of a question are gone before the next one; kept rows take little memory. Belongs
to one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import duckdb
import pyarrow as pa

from headrace.query.statement_tables.plan import TABLE_SCHEMA, StatementTablePlan
from headrace.query.statement_tables.rows import table_rows
from headrace.query.table_snapshot import quoted
from headrace.query.topic_tables.reading import Allowance, ScanNotes

_MOST_KEPT_BYTES: Final = 16 * 1024 * 1024

# The text of a schema by the registry's URL and its id.
SchemaAt = Callable[[str, int], str | None]


class StatementTableViews:
    """Of one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema_at: SchemaAt) -> None:
        self._connection = connection
        self._schema_at = schema_at
        self._shown: list[tuple[str, str]] = []
        self._summaries: list[Mapping[str, object]] = []
        self._kept: OrderedDict[str, tuple[pa.Table, int]] = OrderedDict()
        self._has_schema = False

    def show(self, plans: Iterable[StatementTablePlan], allowance: Allowance) -> None:
        """Make the views of a question. Raises HeadraceError if a table cannot be read within the limits."""
        self._summaries = []
        for number, plan in enumerate(plans):
            notes = ScanNotes()
            rows, unreadable = self._rows(plan, allowance, notes)
            relation = f"rows/{number}"
            view = f"{quoted(TABLE_SCHEMA)}.{quoted(plan.name)}" if plan.qualified else quoted(plan.name)
            self._shown.append((relation, view))
            self._connection.register(relation, rows)
            if plan.qualified and not self._has_schema:
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(TABLE_SCHEMA)}")
                self._has_schema = True
            kind = "VIEW" if plan.qualified else "TEMP VIEW"
            self._connection.execute(f"CREATE OR REPLACE {kind} {view} AS FROM {quoted(relation)}")
            self._summaries.append(
                {
                    "statement_table": plan.source.name,
                    "topic": plan.topic.topic.name,
                    "offsets": {str(number): list(ends) for number, ends in plan.topic.stretches.items()},
                    "rows": rows.num_rows,
                    "unreadable": unreadable,
                    "records": notes.rows,
                    "bytes": notes.bytes_read,
                }
            )

    def forget(self) -> None:
        """Before the next question."""
        for relation, view in self._shown:
            self._connection.execute(f"DROP VIEW IF EXISTS {view}")
            self._connection.unregister(relation)
        self._shown = []
        self._summaries = []

    @property
    def summaries(self) -> list[Mapping[str, object]]:
        """What was read of each table, for whoever asked."""
        return self._summaries

    def _rows(self, plan: StatementTablePlan, allowance: Allowance, notes: ScanNotes) -> tuple[pa.Table, int]:
        # What the rows depend on: the table as its statement says, and the records of its topic.
        key = repr((plan.source, plan.topic.topic.topic_id, plan.topic.stretches, plan.topic.registry_url))
        found = self._kept.pop(key, None)
        if found is None:
            url = plan.topic.registry_url
            found = table_rows(plan, allowance, notes, lambda schema_id: self._schema_at(url, schema_id))
        self._kept[key] = found
        while self._kept and sum(rows.nbytes for rows, _ in self._kept.values()) > _MOST_KEPT_BYTES:
            self._kept.popitem(last=False)
        return found
