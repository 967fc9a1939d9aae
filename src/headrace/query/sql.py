"""SQL over the lake, answered from the files of each table's newest Delta version: no Spark, no JVM.

Invariants: a query sees each table at one version; it reads only files of that version, and of those only the
folders that match its conditions on the partition columns; it changes nothing (see `permitted.py`, and behind
it `lake_database.py`); it ends within the time limit. Any number of threads may run queries at once.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.core.errors import HeadraceError
from headrace.query.permitted import check_permitted
from headrace.query.snapshots import LakeTables, TableSnapshot

if TYPE_CHECKING:
    import duckdb

    from headrace.query.lake_database import LakeDatabase

IDLE_SESSIONS: Final = 4
_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """An answer: the names and DuckDB types of its columns, and its rows as Python values."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A connection that sees these snapshots as views. One query at a time."""

    connection: duckdb.DuckDBPyConnection
    tables: dict[str, TableSnapshot]
    widened: frozenset[str]


class LakeQuery:
    """Answers SQL from the Delta tables in `lake_dir`."""

    def __init__(
        self,
        lake_dir: Path,
        *,
        time_limit_seconds: float = 30.0,
        memory_limit: str = "512MB",
        threads: int = 2,
        most_rows: int = 100_000,
    ) -> None:
        self._lake_dir = lake_dir.resolve()
        self._tables = LakeTables(self._lake_dir)
        self._time_limit_seconds = time_limit_seconds
        self._memory_limit = memory_limit
        self._threads = threads
        self._most_rows = most_rows
        self._lock = threading.Lock()
        self._database: LakeDatabase | None = None
        self._idle: list[_Session] = []
        self._widened: frozenset[str] = frozenset()

    def run(self, sql: str) -> QueryResult:
        """Run one query. HeadraceError: query_failed, or no_such_table if the lake has no tables yet."""
        tables = self._tables.current()
        database = self._open_database()
        # Loaded by now; imported here because a gateway that receives no queries does not need the package's
        # 27 MB.
        import duckdb  # noqa: PLC0415

        named: Collection[str] = ()
        try:
            session = self._take(database, tables)
        except duckdb.Error as error:
            raise self._failed(error, tables) from error
        try:
            named = self._check(session, sql)
            result = self._answer(session.connection, sql)
        except duckdb.Error as error:
            session.connection.close()
            if "union_by_name" in str(error) and not session.widened.issuperset(named):
                with self._lock:
                    self._widened = self._widened.union(named)
                return self.run(sql)
            raise self._failed(error, tables) from error
        except HeadraceError:
            self._give_back(session)
            raise
        self._give_back(session)
        return result

    def close(self) -> None:
        """Free the memory and the temporary folder. No query may be running; the next one starts over."""
        with self._lock:
            idle, self._idle = self._idle, []
            database, self._database = self._database, None
        for session in idle:
            session.connection.close()
        if database is not None:
            database.close()

    def _check(self, session: _Session, sql: str) -> set[str]:
        """The names of the tables that a permitted statement reads."""
        by_folded_name = {name.casefold(): table for name, table in session.tables.items()}
        asked = check_permitted(session.connection, sql, set(by_folded_name))
        named = [by_folded_name[name] for name in asked]
        for table in named:
            if table.unreadable:
                raise HeadraceError(
                    "query_failed",
                    f"The table {table.name} cannot be read here: {table.unreadable}.",
                    remedy="Read it with Spark, or rewrite it.",
                )
        return {table.name for table in named}

    def _answer(self, connection: duckdb.DuckDBPyConnection, sql: str) -> QueryResult:
        connection.execute(sql)
        columns = tuple(str(column[0]) for column in connection.description or ())
        types = tuple(str(column[1]) for column in connection.description or ())
        with_zone = [kind == _WITH_ZONE for kind in types]
        if any(_WITH_ZONE in kind for kind in types):
            connection.execute(_without_zones(_without_end(connection, sql), types))
        rows = connection.fetchmany(self._most_rows + 1)
        if len(rows) > self._most_rows:
            raise HeadraceError(
                "query_failed",
                f"The answer has more than {self._most_rows} rows.",
                remedy="Add a LIMIT, narrow the WHERE, or aggregate.",
            )
        if any(with_zone):
            rows = [tuple(map(_with_zone_again, row, with_zone)) for row in rows]
        return QueryResult(columns=columns, types=types, rows=tuple(rows))

    def _failed(self, error: duckdb.Error, tables: dict[str, TableSnapshot]) -> HeadraceError:
        import duckdb  # noqa: PLC0415  see run

        if isinstance(error, duckdb.InterruptException):
            return HeadraceError(
                "query_failed",
                f"The query was stopped after {self._time_limit_seconds:g} s.",
                remedy="Narrow it, preferably by the partition columns: EVENT_TYPE and SERVER_DATE.",
            )
        if isinstance(error, duckdb.OutOfMemoryException):
            return HeadraceError(
                "query_failed",
                f"The query needs more than the {self._memory_limit} of memory allowed.",
                remedy="Narrow it, or aggregate in steps.",
            )
        if isinstance(error, duckdb.CatalogException) and not tables:
            return HeadraceError(
                "no_such_table",
                "The lake has no tables yet.",
                remedy="No event has reached the lake yet: post one to /events; /flow shows its progress.",
            )
        return HeadraceError("query_failed", str(error).strip(), remedy=_known(tables))

    def _take(self, database: LakeDatabase, tables: dict[str, TableSnapshot]) -> _Session:
        """A session that sees exactly these snapshots: an idle one, or a new one."""
        with self._lock:
            widened = self._widened
            fresh = [idle for idle in self._idle if idle.tables == tables and idle.widened == widened]
            stale = [idle for idle in self._idle if not any(idle is kept for kept in fresh)]
            session = fresh.pop() if fresh else None
            self._idle = fresh
        for old in stale:
            old.connection.close()
        if session is not None:
            return session
        connection = database.connect(tables.values(), widened=widened)
        return _Session(connection=connection, tables=tables, widened=widened)

    def _open_database(self) -> LakeDatabase:
        from headrace.query.lake_database import LakeDatabase  # noqa: PLC0415  see run

        with self._lock:
            if self._database is None:
                self._database = LakeDatabase(
                    self._lake_dir,
                    time_limit_seconds=self._time_limit_seconds,
                    memory_limit=self._memory_limit,
                    threads=self._threads,
                )
            return self._database

    def _give_back(self, session: _Session) -> None:
        with self._lock:
            keep = self._database is not None and len(self._idle) < IDLE_SESSIONS
            if keep:
                self._idle.append(session)
        if not keep:
            session.connection.close()


