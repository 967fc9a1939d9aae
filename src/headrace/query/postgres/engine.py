"""What the door needs from the engine behind it: the tables there are, and answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.query.receipts.receipt import NOTHING, After
from headrace.query.snapshots import Column
from headrace.query.sql import QueryResult


class Engine(Protocol):
    """Answers questions under the limits of memory, time and size that hold for every door.

    Its times are in UTC. A `QueryResult` has DuckDB's types and Python's values.
    """

    async def tables(self) -> Mapping[str, Sequence[Column]]:
        """The tables that can be asked now, by name, with their columns in order."""
        ...

    async def tables_at(self, moments: Sequence[str]) -> Mapping[str, Sequence[Column]]:
        """The same of tables at versions, by their names in statements. Raises HeadraceError."""
        ...

    async def run(self, sql: str, parameters: Sequence[object], *, after: After = NOTHING) -> QueryResult:
        """The answer to one statement of DuckDB's SQL, once the events of `after` can be seen. Raises
        HeadraceError.

        When the task that waits for it is cancelled, the question is stopped before this returns, or given
        up so that it costs nobody else anything.
        """
        ...
