"""What a task needs to know to write a batch of a topic in columns, and which tables can be written so.

A table can if each record becomes one row, field by field: values are Avro, nothing transforms them, the
folders are fields or none, and the columns have the types of the fields. `column_plan` says what keeps a
table from it, so that its owner can be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.topics import TopicIdentity
from headrace.lake.columns.avro_decoding import UnsupportedShapeError, decoder_of
from headrace.lake.columns.folders import FOLDER_TYPES, MOST_COLUMNS, FolderColumn
from headrace.lake.location import Location
from headrace.lake.sink import ConverterKind, FileFormat, LakeSink, NullValues, TableFormat
from headrace.lake.types import Struct, ddl

# Spark's names of compressions, and those of the Parquet writer here.
_CODECS: Final[Mapping[str, str]] = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4_raw": "lz4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """`columns` are those of values; `schemas` are the writer schemas by their ids. Records without a value
    are left out if it `drops_nulls`. `rows_per_file` bounds the rows of a file.
    """

    bootstrap: str
    topic: TopicIdentity
    location: Location
    columns: Struct
    folders: tuple[FolderColumn, ...]
    schemas: Mapping[int, str]
    drops_nulls: bool
    codec: str
    rows_per_file: int


def column_plan(
    sink: LakeSink,
    topic: TopicIdentity,
    *,
    bootstrap: str,
    location: Location,
    columns: Struct,
    partition_columns: tuple[str, ...],
    derived_columns: tuple[str, ...],
    schemas: Mapping[int, str],
) -> ColumnPlan | str:
    """The plan, or why the table cannot be written in columns. `derived_columns` are those of the partition
    columns that are no fields of the records.
    """
    if derived_columns:
        return f"{', '.join(derived_columns)}, partition columns, are not fields of its records"
    if why := _unsuitable(sink, columns, partition_columns):
        return why
    for schema_id, text in schemas.items():
        try:
            decoder_of(text, columns)
        except UnsupportedShapeError as error:
            return f"schema {schema_id}: {error}"
    folders = []
    for name in partition_columns:
        found = columns.find(name)
        assert found is not None
        is_date = any(name.casefold() == each.casefold() for each in sink.partitioning.date_fields)
        folders.append(FolderColumn(name=found.name, type=found.type, is_date=is_date))
    return ColumnPlan(
        bootstrap=bootstrap,
        topic=topic,
        location=location,
        columns=columns,
        folders=tuple(folders),
        schemas=schemas,
        drops_nulls=sink.null_values is NullValues.IGNORE,
        codec=_CODECS[sink.codec],
        rows_per_file=sink.flush_size,
    )


def _unsuitable(sink: LakeSink, columns: Struct, partition_columns: tuple[str, ...]) -> str:  # noqa: PLR0911
    if sink.table_format is not TableFormat.DELTA or sink.file_format is not FileFormat.PARQUET:
        return "it is not a Delta table"
    if sink.value.kind is not ConverterKind.AVRO:
        return "its values are not Avro"
    if sink.changes_records:
        return "its records are transformed"
    if sink.stores_keys or sink.stores_headers:
        return "it stores keys or headers"
    if sink.codec not in _CODECS:
        return f"its files are compressed with {sink.codec}"
    if sink.partitioning.time is not None or sink.partitioning.by_partition:
        return "its folders are not fields"
    if len(partition_columns) > MOST_COLUMNS:
        return f"it has more than {MOST_COLUMNS} partition columns"
    for name in partition_columns:
        found = columns.find(name)
        if found is None:
            return f"{name} is not a field of its records"
        if found.type not in FOLDER_TYPES:
            return f"{name}, a partition column, is {ddl(found.type)}"
    return ""
