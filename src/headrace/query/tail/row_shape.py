"""What rows of a table look like, and whether records can become them here: from the sink and the columns
that the table has at a version. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.lake.columns.folders import FOLDER_TYPES, MOST_COLUMNS, FolderColumn
from headrace.lake.layout import COORDINATE_COLUMNS
from headrace.lake.sink import ConverterKind, LakeSink, TableFormat
from headrace.lake.types import Simple, Struct

# The column of the number of the topic's partition, as `pipeline/spark/lake/partitioning.py` names it.
_PARTITION: Final = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """`columns` are all of the table in its order, `values` those without the coordinates. `partition_column`
    is the one with the number of the topic's partition; empty if there is none.
    """

    sink: LakeSink
    columns: Struct
    values: Struct
    folders: tuple[FolderColumn, ...]
    partition_column: str = ""


def row_shape(sink: LakeSink, columns: Struct, partition_columns: tuple[str, ...]) -> RowShape | str:
    """The shape, or why its rows can only be read from the table."""
    if why := _unsuitable(sink, columns, partition_columns):
        return why
    names = {each.name for each in COORDINATE_COLUMNS}
    values = Struct(fields=tuple(each for each in columns.fields if each.name not in names))
    folders = []
    derived = ""
    for name in partition_columns:
        column = values.find(name)
        if column is None:
            return f"{name} is no column of its values"
        if column.type not in FOLDER_TYPES:
            return f"{name}, a partition column, has values whose folders only the lake can name"
        if not any(name.casefold() == each.casefold() for each in sink.partitioning.fields):
            if name != _PARTITION or not sink.partitioning.by_partition:
                return f"its folders are not by {name}"
            derived = name
        is_date = any(name.casefold() == each.casefold() for each in sink.partitioning.date_fields)
        if is_date and column.type is not Simple.STRING:
            # Values of a DATE are dates.
            is_date = False
        folders.append(FolderColumn(name=column.name, type=column.type, is_date=is_date))
    return RowShape(
        sink=sink, columns=columns, values=values, folders=tuple(folders), partition_column=derived
    )


def _unsuitable(  # noqa: PLR0911 - one for each reason
    sink: LakeSink, columns: Struct, partition_columns: tuple[str, ...]
) -> str:
    if sink.table_format is not TableFormat.DELTA:
        return "it is not a Delta table"
    if sink.changes_records:
        return "its records are transformed, which only the pipeline can do"
    if sink.stores_keys or sink.stores_headers:
        return "it stores keys or headers"
    if sink.json_column:
        return f"its column {sink.json_column} has what no other column has"
    if sink.value.kind is ConverterKind.JSON and sink.value.has_schemas:
        return "its records have their schemas beside them"
    if sink.partitioning.time is not None:
        return "its folders are times, which only the pipeline can tell"
    wanted = len(sink.partitioning.fields) + sink.partitioning.by_partition
    if len(partition_columns) > MOST_COLUMNS or len(partition_columns) != wanted:
        return "its folders are not those that its connector asks for"
    present = {each.name for each in columns.fields}
    lacking = [each.name for each in COORDINATE_COLUMNS if each.name not in present]
    return f"it has no column {lacking[0]}" if lacking else ""
