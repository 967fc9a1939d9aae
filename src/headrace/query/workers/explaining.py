"""EXPLAIN: DuckDB's plan, and what it reads of each table, from the plan itself.

The views of the tables are `marked` meanwhile (`lake_database.py`), so that each scan in a plan says whose it
is. Without ANALYZE, the plan says which files are left after the conditions on partitions; with it, which
were read, and of how many groups of rows statistics said that no row fits: DuckDB skips those, after it has
read the end of the file. Invariants: a number comes from DuckDB's plan or from the table's snapshot, never
from an estimate; ANALYZE runs the statement once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb

from headrace.query.permitted import Permitted
from headrace.query.questions import Question
from headrace.query.workers.parts import parameters_of

_FORMAT: Final = re.compile(r"\bformat\b", re.IGNORECASE)
_ANALYZE: Final = re.compile(r"\banaly[sz]e\b", re.IGNORECASE)
_SCANNED: Final = re.compile(r"(\d+)/(\d+)")
# Noise, or said elsewhere.
_UNSHOWN: Final = frozenset({"Filename(s)", "Estimated Cardinality"})

Tables = tuple[Mapping[str, object], ...]


class Explained:
    """The rows of an explanation."""

    last_part_bytes = 0

    def __init__(
        self, columns: Sequence[str], types: Sequence[str], rows: Sequence[tuple[object, ...]]
    ) -> None:
        self.columns = tuple(columns)
        self.types = tuple(types)
        self._rows = rows

    def parts(self) -> Iterator[Sequence[tuple[object, ...]]]:
        yield self._rows


class Explaining:
    """One EXPLAIN: `run_unmarked`, then, with marked views, `explained`."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, question: Question, permitted: Permitted
    ) -> None:
        self._connection = connection
        self._question = question
        # Rollups may have changed what is explained.
        head = permitted.explain
        is_changed = not question.sql.rstrip().rstrip(";").endswith(permitted.text.rstrip().rstrip(";"))
        self._text = question.sql.removeprefix(head) if is_changed else permitted.text
        self._runs = _ANALYZE.search(permitted.explain) is not None
        self._has_format = _FORMAT.search(permitted.explain) is not None
        self._rows: list[tuple[object, ...]] = []

    def run_unmarked(self) -> None:
        """What DuckDB says itself, unless that is made of the plan that `explained` runs."""
        if not self._runs or self._has_format:
            self._rows = self._fetched(self._question.sql)

    def explained(self, read: Callable[[], Tables], paths: Sequence[str]) -> tuple[Explained, Tables]:
        """The explanation, and what `read` says with the scans of tables of the lake: those come first, and
        `paths` are their definitions.
        """
        how = "ANALYZE, FORMAT json" if self._runs and not self._has_format else "FORMAT json"
        plan = self._fetched(f"EXPLAIN ({how}) {self._text}")[0][1]
        tree = json.loads(str(plan))
        nodes = list(_nodes(tree))
        sources = read()
        tables = [
            # What a rollup reads of a table is not read through the view of the table.
            dict(table) if "rollups" in table else {**table, "scans": _scans(nodes, path, _listed(table))}
            for table, path in zip(sources, paths, strict=False)
        ]
        found: Tables = (*tables, *sources[len(paths) :])
        if self._runs and not self._has_format:
            self._rows = [("analyzed_plan", _readable(tree, paths))]
        rows = [
            *self._rows,
            ("read", "\n".join(line for table in found for line in _in_words(table)) or "no table"),
            ("tables", json.dumps(found)),
        ]
        return Explained(("explain_key", "explain_value"), ("VARCHAR", "VARCHAR"), rows), found

    def _fetched(self, sql: str) -> list[tuple[object, ...]]:
        self._connection.execute(sql, parameters_of(self._question))
        return self._connection.fetchall()


