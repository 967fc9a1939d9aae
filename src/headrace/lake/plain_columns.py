"""What a table of plain files has, compared with what its connector asks for.

Files of one table have one format and one kind of folders, for ever. Columns are added as for Delta tables
(`evolution.py`): files that were written before lack them. The writer's lock of the table is held.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.evolution import Rules, evolved
from headrace.lake.location import Location
from headrace.lake.plain_log import PlainDefinition, PlainLog
from headrace.lake.sink import FileFormat
from headrace.lake.types import Array, Map, Simple, Struct, Type, ddl

logger = logging.getLogger(__name__)

_REMEDY: Final = "Let the connector write to another folder (topics.dir), or move the table away."
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def evolve_plain(table: Location, wanted: PlainDefinition, *, rules: Rules) -> Struct:
    """The columns that rows will have. A table that lacks some of them gets them; one that does not exist is
    not created. Raises lake_unsupported, lake_damaged.
    """
    log = PlainLog(table)
    found = log.open()
    if found is None:
        return wanted.columns
    if found.file_format is not wanted.file_format:
        raise HeadraceError(
            "lake_unsupported",
            f"Table {table.name} at {table} has {found.file_format.value} files, the connector asks for "
            f"{wanted.file_format.value}.",
            remedy=_REMEDY,
        )
    if _folded(found.partition_columns) != _folded(wanted.partition_columns):
        raise HeadraceError(
            "lake_unsupported",
            f"Table {table.name} at {table} is partitioned by {_listed(found.partition_columns)}, the "
            f"connector asks for {_listed(wanted.partition_columns)}.",
            remedy=_REMEDY,
        )
    evolution = evolved(found.columns, wanted.columns, rules=rules)
    if evolution.added:
        log.change(dataclasses.replace(found, columns=evolution.struct))
        columns = ", ".join(change.definition for change in evolution.added)
        logger.info("table %s has new columns: %s", table.name, columns)
    return evolution.struct


def check_columns(file_format: FileFormat, data: Struct, *, table: str) -> None:
    """`data` are the columns of the files. Raises lake_unsupported if the format cannot have them."""
    if not data.fields:
        raise HeadraceError(
            "lake_unsupported",
            f"The files of table {table} would have no columns: all fields are folders.",
            remedy="Partition by fewer fields.",
        )
    if file_format is FileFormat.BYTES and [each.type for each in data.fields] != [Simple.BINARY]:
        raise HeadraceError(
            "lake_unsupported",
            f"Files of bytes have the values as they are, but those of table {table} are {ddl(data)}.",
            remedy="Use value.converter ByteArrayConverter without transformations that change the value, or "
            "another format.class.",
        )
    if file_format is FileFormat.AVRO and (names := [n for n in _names(data) if not _AVRO_NAME.fullmatch(n)]):
        raise HeadraceError(
            "lake_unsupported",
            f"Avro files cannot have the field {names[0]!r} of table {table}: names have letters, digits and "
            "underscores.",
            remedy="Rename the field with the transformation ReplaceField, or use another format.class.",
        )


def _names(kind: Type) -> list[str]:
    match kind:
        case Struct():
            return [name for each in kind.fields for name in (each.name, *_names(each.type))]
        case Array():
            return _names(kind.element)
        case Map():
            return _names(kind.value)
        case _:
            return []


def _folded(names: tuple[str, ...]) -> list[str]:
    return [name.casefold() for name in names]


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
