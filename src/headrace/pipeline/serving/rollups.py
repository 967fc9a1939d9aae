"""CREATE ROLLUP, DROP ROLLUP, SHOW ROLLUPS: a query over a table of the lake as what a rollup keeps.

The gateway checks the statement against the table as it is, and writes the wish into the log; the pipeline
process makes the rollup and keeps it (`assembly/rollup_keeping.py`). The log is followed from the first of
these statements on. Never touches a rollup itself.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LOG_FOLDER, DeltaLog
from headrace.lake.delta_schema import struct_of
from headrace.lake.rollups.definition import (
    Bucket,
    Dimension,
    RollupDefinition,
    bucket_of_unit,
    defined,
    width_of,
)
from headrace.lake.table_state import TableState
from headrace.pipeline.catalogue.rollups import RollupLog, RollupWish
from headrace.pipeline.serving.entities import SUCCESS, Entity, entity, warning
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import (
    ColumnReference,
    Expression,
    FunctionCall,
    StringLiteral,
)
from headrace.pipeline.statements.queries import Select, SelectExpression
from headrace.pipeline.statements.tree import CreateRollup, DropRollup

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TRUNCATING: Final = "DATE_TRUNC"
_BUCKETING: Final = "TIME_BUCKET"
_FORM: Final = (
    "Write CREATE ROLLUP name AS SELECT date_trunc('hour', time), column, count(*), sum(other) FROM table "
    "GROUP BY date_trunc('hour', time), column."
)
_CLAUSES: Final = ("joins", "window", "where", "partition_by", "having", "emit", "limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a query asks for, by the names in it."""

    dimensions: tuple[Dimension, ...]
    measures: tuple[tuple[str, str], ...]


class RollupStatements:
    """`make_log` makes the log of rollups, which is not started yet. Safe for several threads."""

    def __init__(self, lake_dir: Path, make_log: Callable[[], RollupLog]) -> None:
        self._lake_dir = lake_dir
        self._make_log = make_log
        self._log: RollupLog | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.stop()

    def create(self, statement: CreateRollup, text: str) -> Entity:
        """Raises StatementError, HeadraceError."""
        log = self._started()
        with self._lock:
            log.refresh()
            existing = _named(log, statement.name)
            if existing is not None and statement.if_not_exists:
                return warning(text, f"Rollup {existing.definition.name} exists already.")
            if existing is not None and not statement.or_replace:
                raise StatementError(
                    f"A rollup {existing.definition.name} exists already.",
                    statement.at,
                    remedy="Choose another name, or use CREATE OR REPLACE ROLLUP.",
                )
            definition = self._defined(statement)
            if existing is not None and existing.definition.name != definition.name:
                log.remove(existing.definition.name)
            log.put(RollupWish(definition=definition, statement=text))
        return _done(text, definition.name, "create", "Rollup created")

    def drop(self, statement: DropRollup, text: str) -> Entity:
        """Raises StatementError, HeadraceError."""
        log = self._started()
        with self._lock:
            log.refresh()
            existing = _named(log, statement.name)
            if existing is not None:
                log.remove(existing.definition.name)
                return _done(text, existing.definition.name, "drop", "Rollup dropped")
        if statement.if_exists:
            return warning(text, f"There is no rollup {statement.name}.")
        raise StatementError(
            f"There is no rollup {statement.name}.", statement.at, remedy="SHOW ROLLUPS lists them."
        )

    def show(self, text: str) -> Entity:
        """Raises HeadraceError."""
        log = self._started()
        log.refresh()
        return entity("rollups", text, rollups=[self._shown(log, wish) for wish in log.wishes().values()])

    def _started(self) -> RollupLog:
        with self._lock:
            if self._log is None:
                log = self._make_log()
                log.start()
                self._log = log
            return self._log

    @staticmethod
    def _shown(log: RollupLog, wish: RollupWish) -> dict[str, Any]:
        status = log.status(wish.definition.id)
        return {
            "name": wish.definition.name,
            "table": wish.definition.table,
            "state": status.state,
            "message": status.message,
            "version": status.version,
            "groups": status.groups,
            "statement": wish.statement,
        }

    def _defined(self, statement: CreateRollup) -> RollupDefinition:
        if not _NAME.fullmatch(statement.name):
            raise StatementError(
                f"`{statement.name[:100]}` cannot be the name of a rollup.",
                statement.at,
                remedy="Use up to 64 letters, digits and underscores.",
            )
        wanted = _wanted(statement.query)
        table = self._table(statement.query.source.name)
        try:
            state = TableState(DeltaLog(self._lake_dir / table))
        except (OSError, ValueError) as error:
            raise HeadraceError(
                "lake_damaged",
                f"Table {table} cannot be read: {error}.",
                remedy=f"Run `headrace lake repair {table}`.",
            ) from error
        if state.unsupported:
            raise HeadraceError(
                "lake_unsupported", f"Table {table} cannot have rollups: {state.unsupported}."
            )
        return defined(
            rollup_id=uuid.uuid4().hex,
            name=statement.name,
            table=table,
            dimensions=wanted.dimensions,
            measures=wanted.measures,
            columns=struct_of(state.metadata["schemaString"], table=table),
            partition_columns=state.partition_columns,
        )

    def _table(self, name: str) -> str:
        """The table of this name, which SQL may write in another case."""
        try:
            found = sorted(child.name for child in self._lake_dir.iterdir() if (child / LOG_FOLDER).is_dir())
        except OSError:
            found = []
        if name in found:
            return name
        for each in found:
            if each.casefold() == name.casefold():
                return each
        raise HeadraceError(
            "no_such_table",
            f"There is no table {name} in the lake of this machine.",
            remedy=f"There are {', '.join(found)}." if found else "The lake has no tables yet.",
        )


