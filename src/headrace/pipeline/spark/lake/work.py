"""One topic into one table, as one run does it: what the parts of this folder need to know. Frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.layout import TableLayout
from headrace.lake.read_columns import ReadColumns
from headrace.pipeline.spark.lake.plain_files import PlainTable
from headrace.pipeline.spark.stateless_run import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork:
    """A new table begins at the end of its topic if it `starts_at_latest`, otherwise at its beginning.
    `letters` is the topic of the dead letters; `client_id` is for the producers of these. `rows` makes rows
    of records (`rows.py` says which columns both have). `folder` is for checkpoints.

    Unless it `tolerates_errors`, the first record that cannot become a row ends the run. `connector` is the
    name of the connector for Kafka Connect's headers of dead letters; without, they have only ours. Each
    batch observes `measures`, and `check` may end the run for what it sees.

    `columns` is None for a table that is written in rows, `reads` if nothing transforms records, `plain`
    for a Delta table. A batch waits
    until the topic has `smallest_batch` new records, but not longer than `longest_wait_ms`.
    """

    query: str
    session: SparkSession
    settings: Settings
    context: RunContext
    topic: TopicIdentity
    letters: TopicIdentity
    table: TableLayout
    rows: Callable[[DataFrame], DataFrame]
    folder: Path
    client_id: str
    interval_ms: int
    tolerates_errors: bool = True
    starts_at_latest: bool = False
    measures: Mapping[str, Column] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] = lambda _: None
    connector: str = ""
    columns: ColumnPlan | None = None
    reads: ReadColumns | None = None
    plain: PlainTable | None = None
    smallest_batch: int = 0
    longest_wait_ms: int = 0
