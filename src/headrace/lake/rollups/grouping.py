"""Groups rows into those of a rollup, with DuckDB: of data files of the table, and of files of the rollup.

Reads data files as questions do (`query/lake_database.py`): partition columns from the names of folders,
columns that older files lack as null. Groups carry the partition that their rows come from. Takes one core
and a limited amount of memory, and spills to the disk beyond it. Writes one Parquet file at a time, which
belongs to nobody until it is committed. Belongs to one thread.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import duckdb

from headrace.lake.rollups.definition import ROWS, RollupDefinition, duckdb_type, quoted
from headrace.lake.rollups.stored import NewFile
from headrace.lake.table_state import PartitionValues
from headrace.lake.types import Type

_MEMORY: Final = "256MiB"
# What DuckDB takes for patterns and partitions in paths.
_SPECIAL: Final = frozenset("*?[]{}=\\")
_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


class Grouping:
    """`table` is the folder of the table. Close it."""

    def __init__(self, definition: RollupDefinition, table: Path) -> None:
        self._definition = definition
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-rollup-")
        place = Path(self._temporary.name)
        self._database = duckdb.connect(
            config={
                "memory_limit": _MEMORY,
                "threads": 1,
                "temp_directory": str(place / "spilled"),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "preserve_insertion_order": False,
            }
        )
        self._database.execute("SET TimeZone = 'UTC'")
        self._table = table
        if _SPECIAL.intersection(str(table)):
            self._table = place / "table"
            self._table.symlink_to(table, target_is_directory=True)
        self._no_rows = self._write_no_rows(place)

    def close(self) -> None:
        self._database.close()
        self._temporary.cleanup()

    def write(
        self,
        folder: Path,
        *,
        data_files: Sequence[str],
        rollup_files: Sequence[str] = (),
        without: Collection[PartitionValues] = (),
    ) -> NewFile | None:
        """Groups of the rows in the data files, which are named as in the log, and of those in files of the
        rollup, except what comes from partitions in `without`. None if there are none.

        Raises duckdb.Error, also if a file is not there.
        """
        parts = []
        if data_files:
            parts.append(f"SELECT {self._select('part')} FROM {self._data_files()} GROUP BY {self._keys()}")
        if rollup_files:
            columns = ", ".join(each.name for each in self._definition.columns)
            kept = f"SELECT {columns} FROM read_parquet(getvariable('rollup_files')){self._where(without)}"
            parts.append(f"SELECT {self._select('whole')} FROM ({kept}) GROUP BY ALL")
        if not parts:
            return None
        rows = " UNION ALL ".join(parts)
        if len(parts) > 1:
            rows = f"SELECT {self._select('whole')} FROM ({rows}) GROUP BY ALL"
        self._set("data_files", [str(self._no_rows), *(str(self._table / name) for name in data_files)])
        self._set("rollup_files", list(rollup_files))
        name = f"part-{uuid.uuid4()}.zstd.parquet"
        path = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        order = ", ".join(each.name for each in self._definition.dimension_columns) or "1"
        try:
            written = self._database.execute(
                f"COPY (SELECT * FROM ({rows}) ORDER BY {order}) TO {_literal(str(path))} "
                "(FORMAT parquet, COMPRESSION zstd)"
            ).fetchall()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        count = int(written[0][0])
        if not count:
            path.unlink()
            return None
        return NewFile(name=name, size=path.stat().st_size, rows=count)

    def total(self, rollup_files: Sequence[str]) -> int:
        """How many rows of the table these files of the rollup stand for."""
        if not rollup_files:
            return 0
        self._set("rollup_files", rollup_files)
        rows = self._database.execute(
            f"SELECT CAST(sum({ROWS}) AS BIGINT) FROM read_parquet(getvariable('rollup_files'))"
        ).fetchall()
        return int(rows[0][0] or 0)

    def _select(self, level: str) -> str:
        """For groups of rows of the table (`part`), or of the rollup (`whole`)."""
        found = []
        for each in self._definition.columns:
            made = each.part if level == "part" else each.whole
            key = each.row if level == "part" else each.name
            found.append(f"CAST({made or key} AS {duckdb_type(each.type)}) AS {each.name}")
        return ", ".join(found)

    def _keys(self) -> str:
        """By number: a column of the table may have the name of one of the rollup."""
        numbers = [number for number, each in enumerate(self._definition.columns, 1) if not each.part]
        return ", ".join(map(str, numbers)) or "ALL"

    def _data_files(self) -> str:
        options = {"union_by_name": "true", "hive_partitioning": "false"}
        if self._definition.partition_columns:
            typed = ", ".join(
                f"{quoted(name)}: {_literal(duckdb_type(self._definition.type_of(name)))}"
                for name in self._definition.partition_columns
            )
            options |= {
                "hive_partitioning": "true",
                "hive_types": f"{{{typed}}}",
                "hive_types_autocast": "false",
            }
        settings = ", ".join(f"{name} = {value}" for name, value in options.items())
        return f"read_parquet(getvariable('data_files'), {settings})"

    def _where(self, without: Collection[PartitionValues]) -> str:
        if not without:
            return ""
        names = self._definition.partition_columns
        if not names:
            return " WHERE false"
        partitions = (
            " AND ".join(
                _is_value(f"P{number}", dict(partition).get(name), self._definition.type_of(name))
                for number, name in enumerate(names)
            )
            for partition in without
        )
        return f" WHERE NOT ({' OR '.join(f'({each})' for each in partitions)})"

    def _write_no_rows(self, place: Path) -> Path:
        """A file without rows that has all columns: data files may lack some."""
        names = self._definition.partition_columns
        folder = place.joinpath("schema", *(f"{name}={_NULL_FOLDER}" for name in names))
        folder.mkdir(parents=True)
        path = folder / "no_rows.parquet"
        columns = ", ".join(
            f"CAST(NULL AS {duckdb_type(each.type)}) AS {quoted(each.name)}"
            for each in self._definition.types
            if each.name not in names
        )
        self._database.execute(
            f"COPY (SELECT {columns or '1 AS nothing'} LIMIT 0) TO {_literal(str(path))} (FORMAT parquet)"
        )
        return path

    def _set(self, name: str, values: Sequence[str]) -> None:
        self._database.execute(f"SET VARIABLE {name} = $1::VARCHAR[]", [list(values)])


def _is_value(column: str, value: str | None, kind: Type) -> str:
    if value is not None:
        return f"{column} IS NOT DISTINCT FROM CAST({_literal(value)} AS {duckdb_type(kind)})"
    # An empty text is null in the log; some writers name a folder after it, and it is read as such.
    return f"({column} IS NULL OR CAST({column} AS VARCHAR) = '')"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
