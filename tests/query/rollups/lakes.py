"""A table with columns of all kinds that a rollup can have, and rollups of it; made without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from headrace.lake.delta_log import DeltaLog
from headrace.lake.delta_schema import struct_of
from headrace.lake.rollups.definition import (
    Bucket,
    Dimension,
    RollupDefinition,
    bucket_of_unit,
    defined,
)
from headrace.lake.table_state import TableState

TABLE = "events"
SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "day": pa.string(),
        "ts": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
        "flag": pa.bool_(),
        "size": pa.int32(),
        "x": pa.int64(),
        "price": pa.decimal128(9, 2),
        "wide": pa.decimal128(27, 3),
        "heat": pa.float64(),
        "note": pa.string(),
    }
)
Row = dict[str, Any]


def row(kind: str | None = None, day: str | None = None, ts: datetime | None = None, **more: Any) -> Row:
    return dict.fromkeys(SCHEMA.names) | {"kind": kind, "day": day, "ts": ts} | more


def append(lake: Path, rows: Sequence[Row], *, partition_by: Sequence[str] = (), **options: Any) -> None:
    """Add the rows in one commit, which creates the table if need be."""
    options = {"mode": "append", **options}
    table = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    write_deltalake(lake / TABLE, table, partition_by=list(partition_by) or None, **options)


def definition(
    lake: Path,
    *,
    dimensions: Sequence[str | tuple[str, str | int]] = (("ts", "hour"), "kind"),
    measures: Sequence[tuple[str, str]] = (
        ("count", "x"), ("avg", "x"), ("min", "x"), ("max", "x"), ("avg", "price"), ("sum", "wide"),
        ("avg", "wide"), ("min", "heat"), ("max", "note"), ("min", "ts"), ("sum", "size"),
    ),
    name: str = "R",
) -> RollupDefinition:  # fmt: skip
    """A bucket is a unit, or a width in microseconds."""
    state = TableState(DeltaLog(lake / TABLE))
    return defined(
        rollup_id=uuid.uuid4().hex[:8],
        name=name,
        table=TABLE,
        dimensions=[
            Dimension(column=each)
            if isinstance(each, str)
            else Dimension(column=each[0], bucket=_bucket(each[1]))
            for each in dimensions
        ],
        measures=measures,
        columns=struct_of(state.metadata["schemaString"], table=TABLE),
        partition_columns=state.partition_columns,
    )


def _bucket(wanted: str | int) -> Bucket | None:
    return Bucket(width_us=wanted) if isinstance(wanted, int) else bucket_of_unit(wanted)


def price(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)
