"""The partition columns of a table: fields, parts of a time, or the topic's partition.

A partition column is in the names of folders, so its values must fit: a date must be one, and a name must not
be longer than the file system allows. A record whose values do not fit gets a reason. What the types alone
rule out raises lake_unsupported.

Times follow Confluent's TimeBasedPartitioner. Its patterns are Joda-Time's, where Y is the year of the date.
A null field is a folder of its own, as for all tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.new_partitions import LONGEST_NAME
from headrace.lake.sink import Partitioning
from headrace.lake.types import Decimal, Field, Simple, Struct, ddl
from headrace.pipeline.sink_records.nested_fields import nested_field
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.time_folders import refused_folders
from headrace.pipeline.spark.lake.partition_times import time_columns
from headrace.pipeline.spark.lake.spark_columns import nothing, shown

_PARTITION: Final = "partition"
_FOLDER_TYPES: Final = frozenset(
    (
        *(Simple.BOOLEAN, Simple.INT, Simple.BIGINT, Simple.STRING),
        *(Simple.DATE, Simple.TIMESTAMP, Simple.TIMESTAMP_NTZ),
    )
)
_DATE_PATTERN: Final = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
# Characters that Spark escapes as `%XX` in the name of a folder.
_ESCAPED_PATTERN: Final = r"""[\x00-\x1F"#%'*/:=?\\\x7F{\[\]^]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """`names` are the partition columns in the order of the folders. `derived` are those among them that are
    not fields of the value. `reason` is null for records whose values can name folders.
    """

    names: tuple[str, ...]
    derived: tuple[NamedColumn[Column], ...]
    reason: Column = field(repr=False)


def partitions(partitioning: Partitioning, record: Record[Column]) -> Partitions:
    """Of records that have been transformed. Raises lake_unsupported."""
    columns: list[NamedColumn[Column]] = []
    derived: list[NamedColumn[Column]] = []
    reasons: list[Column] = []
    for path in partitioning.fields:
        found, is_derived = _field(path, record)
        columns.append(found)
        if is_derived:
            derived.append(found)
        if path in partitioning.date_fields:
            reasons += _unless_date(found)
    if partitioning.time is not None:
        times, reason = time_columns(partitioning.time, record)
        columns += times
        derived += times
        reasons.append(reason)
    if partitioning.by_partition:
        kind = Field(name=_PARTITION, type=Simple.INT)
        columns.append(NamedColumn(field=kind, column=record.partition))
        derived.append(columns[-1])
    _check_names(columns, derived, record)
    reasons += [_if_long(each) for each in columns if each.field.type is Simple.STRING]
    return Partitions(
        names=tuple(each.name for each in columns),
        derived=tuple(derived),
        reason=F.coalesce(*reasons) if reasons else nothing(Simple.STRING),
    )


def _field(path: str, record: Record[Column]) -> tuple[NamedColumn[Column], bool]:
    """The field, and whether it is a column of its own: a nested one becomes text, named by its path."""
    value = _struct(path, record)
    for each in value.fields:
        if each.name.casefold() == path.casefold():
            return _nameable(path, each), False
    found = nested_field(path, value)
    if found is None:
        raise refused_folders(f"by the field {path}, which does not exist", _names(value))
    text = _nameable(path, found).column.cast("string")
    return NamedColumn(field=Field(name=path, type=Simple.STRING), column=text), True


def _struct(path: str, record: Record[Column]) -> Typed[Column]:
    if not isinstance(record.value.type, Struct):
        raise refused_folders(f"by the field {path}: the value is {ddl(record.value.type)}, without fields")
    return record.value


def _nameable(path: str, found: NamedColumn[Column]) -> NamedColumn[Column]:
    if found.field.type not in _FOLDER_TYPES and not isinstance(found.field.type, Decimal):
        raise refused_folders(
            f"by the field {path}, which is {ddl(found.field.type)}: its values do not make names of folders"
        )
    return found


def _names(value: Typed[Column]) -> str:
    return f"The fields are {', '.join(each.name for each in value.fields)}."


def _unless_date(found: NamedColumn[Column]) -> Iterator[Column]:
    if found.field.type is Simple.STRING:
        is_date = found.column.rlike(_DATE_PATTERN) & found.column.try_cast("date").isNotNull()
        yield _unfit(found, found.column.isNotNull() & ~is_date, "is not a date (yyyy-MM-dd)")
    elif found.field.type is not Simple.DATE:
        raise refused_folders(f"by the dates of {found.name}, which is {ddl(found.field.type)}")


def _if_long(found: NamedColumn[Column]) -> Column:
    escaped = F.regexp_replace(found.column, _ESCAPED_PATTERN, "%XX")
    longest = LONGEST_NAME - len(f"{found.name}=".encode())
    # The first test is quick, and enough for almost every row.
    is_long = (F.octet_length(found.column) * 3 > longest) & (F.octet_length(escaped) > longest)
    return _unfit(found, is_long, "is too long for the name of a folder")


def _unfit(found: NamedColumn[Column], condition: Column, problem: str) -> Column:
    return F.when(condition, F.concat(F.lit(f"{found.name} {problem}: "), shown(found.column), F.lit(".")))


def _check_names(
    columns: list[NamedColumn[Column]], derived: list[NamedColumn[Column]], record: Record[Column]
) -> None:
    """Delta does not distinguish upper and lower case."""
    taken: set[str] = set()
    for each in columns:
        if each.name.casefold() in taken:
            raise refused_folders(f"by {each.name} twice")
        taken.add(each.name.casefold())
    kind = record.value.type
    for each in derived:
        if isinstance(kind, Struct) and kind.find(each.name) is not None:
            raise refused_folders(
                f"by a column {each.name}: the value has a field of that name",
                "Rename the field with the transformation ReplaceField.",
            )
