"""Walks a plan and builds its rows on Spark.

A table is used in two ways: as the stream of its changes, if a query reads it, and with its current rows, for
look-ups. `Inputs` has both.
"""

from __future__ import annotations

from typing import Protocol

from headrace.core.errors import HeadraceError
from headrace.pipeline.plan import (
    Aggregate,
    Explode,
    Filter,
    Project,
    Read,
    Rekey,
    Step,
    StreamJoin,
    TableJoin,
    TableLookup,
)
from headrace.pipeline.spark.steps.aggregating import aggregate_rows
from headrace.pipeline.spark.steps.exploding import explode_rows
from headrace.pipeline.spark.steps.filtering import filter_rows
from headrace.pipeline.spark.steps.projecting import project_rows, rekey_rows
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.stream_joining import join_streams
from headrace.pipeline.spark.steps.table_aggregating import aggregated_table
from headrace.pipeline.spark.steps.table_joining import Table, changes_of, join_tables, read_table
from headrace.pipeline.spark.steps.table_lookup import look_up_rows


class Inputs(Protocol):
    def changes(self, read: Read) -> Rows:
        """Rows as they arrive."""
        ...

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        """The current rows of a table, for each batch."""
        ...

    def table_groups(self, step: Aggregate) -> Rows:
        """The result of an aggregation of a table for the current batch."""
        ...


def built(step: Step, inputs: Inputs) -> Rows:  # noqa: PLR0911 - one for each step
    match step:
        case Read():
            return inputs.changes(step)
        case Filter():
            return filter_rows(step, built(step.input, inputs))
        case Explode():
            return explode_rows(step, built(step.input, inputs))
        case Rekey():
            return rekey_rows(step, built(step.input, inputs))
        case Project():
            return project_rows(step, built(step.input, inputs))
        case Aggregate() if aggregated_table(step) is not None:
            return inputs.table_groups(step)
        case Aggregate():
            return aggregate_rows(step, built(step.input, inputs))
        case StreamJoin():
            return join_streams(step, built(step.left, inputs), built(step.right, inputs))
        case TableLookup():
            table = _standing(step.table, inputs, is_global=step.is_global)
            return look_up_rows(step, built(step.stream, inputs), table)
        case TableJoin():
            return changes_of(_table(step, inputs))


def _table(step: Step, inputs: Inputs) -> Table:
    """A side of a join of tables."""
    match step:
        case Read():
            standing = inputs.standing(step, is_global=False)
            return read_table(step, standing=standing, changes=inputs.changes(step))
        case TableJoin():
            return join_tables(step, _table(step.left, inputs), _table(step.right, inputs))
        case _:
            raise HeadraceError(
                "pipeline_failed",
                f"The result of {type(step).__name__} cannot be joined as a table within the same query.",
                remedy="Create the table with its own query (CREATE TABLE … AS SELECT), and join that.",
            )


def _standing(step: Step, inputs: Inputs, *, is_global: bool) -> Rows:
    match step:
        case Read():
            return inputs.standing(step, is_global=is_global)
        case Filter():
            return filter_rows(step, _standing(step.input, inputs, is_global=is_global))
        case Project():
            return project_rows(step, _standing(step.input, inputs, is_global=is_global))
        case Rekey():
            return rekey_rows(step, _standing(step.input, inputs, is_global=is_global))
        case _:
            raise HeadraceError(
                "pipeline_failed",
                f"The result of {type(step).__name__} cannot be looked up as a table within the same query.",
                remedy="Create the table with its own query (CREATE TABLE … AS SELECT), and join that.",
            )
