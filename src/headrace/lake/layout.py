"""The layout of a lake table: its folder, its columns, and how it is partitioned.

A table is a Delta table in `<lake folder>/<table>/` or below a prefix of a bucket, whose data files are plain
Parquet in the folders `EVENT_TYPE=…/SERVER_DATE=…/`. The event's own columns are followed by those that say
where the row comes from; their names begin with an underscore so that they never clash with a column of an
event.

Never reads or writes a file: `pipeline/spark/` writes tables, `query/` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from headrace.lake.location import Location

QUERY: Final = "_QUERY"
SOURCE_TOPIC_ID: Final = "_SOURCE_TOPIC_ID"
SOURCE_PARTITION: Final = "_SOURCE_PARTITION"
SOURCE_OFFSET: Final = "_SOURCE_OFFSET"
SOURCE_ORDINAL: Final = "_SOURCE_ORDINAL"
TOPIC_PARTITION: Final = "_TOPIC_PARTITION"
TOPIC_OFFSET: Final = "_TOPIC_OFFSET"
POSTED_AT: Final = "_POSTED_AT"
# Columns whose values hardly ever repeat.
ALL_DIFFERENT: Final = (SOURCE_OFFSET, TOPIC_OFFSET, POSTED_AT)


class TableColumn(NamedTuple):
    """`type` as in DDL: `STRUCT<…>`, `DECIMAL(9,3)`."""

    name: str
    type: str


COORDINATE_COLUMNS: Final = (
    TableColumn(QUERY, "STRING"),
    TableColumn(SOURCE_TOPIC_ID, "STRING"),
    TableColumn(SOURCE_PARTITION, "INT"),
    TableColumn(SOURCE_OFFSET, "BIGINT"),
    TableColumn(SOURCE_ORDINAL, "INT"),
    TableColumn(TOPIC_PARTITION, "INT"),
    TableColumn(TOPIC_OFFSET, "BIGINT"),
    TableColumn(POSTED_AT, "TIMESTAMP"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """Where a table is and what its rows look like.

    `date_columns` are partition columns with text that must be a date: `2026-03-14`, or null.
    """

    name: str
    location: Location
    value_columns: tuple[TableColumn, ...]
    partition_columns: tuple[str, ...]
    date_columns: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The folder of a table on this machine. Raises lake_unsupported if it is in a bucket."""
        return self.location.path

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        return self.value_columns + COORDINATE_COLUMNS

    @property
    def value_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.value_columns)

    def definition(self) -> str:
        """The DDL that creates the table if it does not exist."""
        columns = [f"{_quoted(name)} {kind}" for name, kind in self.columns]
        names = ", ".join(_quoted(name) for name in self.partition_columns)
        partitions = f"PARTITIONED BY ({names}) " if names else ""
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in _TABLE_PROPERTIES.items())
        return (
            f"CREATE TABLE IF NOT EXISTS delta.`{self.location.uri}` ({', '.join(columns)}) USING delta "
            f"{partitions}TBLPROPERTIES ({properties})"
        )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


# A checkpoint of the Delta log costs a Spark job; readers replay a hundred small JSON commits in a few
# milliseconds.
CHECKPOINT_INTERVAL: Final = 100

_TABLE_PROPERTIES: Final[dict[str, str]] = {
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    # Minimum and maximum per file only for columns that readers prune by; the row count is always kept.
    "delta.dataSkippingStatsColumns": f"{TOPIC_PARTITION},{TOPIC_OFFSET},{SOURCE_PARTITION},{SOURCE_OFFSET}",
}
