"""An engine for tests of the PostgreSQL door: DuckDB over real Delta tables, one connection a question.

What `LakeQuery` does, with `run` as the door's `Engine` has it: a cancelled question is interrupted at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from headrace.core.errors import HeadraceError
from headrace.query.lake_database import LakeDatabase
from headrace.query.permitted import check_permitted
from headrace.query.snapshots import Column, LakeTables
from headrace.query.sql import LakeQuery, QueryResult

_MOST_ROWS = 300_000


class LakeEngine:
    """Answers from the tables in `lake`. `running` counts questions, `interrupted` the stopped ones."""

    def __init__(self, lake: Path, *, time_limit_seconds: float = 30.0) -> None:
        self._tables = LakeTables(lake)
        self._lake = LakeQuery(lake, most_rows=_MOST_ROWS)
        self._database = LakeDatabase(
            lake, time_limit_seconds=time_limit_seconds, memory_limit="512MB", threads=1
        )
        self.running = 0
        self.interrupted = 0

    async def tables(self) -> Mapping[str, Sequence[Column]]:
        return {name: table.columns for name, table in self._tables.current().items()}

    async def run(self, sql: str, parameters: Sequence[object] = ()) -> QueryResult:
        assert not parameters, "the door writes parameters into the statement"
        tables = self._tables.current()
        connection = self._database.connect(tables.values(), widened=())
        done = threading.Event()
        self.running += 1

        def answer() -> QueryResult:
            try:
                check_permitted(connection, sql, {name.casefold() for name in tables})
                return self._lake._answer(connection, sql)
            except duckdb.InterruptException as error:
                raise HeadraceError("query_failed", "The query was stopped after 30 s.") from error
            except duckdb.Error as error:
                raise HeadraceError("query_failed", str(error).strip()) from error
            finally:
                done.set()

        work = asyncio.get_running_loop().run_in_executor(None, answer)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not done.is_set():
                connection.interrupt()
                await asyncio.sleep(0.01)
            self.interrupted += 1
            await asyncio.gather(work, return_exceptions=True)
            raise
        finally:
            self.running -= 1
            connection.close()

    def close(self) -> None:
        self._lake.close()
        self._database.close()
