"""PostgreSQL's JDBC driver (pgjdbc) in a JVM of the tests' own, through py4j.

DBeaver and Metabase are built on this driver. A test calls it as a Java program would, and gets values that
Python can compare: what py4j does not convert comes as Java prints it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from headrace.core import settings
from headrace.java.artifacts import Artifacts
from headrace.java.pinned import parse_pinned_list
from headrace.java.runtime import JavaRuntime
from tests.conformance.java_tools import JavaTools

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A result set that was read to its end. `types` are PostgreSQL's names, as the driver tells them."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[Row]

    def of(self, *columns: str) -> list[Row]:
        """The values of these columns."""
        places = [self.columns.index(column) for column in columns]
        return [tuple(row[place] for place in places) for row in self.rows]


class Jdbc:
    """The driver in its JVM."""

    def __init__(self, java: JavaRuntime) -> None:
        self._tools = JavaTools(java, _jars())
        # The driver registers itself once its class is loaded.
        self.jvm.java.lang.Class.forName("org.postgresql.Driver")

    @property
    def jvm(self) -> Any:
        return self._tools.jvm

    def close(self) -> None:
        self._tools.close()

    def strings(self, *values: str) -> Any:
        return self._tools.strings(values)

    @contextmanager
    def connection(self, host: str, port: int, **properties: str) -> Iterator[Any]:
        """A `java.sql.Connection`, closed at the end of the block."""
        given = self.jvm.java.util.Properties()
        for name, value in {"user": "tester", "sslmode": "disable", **properties}.items():
            given.setProperty(name, value)
        url = f"jdbc:postgresql://{host}:{port}/headrace"
        opened = self.jvm.java.sql.DriverManager.getConnection(url, given)
        try:
            yield opened
        finally:
            opened.close()


def ask(connection: Any, sql: str, *values: object) -> Rows:
    """The rows of a prepared statement with these parameters."""
    statement = connection.prepareStatement(sql)
    try:
        for number, value in enumerate(values, start=1):
            statement.setObject(number, value)
        return read(statement.executeQuery())
    finally:
        statement.close()


def read(results: Any) -> Rows:
    """All rows that are left, and what the driver says of the columns."""
    shape = results.getMetaData()
    numbers = range(1, shape.getColumnCount() + 1)
    types = tuple(shape.getColumnTypeName(number) for number in numbers)
    rows = []
    while results.next():
        rows.append(
            tuple(
                as_python(results.getObject(number), kind)
                for number, kind in zip(numbers, types, strict=True)
            )
        )
    columns = tuple(shape.getColumnLabel(number) for number in numbers)
    return Rows(columns=columns, types=types, rows=rows)


def as_python(value: Any, kind: str) -> Any:
    """The elements of an array; of any other object of Java's, what it prints; a moment in UTC."""
    if not isinstance(value, JavaObject):
        return value
    if kind.startswith("_"):
        return [as_python(element, kind[1:]) for element in value.getArray()]
    # A timestamp prints itself in the zone of its machine.
    return (value.toInstant() if kind == "timestamptz" else value).toString()


def sql_state(error: Py4JJavaError) -> str:
    return str(error.java_exception.getSQLState())


def _jars() -> Sequence[Path]:
    cache = settings.load({}, environ=os.environ, folder=Path("/")).cache_dir
    pinned = parse_pinned_list(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return Artifacts(cache, pinned).jars("pgjdbc")
