"""An in-memory DuckDB that sees the lake's tables as views, and nothing else on the machine.

How a table becomes a view: the list of its snapshot's files, with the partition columns taken from the folder
names (`EVENT_TYPE=…/SERVER_DATE=…`), which DuckDB decodes and uses for pruning. DuckDB takes the columns from
the first file in the list, so the first is a Parquet file without rows, which we write to a temporary folder
from the schema in the Delta log. This way a table without files can be queried too, and no data file is
opened just to find the columns. Older files lack columns that were added later: such a table is read with
`union_by_name`, which opens all its files.

Files in buckets have names that begin with `stored://`; the file system `bucket_files` reads them.

Invariants: DuckDB can access only the lake's folder, the temporary folder and `bucket_files`, downloads no
extensions, never takes a Python variable for a table, and its configuration is locked before the first query.
Never changes the lake.

A view may also have the tail of the table's topic: rows that are on their way to the files. Its data files
are read like those of the table, in the same scan; what of them has to be left out by offset is read apart,
and so is what is Arrow.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from headrace.lake import layout
from headrace.query.table_snapshot import STORED, Column, TableSnapshot, quoted
from headrace.query.workers.file_pruning import stand_in_column

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# DuckDB interprets patterns and partitions in paths; those must not come from the folder that the lake
# happens to be in.
_SPECIAL_IN_PATHS: Final = frozenset("*?[]{}=\\")
# A variable of the connection; see `described`.
_DESCRIBED: Final = "headrace_described"
# No table has such a column.
_FILE_COLUMN: Final = "\x01headrace file"
_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    # Memory used by a large query goes back to the system instead of being kept for the next.
    "allocator_background_threads": True,
    # Nothing is spilled to disk: a query that needs more memory than it may use fails with an error.
    "temp_directory": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """The file without rows that defines a table's columns, and the folder its files are read through."""

    like: TableSnapshot
    schema_file: str
    folder: str
    place: Path


