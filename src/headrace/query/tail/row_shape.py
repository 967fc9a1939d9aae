"""What rows of a table look like, and whether records can become them here: from the sink and the columns
that the table has at a version. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import VALUE
from headrace.lake.columns.folders import FOLDER_TYPES, MOST_COLUMNS, FolderColumn
from headrace.lake.layout import COORDINATE_COLUMNS
from headrace.lake.read_columns import ReadColumns
from headrace.lake.sink import Converter, ConverterKind, LakeSink, Partitioning, TableFormat
from headrace.lake.types import Field, Simple, Struct
from headrace.pipeline.sink_records.stored_columns import HEADERS, HEADERS_TYPE, KEY, reads_keys
from headrace.query.tail.derived_columns import BY_CLOCK, BY_FIELD, BY_RECORD, Derived, type_at
from headrace.query.tail.folder_times import FLOATING, TIME_TYPES, FolderTimes
from headrace.query.tail.transformed_rows import TransformedRows

# The column of the number of the topic's partition, as `pipeline/spark/lake/partitioning.py` names it.
_PARTITION: Final = "partition"
_FIXED: Final = {
    ConverterKind.STRING: Struct(fields=(Field(name=VALUE, type=Simple.STRING),)),
    ConverterKind.BYTES: Struct(fields=(Field(name=VALUE, type=Simple.BINARY),)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """`columns` are all of the table in its order, `values` the fields of values after all transformations,
    `derived` says what the partition columns are that are no such fields. `reads` is as what records are read
    to be transformed; None if they are not.
    """

    sink: LakeSink
    topic: str
    columns: Struct
    values: Struct
    folders: tuple[FolderColumn, ...]
    derived: Derived = field(default_factory=Derived)
    reads: ReadColumns | None = None


class _UnsuitableError(Exception):
    """Says why the rows can only be read from the table."""


def row_shape(
    sink: LakeSink,
    columns: Struct,
    partition_columns: tuple[str, ...],
    *,
    topic: str,
    reads: ReadColumns | None,
) -> RowShape | str:
    """The shape, or why its rows can only be read from the table. `reads` is what its commits say."""
    try:
        return _shape(sink, columns, partition_columns, topic=topic, reads=reads)
    except _UnsuitableError as error:
        return str(error)
    except HeadraceError as error:
        # The lake refuses it with the same words.
        return error.message


def _shape(
    sink: LakeSink,
    columns: Struct,
    partition_columns: tuple[str, ...],
    *,
    topic: str,
    reads: ReadColumns | None,
) -> RowShape:
    _check(sink, columns, partition_columns)
    partitioning = sink.partitioning
    taken = {each.name for each in COORDINATE_COLUMNS} | set(_stored(sink, columns))
    fields = Struct(fields=tuple(each for each in columns.fields if each.name not in taken))
    if not sink.changes_records:
        reads = None
        derived = _derived(sink, fields)
        values = _without(fields, derived.names)
    elif (reads := reads or _fixed_reads(sink)) is None or (reads.key is None and reads_keys(sink)):
        raise _UnsuitableError("its connector has not said yet as what it reads records, to transform them")
    else:
        values = TransformedRows(sink, topic, reads, columns).values
        derived = _derived_of(sink, values)
    if [each.casefold() for each in partition_columns] != [
        each.casefold() for each in _folder_names(partitioning)
    ]:
        raise _UnsuitableError("its folders are not those that its connector asks for")
    names = {each.casefold() for each in derived.names}
    if derived.time is not None:
        _check_time(derived, values, sink.value)
    folders = []
    for name in partition_columns:
        column = fields.find(name)
        if column is None:
            raise _UnsuitableError(f"{name} is no column of its values")
        if column.type not in FOLDER_TYPES:
            raise _UnsuitableError(
                f"{name}, a partition column, has values whose folders only the lake can name"
            )
        if name.casefold() in names and column.type is not (
            Simple.INT if name == derived.partition else Simple.STRING
        ):
            raise _UnsuitableError(f"{name}, a partition column, has another type than the lake writes")
        is_date = any(name.casefold() == each.casefold() for each in partitioning.date_fields)
        # Values of a DATE are dates.
        is_date = is_date and column.type is Simple.STRING
        folders.append(FolderColumn(name=column.name, type=column.type, is_date=is_date))
    return RowShape(
        sink=sink,
        topic=topic,
        columns=columns,
        values=values,
        folders=tuple(folders),
        derived=derived,
        reads=reads,
    )


def _fixed_reads(sink: LakeSink) -> ReadColumns | None:
    """As what records without fields are read, whatever they are; None if it depends on them."""
    value = _FIXED.get(sink.value.kind)
    key = _FIXED.get(sink.key.kind)
    if value is None or (key is None and reads_keys(sink)):
        return None
    return ReadColumns(value=value, key=key if reads_keys(sink) else None)


def _without(columns: Struct, names: tuple[str, ...]) -> Struct:
    taken = {each.casefold() for each in names}
    return Struct(fields=tuple(each for each in columns.fields if each.name.casefold() not in taken))


def _stored(sink: LakeSink, columns: Struct) -> Iterator[str]:
    """The columns of the key and of the headers."""
    for name, is_stored in ((KEY, sink.stores_keys), (HEADERS, sink.stores_headers)):
        if not is_stored:
            continue
        column = columns.find(name)
        if column is None or (name == HEADERS and column.type != HEADERS_TYPE):
            raise _UnsuitableError(f"it has no column {name} as the lake writes it")
        yield column.name


def _folder_names(partitioning: Partitioning) -> Iterator[str]:
    yield from partitioning.fields
    if partitioning.time is not None:
        yield from (name for name, _ in partitioning.time.columns)
    if partitioning.by_partition:
        yield _PARTITION


def _derived(sink: LakeSink, fields: Struct) -> Derived:
    """A field of the value comes before a nested one; names of fields in Avro have no dots."""
    nested = tuple(
        each for each in sink.partitioning.fields if "." in each and type_at(fields, each) is not None
    )
    if nested and sink.value.kind is not ConverterKind.AVRO and not sink.value.has_schemas:
        raise _UnsuitableError(f"{nested[0]} may be a field, or a field of a field")
    return _with_nested(sink, nested)


def _derived_of(sink: LakeSink, values: Struct) -> Derived:
    """Of values whose fields are known."""
    nested = tuple(
        each
        for each in sink.partitioning.fields
        if values.find(each) is None and type_at(values, each) is not None
    )
    return _with_nested(sink, nested)


def _with_nested(sink: LakeSink, nested: tuple[str, ...]) -> Derived:
    return Derived(
        nested=nested,
        time=sink.partitioning.time,
        partition=_PARTITION if sink.partitioning.by_partition else "",
    )


def _check_time(derived: Derived, values: Struct, converter: Converter) -> None:
    time = derived.time
    assert time is not None
    FolderTimes(time)
    if time.extractor in (BY_CLOCK, BY_RECORD):
        return
    kind = type_at(values, time.field)
    is_json = converter.kind is ConverterKind.JSON and not converter.has_schemas
    if time.extractor != BY_FIELD or not (kind in TIME_TYPES or (is_json and kind in FLOATING)):
        raise _UnsuitableError(f"the field {time.field} of its values gives no time for its folders")


def _check(sink: LakeSink, columns: Struct, partition_columns: tuple[str, ...]) -> None:
    if sink.table_format is not TableFormat.DELTA:
        raise _UnsuitableError("it is not a Delta table")
    if sink.json_column:
        raise _UnsuitableError(f"its column {sink.json_column} has what no other column has")
    if len(partition_columns) > MOST_COLUMNS:
        raise _UnsuitableError("it has very many partition columns")
    present = {each.name for each in columns.fields}
    lacking = [each.name for each in COORDINATE_COLUMNS if each.name not in present]
    if lacking:
        raise _UnsuitableError(f"it has no column {lacking[0]}")