def _without_end(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The statement without trailing semicolons. A comment may contain one too, or follow one."""
    import duckdb  # noqa: PLC0415  see LakeQuery.run

    while ";" in sql:
        head, _, tail = sql.rpartition(";")
        try:
            ended = not connection.extract_statements(tail) and len(connection.extract_statements(head)) == 1
        except duckdb.ParserException:
            ended = False
        if not ended:
            break
        sql = head
    return sql


def _without_zones(sql: str, types: tuple[str, ...]) -> str:
    """The same query with timestamps in UTC: DuckDB's client needs a package we lack for zoned ones."""
    names = [f"c{number}" for number in range(len(types))]
    values = (
        f"CAST({name} AS {kind.replace(_WITH_ZONE, 'TIMESTAMP')})" if _WITH_ZONE in kind else name
        for name, kind in zip(names, types, strict=True)
    )
    # The line break ends a comment at the end of the statement.
    return f"SELECT {', '.join(values)} FROM ({sql}\n) AS answer({', '.join(names)})"


def _with_zone_again(value: object, zoned: bool) -> object:
    return value.replace(tzinfo=UTC) if zoned and isinstance(value, datetime) else value


def _known(tables: dict[str, TableSnapshot]) -> str:
    if not tables:
        return "The lake has no tables yet."
    described = (
        f"{table.name} ({', '.join(column.name for column in table.columns)})" for table in tables.values()
    )
    return f"Tables and their columns: {'; '.join(described)}."