class LakeDatabase:
    """One database for the life of a process, with one connection per concurrent query.

    `temporary` is a folder of the caller's; without it, the database makes one and deletes it.
    """

    def __init__(
        self,
        lake_dir: Path,
        *,
        memory_limit: str,
        threads: int,
        time_limit_seconds: float | None = None,
        temporary: Path | None = None,
        bucket_files: AbstractFileSystem | None = None,
    ) -> None:
        self._own = None if temporary else tempfile.TemporaryDirectory(prefix="headrace-query-")
        self._temporary = temporary or Path(self._own.name if self._own else "")
        self._lock = threading.Lock()
        self._prepared: dict[str, _Prepared] = {}
        self._prepared_count = 0
        self._is_described = False
        self._stand_ins: dict[int, tuple[tuple[Column, ...], Path]] = {}
        config = {**_SETTINGS, "memory_limit": memory_limit, "threads": threads}
        if time_limit_seconds is not None:
            config["max_execution_time"] = max(1, round(time_limit_seconds * 1000))
        self._root = duckdb.connect(config=config)
        self._root.execute("SET TimeZone = 'UTC'")
        # Files never change, and questions come back to the same ones.
        self._root.execute("SET GLOBAL parquet_metadata_cache = true")
        folders = [str(lake_dir), str(self._temporary)]
        if bucket_files is not None:
            self._root.register_filesystem(bucket_files)
            folders.append(STORED)
        reachable = ", ".join(map(_literal, folders))
        self._root.execute(f"SET allowed_directories = [{reachable}]")
        self._root.execute("SET enable_external_access = false")
        self._root.execute("SET lock_configuration = true")

    def connect(
        self, tables: Collection[TableSnapshot], *, widened: Collection[str]
    ) -> duckdb.DuckDBPyConnection:
        """A connection with a view per readable table; those in `widened` are read with `union_by_name`."""
        connection = self._root.cursor()
        try:
            for number, table in enumerate(tables):
                if not table.unreadable:
                    self.list_files(connection, table, number)
                    self.list_tail(connection, table, number)
                    self.create_view(connection, table, number, widened=table.name in widened)
        except BaseException:
            connection.close()
            raise
        return connection

    def list_files(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: TableSnapshot,
        number: int,
        *,
        kept: Collection[int] | None = None,
    ) -> None:
        """Let the view with this number read the files of this snapshot; with `kept`, only those."""
        files = self._files(connection, table)
        if kept is not None:
            files = [files[0], *(files[1 + each] for each in kept)]
        connection.execute(f"SET VARIABLE files_{number} = $1::VARCHAR[]", [files])

    def list_tail(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: TableSnapshot,
        number: int,
        *,
        files: Collection[str] = (),
        begun: Collection[str] = (),
        starts: Collection[int] = (),
    ) -> None:
        """Let the view with this number read these data files too.

        Of the rows of `begun`, only those whose offset is not below that of their partition in `starts`.
        """
        listed = [self._schema_file(connection, table), *reversed(list(files))]
        connection.execute(f"SET VARIABLE tail_files_{number} = $1::VARCHAR[]", [listed])
        if begun:
            schema_file = self._schema_file(connection, table)
            connection.execute(f"SET VARIABLE begun_{number} = $1::VARCHAR[]", [[schema_file, *begun]])
            connection.execute(f"SET VARIABLE starts_{number} = $1::BIGINT[]", [list(starts)])

    def forget_lists(self, connection: duckdb.DuckDBPyConnection, number: int) -> None:
        """Let go of the files that the view with this number, which is gone, was to read."""
        for name in ("files", "tail_files", "begun", "starts"):
            connection.execute(f"RESET VARIABLE {name}_{number}")
        if (stand_in := self._stand_ins.pop(number, None)) is not None:
            stand_in[1].unlink(missing_ok=True)

    def create_view(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: TableSnapshot,
        number: int,
        *,
        widened: bool,
        tail: str = "",
        names_in_tail: Mapping[str, str] | None = None,
        has_begun: bool = False,
        marked: bool = False,
    ) -> None:
        """The table as a view over its files and those of `list_tail`.

        `tail` is a relation with more rows, if there is one, and `names_in_tail` are those of columns with
        other names there; `has_begun` says that `list_tail` got `begun`. With `marked`, files and tail are
        read apart, and each scan of the files in a plan has the path of `definition` among its conditions.
        """
        files = self._unless_described(
            connection,
            table,
            # The newest first: a question for the latest rows then need not look at the others.
            f"list_concat(getvariable('tail_files_{number}'), getvariable('files_{number}')[2:])",
        )
        columns = ", ".join(quoted(column.name) for column in table.columns)
        rows = f"SELECT {columns} FROM {_reader(files, table, union_by_name=widened)}"
        if marked:
            rows = self._marked(connection, table, number, widened=widened)
        if has_begun:
            begun = self._unless_described(connection, table, f"getvariable('begun_{number}')")
            reader = _reader(begun, table, union_by_name=widened)
            start = f"getvariable('starts_{number}')[{layout.TOPIC_PARTITION} + 1]"
            rows = f"{rows} UNION ALL SELECT {columns} FROM {reader} WHERE {layout.TOPIC_OFFSET} >= {start}"
        if tail:
            # A cast to the type that it has costs nothing, and conditions are still passed on to the tail.
            names = names_in_tail or {}
            cast = ", ".join(
                f"CAST({quoted(names.get(column.name, column.name))} AS {column.type})"
                f" AS {quoted(column.name)}"
                for column in table.columns
            )
            rows = f"{rows} UNION ALL SELECT {cast} FROM {quoted(tail)}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(table.name)} AS {rows}")

    def create_stand_in(
        self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot, number: int
    ) -> None:
        """The view over a file without rows, whose columns have names that `file_pruning.py` can tell."""
        names = [quoted(stand_in_column(number, each)) for each in range(len(table.columns))]
        known = self._stand_ins.get(number)
        if known is None or known[0] != table.columns:
            self._prepared_count += 1
            known = table.columns, self._temporary / f"stand_in_{self._prepared_count}.parquet"
            typed = ", ".join(
                f"CAST(NULL AS {column.type}) AS {name}"
                for column, name in zip(table.columns, names, strict=True)
            )
            file = _literal(str(known[1]))
            connection.execute(f"COPY (SELECT {typed} LIMIT 0) TO {file} (FORMAT parquet)")
            self._stand_ins[number] = known
        columns = ", ".join(
            f"{name} AS {quoted(column.name)}" for column, name in zip(table.columns, names, strict=True)
        )
        # Twice: DuckDB knows what is in a single file before it plans.
        files = ", ".join([_literal(str(known[1]))] * 2)
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {quoted(table.name)} AS "
            f"SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false)"
        )

    def definition(self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot) -> str:
        """The file without rows that defines the columns of a table."""
        return self._schema_file(connection, table)

    def _marked(
        self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot, number: int, *, widened: bool
    ) -> str:
        columns = ", ".join(quoted(column.name) for column in table.columns)
        files = _reader(f"getvariable('files_{number}')", table, union_by_name=widened, with_file=True)
        tail = _reader(f"getvariable('tail_files_{number}')", table, union_by_name=widened)
        is_file = f"{quoted(_FILE_COLUMN)} <> {_literal(self.definition(connection, table))}"
        return f"SELECT {columns} FROM {files} WHERE {is_file} UNION ALL SELECT {columns} FROM {tail}"

    def forget(self, name: str) -> None:
        """Let go of what was prepared for a table."""
        with self._lock:
            prepared = self._prepared.pop(name, None)
        if prepared is not None:
            shutil.rmtree(prepared.place, ignore_errors=True)

    def close(self) -> None:
        self._root.close()
        if self._own is not None:
            self._own.cleanup()

    @contextmanager
    def described(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """While the block runs, the views have no rows: a statement can be bound without looking at files."""
        self._is_described = True
        connection.execute(f"SET VARIABLE {_DESCRIBED} = true")
        try:
            yield
        finally:
            self.show_rows(connection)

    def show_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """End `described`; once more, if whoever interrupted a question has interrupted that, too."""
        if self._is_described:
            connection.execute(f"SET VARIABLE {_DESCRIBED} = false")
            self._is_described = False

    def _unless_described(
        self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot, files: str
    ) -> str:
        schema_file = _literal(self._schema_file(connection, table))
        return f"CASE WHEN getvariable('{_DESCRIBED}') THEN [{schema_file}] ELSE {files} END"

    def _schema_file(self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot) -> str:
        return self._prepared_for(connection, table).schema_file

    def _files(self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot) -> list[str]:
        prepared = self._prepared_for(connection, table)
        original = str(table.folder)
        if table.stored is not None or prepared.folder == original:
            return [prepared.schema_file, *table.files]
        return [
            prepared.schema_file,
            *(prepared.folder + file.removeprefix(original) for file in table.files),
        ]

    def _prepared_for(self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot) -> _Prepared:
        with self._lock:
            prepared = self._prepared.get(table.name)
            if prepared is None or not same_shape(prepared.like, table):
                prepared = self._prepare(connection, table)
                self._prepared[table.name] = prepared
        return prepared

    def _prepare(self, connection: duckdb.DuckDBPyConnection, table: TableSnapshot) -> _Prepared:
        self._prepared_count += 1
        place = self._temporary / str(self._prepared_count)
        schema_folder = place.joinpath(
            "schema", *(f"{name}={_NULL_FOLDER}" for name in table.partition_columns)
        )
        schema_folder.mkdir(parents=True)
        schema_file = str(schema_folder / "no_rows.parquet")
        stored = [column for column in table.columns if column.name not in table.partition_columns]
        columns = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in stored)
        connection.execute(f"COPY (SELECT {columns} LIMIT 0) TO {_literal(schema_file)} (FORMAT parquet)")
        folder = str(table.folder)
        if table.stored is None and _SPECIAL_IN_PATHS.intersection(folder):
            (place / "table").symlink_to(table.folder, target_is_directory=True)
            folder = str(place / "table")
        return _Prepared(like=table, schema_file=schema_file, folder=folder, place=place)


def _reader(files: str, table: TableSnapshot, *, union_by_name: bool, with_file: bool = False) -> str:
    options = {"hive_partitioning": "false", "union_by_name": str(union_by_name).lower()}
    if with_file:
        options["filename"] = _literal(_FILE_COLUMN)
    if table.partition_columns:
        kinds: Mapping[str, str] = {column.name: column.type for column in table.columns}
        typed = ", ".join(f"{quoted(name)}: {_literal(kinds[name])}" for name in table.partition_columns)
        options |= {"hive_partitioning": "true", "hive_types": f"{{{typed}}}", "hive_types_autocast": "false"}
    return f"read_parquet({files}, {', '.join(f'{name} = {value}' for name, value in options.items())})"


def same_shape(one: TableSnapshot, other: TableSnapshot) -> bool:
    """Whether a view over the one can read the files of the other."""
    return (one.folder, one.columns, one.partition_columns) == (
        other.folder,
        other.columns,
        other.partition_columns,
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