def _nodes(tree: Any, depth: int = 0) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The operators of a plan, with their depths, from its root on. Plans may be deep."""
    roots = tree if isinstance(tree, list) else tree.get("operator", [])
    pending = [(depth, node) for node in reversed(roots)]
    while pending:
        level, node = pending.pop()
        yield level, node
        pending.extend((level + 1, child) for child in reversed(node.get("children", [])))


def _listed(table: Mapping[str, object]) -> int:
    """How many files DuckDB gets to see."""
    files, skipped = table.get("files"), table.get("files_skipped_by_log", 0)
    return files - skipped if isinstance(files, int) and isinstance(skipped, int) else 0


def _scans(nodes: Sequence[tuple[int, Mapping[str, Any]]], path: str, files: int) -> list[dict[str, object]]:
    has_limit = any("LIMIT" in str(node.get("type", "")) for _, node in nodes)
    scans: list[dict[str, object]] = []
    for _, node in nodes:
        info = node.get("extra_info") or {}
        conditions = str(info.get("File Filters", ""))
        # As DuckDB writes a text in a condition.
        if path.replace("'", "''") not in conditions:
            continue
        match = _SCANNED.fullmatch(str(info.get("Scanning Files", "")))
        left = int(match[1]) if match is not None else files
        scan: dict[str, object] = {"files": files, "files_skipped_by_partition": files - left}
        read = str(info.get("Total Files Read", ""))
        if read.isdigit():
            scan["files_read"] = int(read)
            # By a condition that was only known then (a join), or because a LIMIT was reached.
            scan["files_skipped_while_running"] = left - int(read)
        else:
            scan["files_to_read"] = left
        groups = node.get("total_row_groups_to_scan")
        if isinstance(groups, int):
            scanned = int(node.get("row_groups_scanned", 0))
            # A LIMIT that is reached leaves groups out, too, and DuckDB does not say which it was.
            skipped = "row_groups_skipped" if has_limit else "row_groups_skipped_by_statistics"
            scan |= {"row_groups_read": scanned, skipped: groups - scanned}
        if "Filters" in info:
            scan["filters"] = info["Filters"]
        scans.append(scan)
    return scans


def _in_words(table: Mapping[str, Any]) -> Iterator[str]:
    if "rollups" in table:
        yield f"{table['table']} at version {table['version']}:"
        for rollup in table["rollups"]:
            yield (
                f"  rollup {rollup['rollup']} at version {rollup['version']}: "
                f"{_counted(rollup['groups'], 'group')} in {_counted(rollup['files'], 'file')}, "
                f"and {_counted(rollup['recent_files'], 'file')} of the table that came since"
            )
        yield from _tail_in_words(table)
        return
    if "scans" not in table:
        kind = "statement_table" if "statement_table" in table else "topic"
        yield f"{kind.replace('_', ' ')} {table[kind]}: {_counted(table['records'], 'record')} read"
        return
    yield f"{table['table']} at version {table['version']}, {_counted(int(table['files']), 'file')}:"
    if table.get("files_skipped_by_log"):
        yield f"  {_counted(table['files_skipped_by_log'], 'file')} skipped by what the log says of them"
    for scan in table["scans"]:
        words = [f"{_counted(scan['files_skipped_by_partition'], 'file')} skipped by partition"]
        if "files_read" in scan:
            words.append(f"{_counted(scan['files_skipped_while_running'], 'file')} skipped while running")
            words.append(f"{_counted(scan['files_read'], 'file')} read")
        else:
            words.append(f"{_counted(scan['files_to_read'], 'file')} to read")
        if "row_groups_read" in scan:
            by_statistics = scan.get("row_groups_skipped_by_statistics")
            why = " by statistics" if by_statistics is not None else " by statistics or LIMIT"
            skipped = scan["row_groups_skipped"] if by_statistics is None else by_statistics
            words.append(
                f"{_counted(skipped, 'row group')} skipped{why}, "
                f"{_counted(scan['row_groups_read'], 'row group')} read"
            )
        yield f"  {', '.join(words)}"
    if not table["scans"]:
        yield "  no file is read"
    yield from _tail_in_words(table)


def _tail_in_words(table: Mapping[str, Any]) -> Iterator[str]:
    if "tail_rows" in table:
        behind = f", {table['behind']} records behind: {table['reason']}" if table.get("behind") else ""
        places = _places(table["positions"])
        yield f"  tail: {_counted(table['tail_rows'], 'row')} from positions {places}{behind}"


def _places(positions: Mapping[str, int]) -> str:
    return ", ".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items())) or "none"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _readable(tree: Mapping[str, Any], paths: Sequence[str]) -> str:
    """A plan that was run: a line for an operator, and its details below."""
    lines = []
    for depth, node in _nodes(tree):
        if node.get("type") in ("EXPLAIN_ANALYZE", "RESULT_COLLECTOR"):
            continue
        indent = "  " * max(0, depth - 2)
        seconds = float(node.get("timing", 0.0))
        lines.append(
            f"{indent}{node.get('type', '')}: {_counted(node.get('intermediate_rows', 0), 'row')}, "
            f"{seconds * 1000:.3f} ms"
        )
        for key, value in (node.get("extra_info") or {}).items():
            if key not in _UNSHOWN:
                lines.append(f"{indent}    {key}: {_without_marks(value, paths)}")
        if "total_row_groups_to_scan" in node:
            lines.append(
                f"{indent}    Row Groups Scanned: "
                f"{node.get('row_groups_scanned', 0)}/{node['total_row_groups_to_scan']}"
            )
    return "\n".join(lines)


def _without_marks(value: Any, paths: Sequence[str]) -> str:
    texts = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    for path in paths:
        mark = re.compile(rf"\s*(AND )?\(?\"?\x01headrace file\"? != '{re.escape(path)}'\)?( AND )?")
        texts = [mark.sub("", text) for text in texts]
    return ", ".join(text for text in texts if text) or "none"
