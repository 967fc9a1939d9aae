"""The columns that a sink's table has, or gets: those that it has already, and those that records have
besides.

The table's own columns decide how rows are stored; further ones are added as far as the sink's
`schema.compatibility` allows (`lake/evolution.py`). Folders never change: a table that is partitioned
otherwise is refused. Adding columns is a commit of its own, which leaves the positions as they are; Delta
does not sync it, so that is done here. The writer's lock of the table is held.
"""

from __future__ import annotations

import dataclasses
import logging

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.commit_turn import commit_turn
from headrace.lake.delta_log import DeltaLog
from headrace.lake.delta_schema import struct_of
from headrace.lake.evolution import Rules, evolved
from headrace.lake.layout import COORDINATE_COLUMNS, TableColumn, TableLayout
from headrace.lake.types import Simple, Struct, ddl
from headrace.pipeline.spark.lake.delta_files import Definition, definition_of

logger = logging.getLogger(__name__)

_LOCAL_TIME = Simple.TIMESTAMP_NTZ.value
_OWN: frozenset[str] = frozenset(column.name.casefold() for column in COORDINATE_COLUMNS)


def present_columns(spark: SparkSession, uri: str, *, name: str) -> Struct | None:
    """The columns of records that a table has; None if there is no table. Raises lake_unsupported."""
    found = definition_of(spark, uri)
    if found is None:
        return None
    columns = struct_of(found.schema, table=name)
    return Struct(fields=tuple(each for each in columns.fields if each.name.casefold() not in _OWN))


def evolve_table(
    spark: SparkSession, table: TableLayout, present: Struct | None, wanted: Struct, *, rules: Rules
) -> Struct:
    """The columns that rows will have. A table that lacks some of the wanted ones gets them; one that does
    not exist is not created.

    Raises lake_unsupported.
    """
    if present is None:
        return wanted
    found = definition_of(spark, table.location.uri)
    assert found is not None, "somebody removed the table"
    _check_folders(table, found)
    evolution = evolved(present, wanted, rules=rules)
    if evolution.added:
        log = DeltaLog(table.location)
        columns = ", ".join(change.definition for change in evolution.added)
        with commit_turn(table.location):
            before = log.newest_version()
            if _LOCAL_TIME in columns:
                # A type that came to Delta later: a table without it has to be told.
                feature = "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"
                spark.sql(f"ALTER TABLE delta.`{table.location.uri}` {feature}")
            spark.sql(f"ALTER TABLE delta.`{table.location.uri}` ADD COLUMNS ({columns})")
            for version in range(before + 1, log.newest_version() + 1):
                log.sync_commit(version)
        logger.info("table %s has new columns: %s", table.name, columns)
    return evolution.struct


def with_columns(table: TableLayout, columns: Struct) -> TableLayout:
    return dataclasses.replace(
        table, value_columns=tuple(TableColumn(each.name, ddl(each.type)) for each in columns.fields)
    )


def _check_folders(table: TableLayout, found: Definition) -> None:
    wanted = [name.casefold() for name in table.partition_columns]
    if [name.casefold() for name in found.partition_columns] == wanted:
        return
    raise HeadraceError(
        "lake_unsupported",
        f"Table {table.name} at {table.location} is partitioned by {_listed(found.partition_columns)}, "
        f"the connector asks for {_listed(table.partition_columns)}.",
        remedy="Let the connector write to another folder (topics.dir), or move the table away.",
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
