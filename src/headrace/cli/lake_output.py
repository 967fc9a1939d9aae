"""What `headrace lake tables`, `show` and `history` print, as tables or as JSON.

Invariant: JSON contains nothing but the answer, and no credentials; remarks go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from headrace.assembly.lake_tables import Seen
from headrace.lake.inspecting import FileCounts
from headrace.lake.positions import Progress
from headrace.lake.rebuilding import partition_text
from headrace.lake.versions import TableVersion

# More are counted, but not shown one by one; JSON has them all.
_MOST_PARTITIONS: Final = 40
_MOST_POSITIONS: Final = 6


def print_remark(remark: str) -> None:
    if remark:
        print(remark, file=sys.stderr)


def print_tables(found: Sequence[Seen], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_content(each) for each in found]))
        return
    if not found:
        print("no tables")
        return
    rows = [
        {
            "table": each.table.name,
            "state": _state(each),
            "rows": each.look.counts.rows,
            "files": each.look.counts.files,
            "bytes": each.look.counts.size,
            "partitions": len(each.look.partitions),
            "version": each.look.version if each.look.exists else None,
            "behind": each.behind,
        }
        for each in found
    ]
    _print(rows, left=("table", "state"))
    for each in found:
        table = each.table
        writer = (
            f", written by connector {table.connector} from topic {table.topic}" if table.connector else ""
        )
        print(f"{table.name}: {table.location}{writer}")
        if each.look.problem:
            print(f"{table.name} cannot be read: {each.look.problem}.", file=sys.stderr)


def print_table(seen: Seen, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_content(seen) | _details(seen)))
        return
    console = Console()
    look, table = seen.look, seen.table
    mean = look.counts.mean_size
    lines = {
        "location": str(table.location),
        "connector": f"{table.connector} ({_state(seen)})" if table.connector else "none",
        "topic": table.topic or "unknown",
        "version": f"{look.version}, of {_time(look.changed_ms)}",
        "rows": _text(look.counts.rows),
        "files": f"{look.counts.files:,} with {look.counts.size:,} bytes; {look.counts.small:,} small",
        "file sizes": f"{look.smallest:,} to {look.largest:,} bytes, {mean:,} in the mean",
        "positions": _positions(look.positions.offsets),
        "behind": "unknown" if seen.behind is None else f"{seen.behind:,} records at most",
    }
    if look.is_doubtful:
        lines["positions"] += "; rows of others came since"
    if look.unsupported:
        lines["maintenance"] = f"none: {look.unsupported}"
    lines |= {f"setting {name}": value for name, value in sorted(look.settings.items())}
    for name, text in lines.items():
        console.print(f"[bold]{name}[/bold]: ", end="")
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    _print(
        [
            {"column": name, "type": kind, "partition": "yes" if name in look.partition_columns else ""}
            for name, kind in look.columns
        ],
        left=("column", "type", "partition"),
    )
    shown = look.partitions[:_MOST_PARTITIONS]
    _print(
        [{"partition": partition_text(each.values) or "(all)"} | _counted(each.counts) for each in shown],
        left=("partition",),
    )
    if len(look.partitions) > len(shown):
        more = len(look.partitions) - len(shown)
        print(f"and {more:,} partitions more; --json has them all")


def print_history(versions: Sequence[TableVersion], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_version_content(each) for each in versions]))
        return
    rows = [
        {
            "version": each.version,
            "time": _time(each.at_ms),
            "operation": _operation(each),
            "files": f"+{each.files_added} -{each.files_removed}",
            "rows": each.rows,
            "positions": "" if each.progress is None else _positions(each.progress.positions.offsets),
        }
        for each in versions
    ]
    _print(rows, left=("time", "operation", "positions"))


def _content(seen: Seen) -> dict[str, Any]:
    look, table = seen.look, seen.table
    return {
        "table": table.name,
        "location": str(table.location),
        "connector": table.connector or None,
        "state": table.state or None,
        "topic": table.topic or None,
        "query": table.query or None,
        "version": look.version if look.exists else None,
        "changed_at": None if look.changed_ms is None else _time(look.changed_ms),
        **_counted(look.counts),
        "partitions": len(look.partitions),
        "positions": {str(number): at for number, at in sorted(look.positions.offsets.items())},
        "behind": seen.behind,
        "problem": look.problem or None,
    }


def _details(seen: Seen) -> dict[str, Any]:
    look = seen.look
    return {
        "columns": [{"name": name, "type": kind} for name, kind in look.columns],
        "partition_columns": list(look.partition_columns),
        "partitions": [{"values": dict(each.values)} | _counted(each.counts) for each in look.partitions],
        "smallest_file": look.smallest,
        "largest_file": look.largest,
        "topic_id": look.positions.topic_id or None,
        "rows_of_others": look.is_doubtful,
        "settings": look.settings,
        "no_maintenance": look.unsupported or None,
    }


def _version_content(each: TableVersion) -> dict[str, Any]:
    return {
        "version": each.version,
        "time": None if each.at_ms is None else _time(each.at_ms),
        "operation": each.operation,
        "restored_version": each.restored,
        "files_added": each.files_added,
        "files_removed": each.files_removed,
        "rows_added": each.rows_added,
        "rows": each.rows,
        "positions": _json_positions(each.progress),
        "problem": each.problem or None,
    }


def _json_positions(progress: Progress | None) -> dict[str, int] | None:
    if progress is None:
        return None
    return {str(number): at for number, at in sorted(progress.positions.offsets.items())}


def _counted(counts: FileCounts) -> dict[str, Any]:
    return {
        "rows": counts.rows,
        "files": counts.files,
        "small_files": counts.small,
        "bytes": counts.size,
    }


def _state(seen: Seen) -> str:
    if seen.look.problem:
        return "DAMAGED"
    return seen.table.state if seen.look.exists else "no table yet"


def _operation(each: TableVersion) -> str:
    if each.problem:
        return f"cannot be read: {each.problem}"
    return f"{each.operation} of version {each.restored}" if each.restored is not None else each.operation


def _positions(offsets: Mapping[int, int]) -> str:
    listed = [f"{number}:{at:,}" for number, at in sorted(offsets.items())]
    more = len(listed) - _MOST_POSITIONS
    return " ".join(listed[:_MOST_POSITIONS]) + (f" and {more} more" if more > 0 else "") or "none"


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "unknown"
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(rows: Sequence[Mapping[str, object]], *, left: Sequence[str]) -> None:
    if not rows:
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in rows[0]:
        is_left = column in left
        # Numbers are never folded.
        table.add_column(column, justify="left" if is_left else "right", overflow="fold", no_wrap=not is_left)
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    Console().print(table)


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else str(value)
