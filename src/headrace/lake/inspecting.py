"""What a table of the lake has: rows, files, partitions, columns, and how far it has read its topic.

Read from the table's log alone, wherever the table is; no data file is opened. Never writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.lake.delta_log import LOG_FOLDER, DeltaLog
from headrace.lake.location import Location
from headrace.lake.optimizing import is_small
from headrace.lake.positions import Reached
from headrace.lake.resuming import history
from headrace.lake.table_state import DataFile, PartitionValues, TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """`rows` is None if the log does not say it of each file; `small` are files that merging may take."""

    files: int
    small: int
    size: int
    rows: int | None

    @property
    def mean_size(self) -> int:
        return self.size // self.files if self.files else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """One partition. `values` are in the order of the table's partition columns."""

    values: PartitionValues
    counts: FileCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """A table at its newest version. `columns` are names and types; `settings` are Delta's
    properties. `problem` says why the table cannot be read; then the rest is empty. `is_doubtful`:
    somebody else has added rows since the positions were committed.
    """

    version: int = -1
    changed_ms: int | None = None
    columns: tuple[tuple[str, str], ...] = ()
    partition_columns: tuple[str, ...] = ()
    partitions: tuple[PartitionCounts, ...] = ()
    counts: FileCounts = field(default_factory=lambda: FileCounts(files=0, small=0, size=0, rows=0))
    largest: int = 0
    smallest: int = 0
    positions: Reached = field(default_factory=Reached)
    is_doubtful: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    unsupported: str = ""
    problem: str = ""

    @property
    def exists(self) -> bool:
        return self.version >= 0


def look_at(location: Location, *, target_bytes: int) -> TableLook:
    """A table that does not exist has no version. A storage that fails is a problem of the table."""
    log = DeltaLog(location)
    try:
        state = TableState(log)
        said = next(history(log, state.version.number), None)
        info = _info(log, state.version.number)
    except FileNotFoundError:
        try:
            is_gone = not log.exists
        except OSError as error:
            return TableLook(problem=str(error))
        return TableLook() if is_gone else TableLook(problem="its log lacks commits")
    except (ValueError, OSError) as error:
        return TableLook(problem=str(error))
    files = list(state.files.values())
    order = {name: number for number, name in enumerate(state.partition_columns)}
    partitions = [
        PartitionCounts(
            values=tuple(sorted(values, key=lambda each: order.get(each[0], 0))),
            counts=_counts(some, target_bytes),
        )
        for values, some in state.partitions().items()
    ]
    return TableLook(
        version=state.version.number,
        changed_ms=info.get("timestamp"),
        columns=_columns(str(state.metadata.get("schemaString") or "")),
        partition_columns=state.partition_columns,
        partitions=tuple(sorted(partitions, key=lambda each: [value or "" for _, value in each.values])),
        counts=_counts(files, target_bytes),
        largest=max((file.size for file in files), default=0),
        smallest=min((file.size for file in files), default=0),
        positions=said.progress.positions if said is not None else Reached(),
        is_doubtful=said is None or said.is_doubtful,
        settings={str(name): str(each) for name, each in (state.metadata.get("configuration") or {}).items()},
        unsupported=state.unsupported,
    )


def tables_below(folder: Path) -> list[str]:
    """The names of the tables in a folder of this machine."""
    return sorted(log.parent.name for log in folder.glob(f"*/{LOG_FOLDER}"))


def _info(log: DeltaLog, version: int) -> Mapping[str, Any]:
    try:
        actions = log.actions(version)
    except FileNotFoundError:
        # A checkpoint stands for it.
        return {}
    return next((each["commitInfo"] for each in actions if "commitInfo" in each), {})


def _counts(files: Sequence[DataFile], target_bytes: int) -> FileCounts:
    rows = [file.rows for file in files]
    known = [each for each in rows if each is not None]
    return FileCounts(
        files=len(files),
        small=sum(is_small(file, target_bytes) for file in files),
        size=sum(file.size for file in files),
        rows=sum(known) if len(known) == len(rows) else None,
    )


def _columns(schema: str) -> tuple[tuple[str, str], ...]:
    fields = json.loads(schema)["fields"] if schema else []
    return tuple((str(each["name"]), type_text(each["type"])) for each in fields)


def type_text(kind: Any) -> str:
    """A type of Spark's JSON, as people write it."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            fields = (f"{each['name']}: {type_text(each['type'])}" for each in kind["fields"])
            return f"struct<{', '.join(fields)}>"
        case "array":
            return f"array<{type_text(kind['elementType'])}>"
        case "map":
            return f"map<{type_text(kind['keyType'])}, {type_text(kind['valueType'])}>"
        case other:
            return str(other)