def _wanted(query: Select) -> _Wanted:
    """Raises StatementError for what no rollup has."""
    for clause in _CLAUSES:
        if getattr(query, clause):
            raise StatementError(
                f"A rollup has no {clause.replace('_', ' ').upper()}.", query.at, remedy=_FORM
            )
    grouped = {_dimension(each): None for each in query.group_by}
    measures: list[tuple[str, str]] = []
    for item in query.items:
        if not isinstance(item, SelectExpression):
            raise StatementError("A rollup names its columns, without `*`.", item.at, remedy=_FORM)
        measure = _measure(item.expression)
        if measure is not None:
            measures += [measure] if measure[1] else []
        elif _dimension(item.expression) not in grouped:
            raise StatementError("What is selected must stand in GROUP BY, too.", item.at, remedy=_FORM)
    return _Wanted(dimensions=tuple(grouped), measures=tuple(measures))


def _dimension(expression: Expression) -> Dimension:
    match expression:
        case ColumnReference(name=name):
            return Dimension(column=name)
        case FunctionCall(name=function, arguments=(StringLiteral(value=value), ColumnReference(name=name))):
            bucket = _bucket(function, value)
            if bucket is not None:
                return Dimension(column=name, bucket=bucket)
    raise StatementError(
        "A rollup is grouped by columns, date_trunc('hour', column) or time_bucket('15 minutes', column).",
        expression.at,
        remedy=_FORM,
    )


def _bucket(function: str, value: str) -> Bucket | None:
    if function == _TRUNCATING:
        return bucket_of_unit(value)
    width = width_of(value) if function == _BUCKETING else None
    return None if width is None else Bucket(width_us=width)


def _measure(expression: Expression) -> tuple[str, str] | None:
    """The function and its column, which is empty for `count(*)`; None if it is a dimension."""
    match expression:
        case FunctionCall(name="COUNT", star=True):
            return "count", ""
        case FunctionCall(name=name, arguments=(ColumnReference(name=column),)):
            return name.lower(), column
        case _:
            return None


def _named(log: RollupLog, name: str) -> RollupWish | None:
    return next((each for known, each in log.wishes().items() if known.casefold() == name.casefold()), None)


def _done(text: str, name: str, action: str, message: str) -> Entity:
    return entity(
        "currentStatus",
        text,
        commandId=f"rollup/`{name}`/{action}",
        commandStatus={"status": SUCCESS, "message": message, "queryId": None},
        commandSequenceNumber=-1,
    )
