"""What a worker does for questions that Spark answers: before, the translation; after, reading the files.

Invariants: a statement is bound by DuckDB first, so that names, types and errors are DuckDB's; an answer that
Spark has stored has exactly those columns and types again. Never talks to Spark.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.questions import Question, StoredAnswer
from headrace.query.table_snapshot import TableSnapshot, quoted
from headrace.query.workers.parts import Shape

# A record of the log has a megabyte.
_LONGEST: Final = 200_000


def translated(
    question: Question,
    shape: Shape,
    snapshots: Mapping[str, TableSnapshot],
    tables: Iterable[Mapping[str, object]],
) -> bytes:
    """Spark's statement and what belongs to it, as JSON. Raises HeadraceError."""
    # It takes a quarter of a second to import.
    from headrace.query.spark.translating import translate  # noqa: PLC0415

    columns = {
        name: {column.name: column.type for column in table.columns} for name, table in snapshots.items()
    }
    sql = translate(question.sql, question.parameters, columns, shape.types)
    if len(sql) > _LONGEST:
        raise HeadraceError(
            "query_failed",
            f"The statement for Spark is longer than {_LONGEST} characters.",
            remedy="Shorten it, or leave `engine` out: then DuckDB answers.",
        )
    content = {
        "sql": sql,
        "columns": list(shape.columns),
        "types": list(shape.types),
        "locations": [
            {
                "name": name.casefold(),
                "location": str(table.folder),
                "table_id": table.table_id,
                "version": table.version,
            }
            for name, table in snapshots.items()
        ],
        "tables": [{**table, "engine": "spark", "freshness": "lake"} for table in tables],
    }
    return json.dumps(content).encode()


def reading(stored: StoredAnswer, folder: Path) -> str:
    """The statement that reads an answer; its files are below `folder` afterwards, where DuckDB may read."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files: list[str] = []
    for number, source in enumerate(stored.files):
        file = folder / f"{number}.parquet"
        try:
            os.link(source, file)
        except FileNotFoundError as error:
            raise HeadraceError(
                "query_unavailable",
                "The answer is gone: the pipeline process was restarted.",
                remedy="Ask again.",
            ) from error
        except OSError:
            # Another file system.
            shutil.copyfile(source, file)
        files.append(str(file))
    shown = ", ".join(
        f"{f'CAST(c{number} AS {kind})' if kind != _NO_TYPE else 'NULL'} AS {quoted(name)}"
        for number, (name, kind) in enumerate(zip(stored.columns, stored.types, strict=True))
    )
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    return f"SELECT {shown} FROM read_parquet([{listed}], hive_partitioning = false)"


_NO_TYPE: Final = '"NULL"'
