"""Which files of tables in buckets a question needs, by what their logs say of the columns.

DuckDB leaves out files by the values of their partitions, and parts of files by what their ends say, but it
has to read the ends of all others: each a request to the bucket. So the question is planned once over
stand-ins, empty files whose columns have names of our own, and DuckDB says in the plan which conditions hold
for the rows of each scan. A file goes if no row within the log's bounds can fulfil them.

Invariants: a file goes only if every scan of its table has a condition that rules it out, and only by
conditions that are understood completely; anything else keeps all files. So does a plan with fewer scans of a
table than the statement has references to it: DuckDB may have answered a part from the stand-in. Conditions
are compared by DuckDB, with the types of the columns. The plan has to be made in the transaction of the
question, where `now()` is the same. Never opens a file of a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.ipc

from headrace.query.buckets.statistics import LARGEST, SMALLEST
from headrace.query.table_snapshot import Column, TableSnapshot, quoted

_STAND_IN: Final = re.compile(r"t(\d+)_c(\d+)")
_OPTIONAL: Final = "optional: "
# Found only while the question runs.
_DYNAMIC: Final = "Dynamic Filter"
# A scan of a stand-in may ask for nothing else.
_VIRTUAL: Final = frozenset({"file_index", "file_row_number", "filename", "rowid"})
_MOST_VALUES: Final = 1000
_COMPARISONS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_LITERALS: Final = frozenset({"INTEGER", "NUMERIC"})
_CAST_TYPES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})


def stand_in_column(table: int, column: int) -> str:
    """The name of a column in the stand-in of a table."""
    return f"t{table}_c{column}"


def conditions_in(plan: str) -> dict[int, list[list[str]]]:
    """The conditions of each scan of the stand-ins, from DuckDB's plan as JSON.

    Of a table that is missing, the plan says nothing.
    """
    scans: dict[int, list[list[str]]] = {}
    for node in _nodes(json.loads(plan)):
        if node["name"] != "READ_PARQUET":
            continue
        info = node["extra_info"]
        conditions, projections = _texts(info.get("Filters")), _texts(info.get("Projections"))
        found = {int(match[1]) for text in (*conditions, *projections) for match in _STAND_IN.finditer(text)}
        if not found and projections and not _VIRTUAL.intersection(projections):
            # A table of the lake's folder: its columns have other names.
            continue
        if len(found) != 1:
            # It can be any of them.
            return {}
        scans.setdefault(found.pop(), []).append(conditions)
    return scans


def references_to(connection: duckdb.DuckDBPyConnection, sql: str, name: str) -> int:
    """How often a statement names a table."""
    rows = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
    pending: list[Any] = [json.loads(rows[0][0])]
    number = 0
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("type") == "BASE_TABLE":
                number += str(part["qualified_name"]["path"][-1]).casefold() == name.casefold()
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return number


def kept_files(
    connection: duckdb.DuckDBPyConnection, table: TableSnapshot, scans: Sequence[Sequence[str]]
) -> list[int] | None:
    """The numbers of the files that have to be read; None for all."""
    if table.stored is None or not table.stored.statistics or not scans:
        return None
    bounds = pa.ipc.open_stream(table.stored.statistics).read_all()
    needed: list[str] = []
    for scan in scans:
        possible = _all_possible(connection, scan, table.columns, set(bounds.column_names))
        if possible is None:
            return None
        needed.append(possible)
    name = "statistics of files"
    connection.register(name, bounds)
    try:
        rows = connection.execute(
            f'SELECT "file" FROM {quoted(name)} WHERE {" OR ".join(needed)} ORDER BY "file"'
        ).fetchall()
    finally:
        connection.unregister(name)
    return [int(row[0]) for row in rows]


def _all_possible(
    connection: duckdb.DuckDBPyConnection,
    conditions: Sequence[str],
    columns: Sequence[Column],
    known: set[str],
) -> str | None:
    """Whether a file can have a row that fulfils these conditions, as SQL over the bounds; None if always."""
    found: list[str] = []
    for text in conditions:
        condition = text.removeprefix(_OPTIONAL)
        if condition.startswith(_DYNAMIC):
            continue
        tree = _parsed(connection, condition)
        if tree is None:
            # A line break in a value divides a condition in two: then none of them can be relied on.
            return None
        possible = _possible(tree, columns, known)
        if possible is not None:
            found.append(possible)
    return f"({' AND '.join(found)})" if found else None


def _possible(tree: Mapping[str, Any], columns: Sequence[Column], known: set[str]) -> str | None:
    """Whether the condition can be true within the bounds; None if it may always be."""
    kind, kind_of = tree.get("type"), tree.get("class")
    if kind_of == "CONJUNCTION":
        each = [_possible(child, columns, known) for child in tree["children"]]
        understood = [one for one in each if one is not None]
        if kind == "CONJUNCTION_AND":
            return f"({' AND '.join(understood)})" if understood else None
        return f"({' OR '.join(understood)})" if len(understood) == len(each) else None
    if kind_of == "COMPARISON" and kind in _COMPARISONS:
        sign = _COMPARISONS[kind]
        # DuckDB has the column on the left, however it was written.
        left, right = _bounds(tree["left"], columns, known), _constant(tree["right"])
        return None if left is None or right is None else _compared(left, sign, right)
    if kind == "COMPARE_IN" and kind_of == "OPERATOR":
        return _one_of(tree["children"], columns, known)
    return None


def _one_of(children: Sequence[Mapping[str, Any]], columns: Sequence[Column], known: set[str]) -> str | None:
    within = _bounds(children[0], columns, known)
    constants = [_constant(value) for value in children[1:]]
    understood = [constant for constant in constants if constant is not None]
    if within is None or len(understood) < len(constants) or len(constants) > _MOST_VALUES:
        return None
    return f"({' OR '.join(_compared(within, '=', constant) for constant in understood)})"


def _compared(bounds: tuple[str, str], sign: str, constant: str) -> str:
    """Unknown bounds admit everything."""
    smallest, largest = bounds
    if sign in ("<", "<="):
        return f"coalesce({smallest} {sign} {constant}, true)"
    if sign in (">", ">="):
        return f"coalesce({largest} {sign} {constant}, true)"
    return f"(coalesce({smallest} <= {constant}, true) AND coalesce({largest} >= {constant}, true))"


def _bounds(tree: Mapping[str, Any], columns: Sequence[Column], known: set[str]) -> tuple[str, str] | None:
    """The bounds of a column, in its type."""
    names = tree.get("column_names", ())
    match = _STAND_IN.fullmatch(names[0]) if tree.get("class") == "COLUMN_REF" and len(names) == 1 else None
    if match is None:
        return None
    number = int(match[2])
    if f"{SMALLEST}{number}" not in known:
        return None
    kind = columns[number].type
    smallest = f"TRY_CAST({quoted(f'{SMALLEST}{number}')} AS {kind})"
    largest = f"TRY_CAST({quoted(f'{LARGEST}{number}')} AS {kind})"
    if kind.startswith("TIMESTAMP"):
        # The log has whole milliseconds.
        largest = f"({largest} + INTERVAL 1 MILLISECOND)"
    return smallest, largest


def _constant(tree: Mapping[str, Any]) -> str | None:
    if tree.get("class") == "CAST" and tree.get("type") == "OPERATOR_CAST":
        kind = (tree.get("type_expr") or {}).get("type_name")
        inner = _constant(tree["child"])
        return f"CAST({inner} AS {kind})" if inner is not None and kind in _CAST_TYPES else None
    if tree.get("class") != "CONSTANT":
        return None
    literal = tree.get("literal") or {}
    text = str(literal.get("text", ""))
    if literal.get("kind") == "STRING":
        return "'" + text.replace("'", "''") + "'"
    return text if literal.get("kind") in _LITERALS else None


def _parsed(connection: duckdb.DuckDBPyConnection, condition: str) -> dict[str, Any] | None:
    """DuckDB's tree of a condition."""
    try:
        rows = connection.execute(
            "SELECT json_serialize_sql($1::VARCHAR)", [f"SELECT {condition}"]
        ).fetchall()
        tree = json.loads(rows[0][0])
    except (duckdb.Error, ValueError, RecursionError):
        return None
    if tree.get("error") or len(tree["statements"]) != 1:
        return None
    node = tree["statements"][0]["node"]
    if node.get("type") != "SELECT_NODE" or len(node["select_list"]) != 1:
        return None
    found: dict[str, Any] = node["select_list"][0]
    return found


def _nodes(plan: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    pending = list(plan)
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.get("children", ()))


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    return [str(each) for each in value] if isinstance(value, list) else []
