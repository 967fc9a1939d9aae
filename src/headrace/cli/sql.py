"""`headrace sql`: asks a question and prints the answer as a table, a chart, JSON or CSV.

The query process of the running platform answers; without one, workers of this command read the lake's files,
with the same limits. Invariant: JSON and CSV contain nothing but the answer, with each value as exact as the
format allows. Never starts Spark.
"""

from __future__ import annotations

import base64
import csv
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Final
from uuid import UUID

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.sql_asking import ask, running_query_process
from headrace.cli.sql_chart import chart
from headrace.cli.sql_progress import Progress
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.query.sql import LakeQuery, QueryResult


def answer(
    settings: Settings, statement: str, *, output: str, engine: str = "", after: Sequence[str] = ()
) -> None:
    """Print the answer to one statement."""
    show = FORMATS.get(output)
    if show is None:
        raise HeadraceError(
            "bad_request",
            f"There is no output format `{output}`.",
            remedy="The formats are " + ", ".join(f"`{name}`" for name in FORMATS) + ".",
        )
    url = running_query_process(settings)
    if url is not None:
        show(ask(url, statement, engine=engine, after=after))
        return
    if engine not in ("", "duckdb"):
        raise HeadraceError(
            "not_running",
            f"No platform is running on {settings.data_dir}: only DuckDB answers without one.",
            remedy="Start it with `headrace up`, or leave `--engine` out.",
        )
    if after:
        raise HeadraceError(
            "not_running",
            f"No platform runs on the data folder {settings.data_dir}, so {after[0]} cannot be waited for.",
            remedy="Start it with `headrace up`, or leave out --after: the lake alone is read then.",
        )
    query = LakeQuery(
        settings.lake_dir,
        time_limit_seconds=settings.query_seconds,
        memory_megabytes=settings.query_memory_megabytes,
        most_rows=settings.query_rows,
    )
    try:
        with Progress():
            result = query.run(statement)
        show(result)
    finally:
        query.close()


def _show_table(result: QueryResult) -> None:
    table = Table(header_style="bold")
    for name, kind in zip(result.columns, result.types, strict=True):
        table.add_column(name, justify="right" if _is_number(kind) else "left", overflow="fold")
    for row in result.rows:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(_text(value)) for value in row))
    console = Console()
    console.print(table)
    console.print(f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}", style="dim")


def _show_chart(result: QueryResult) -> None:
    for line in chart(result, shutil.get_terminal_size().columns):
        print(line)


def _show_json(result: QueryResult) -> None:
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    print(json.dumps(rows, default=_json_value, ensure_ascii=False))


def _show_csv(result: QueryResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(["" if value is None else _text(value) for value in row] for row in result.rows)


FORMATS: Final[dict[str, Callable[[QueryResult], None]]] = {
    "table": _show_table,
    "json": _show_json,
    "csv": _show_csv,
    "chart": _show_chart,
}


def _is_number(kind: str) -> bool:
    return kind.startswith(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U", "FLOAT", "DOUBLE", "DECIMAL")
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list, tuple, bool)):
        return json.dumps(value, default=_json_value, ensure_ascii=False)
    plain = _json_value(value) if not isinstance(value, (int, float)) else value
    return str(plain)


def _json_value(value: object) -> object:
    """Types that JSON does not have, as text; also numbers that a double cannot represent exactly."""
    if isinstance(value, (date, datetime, time_of_day)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (Decimal, UUID, timedelta)):
        return str(value)
    raise TypeError(f"unexpected type {type(value).__name__} in an answer")
