"""Carries out orders for tables of the lake (`catalogue/lake_orders.py`), and says what it did.

The writer's lock of the table is taken first: there is one writer of a table. Merging goes on beside the
table's query; for the other orders, `needs_rest` says whether its run must be stopped meanwhile. The caller
sees to that, and that the background maintenance leaves the table alone (`maintaining.py`).

Belongs to the thread that carries out orders.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.delta_log import DeltaLog
from headrace.lake.merging import MergeRules
from headrace.lake.optimizing import next_merges
from headrace.lake.positions import Offsets
from headrace.lake.rebuilding import chosen_partition, matches, partition_text
from headrace.lake.restoring import commit_restore, plan_restore, restored_by, returning
from headrace.lake.restoring_words import as_content, restored_text
from headrace.lake.sink import S3Storage
from headrace.lake.table_state import DataFile, PartitionValues, TableState
from headrace.lake.vacuuming import refuse_retention
from headrace.pipeline.catalogue.lake_orders import LakeOrder
from headrace.pipeline.spark.fair_turns import MAINTENANCE_POOL, in_pool
from headrace.pipeline.spark.lake.bounds import bounds_of_rows
from headrace.pipeline.spark.lake.file_merging import FileMerging
from headrace.pipeline.spark.lake.table_maintenance import MaintainedTable, TableMaintenance
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.s3a import use_storage
from headrace.pipeline.spark.writer_lock import hold_writer_lock, lock_of

logger = logging.getLogger(__name__)

_HOUR_MS: Final = 3_600_000
# Others may commit in between.
_MOST_ATTEMPTS: Final = 5
# So many schemas or columns that it does not know a rebuild may meet, one after the other.
_MOST_LESSONS: Final = 20
_MOST_FILES_NAMED: Final = 1_000


def needs_rest(order: LakeOrder) -> bool:
    """Whether the query of the table must not run meanwhile.

    A vacuum that is forced may take the files of a batch that is being written.
    """
    return order.kind in ("restore", "rebuild") or (order.kind == "vacuum" and order.is_forced)


class TableOrders:
    """`on_sign` of an order is called now and then, with what was done so far."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        cluster: Cluster,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._target = settings.lake_file_megabytes * 1024 * 1024

    def carry_out(
        self, order: LakeOrder, query: TableQuery, *, on_sign: Callable[[str], None] = lambda _: None
    ) -> LakeOrder:
        """The answer. `query` is one that nobody else uses. Raises HeadraceError, OSError, and what Spark
        raises.
        """
        location = query.location
        hold_writer_lock(self._spark, lock_of(location, data_dir=self._settings.data_dir))
        if isinstance(location.storage, S3Storage):
            use_storage(self._spark, location.storage)
        with in_pool(self._spark, MAINTENANCE_POOL):
            match order.kind:
                case "optimize":
                    return self._optimize(order, query, on_sign)
                case "vacuum":
                    return self._vacuum(order, query)
                case "restore":
                    return self._restore(order, query)
                case "rebuild":
                    return self._rebuild(order, query)

    def _optimize(self, order: LakeOrder, query: TableQuery, on_sign: Callable[[str], None]) -> LakeOrder:
        log = DeltaLog(query.location)
        state = _changeable(log, order.table)
        if order.partition and not any(matches(each, order.partition) for each in state.partitions()):
            # Raises the error that names some.
            chosen_partition(state.partitions(), order.partition, table=order.table)
        merging = FileMerging(self._spark, query.location, codec=query.sink.codec)
        # Files that come meanwhile would keep it busy for ever.
        ours = set(state.files)
        removed = added = rows = failed = 0
        versions: list[int] = []
        while True:
            merges = next_merges(self._of_order(state, order, ours), target_bytes=self._target)
            if not merges:
                break
            merged = merging.merge(state, merges)
            if merged.version is None:
                failed += 1
                if failed == _MOST_ATTEMPTS:
                    raise HeadraceError(
                        "pipeline_failed",
                        f"Files of table {order.table} were not merged: it keeps changing meanwhile.",
                        remedy="Try again when nobody else changes the table.",
                    )
                merging = FileMerging(self._spark, query.location, codec=query.sink.codec)
                state = _changeable(log, order.table)
                continue
            versions.append(merged.version)
            ours |= {unquote(each["add"]["path"]) for each in log.actions(merged.version) if "add" in each}
            removed, added, rows = removed + merged.removed, added + merged.added, rows + merged.rows
            on_sign(f"{removed} files merged to {added}")
        left = len(state.files)
        message = (
            f"Merged {removed} files to {added}, with {rows} rows. The table has {left} files."
            if removed
            else f"There is nothing to merge. The table has {left} files."
        )
        return order.done(
            message,
            {
                "files_removed": removed,
                "files_added": added,
                "rows": rows,
                "files": left,
                "versions": versions,
            },
        )

    def _of_order(
        self, state: TableState, order: LakeOrder, ours: set[str]
    ) -> dict[PartitionValues, list[DataFile]]:
        return {
            partition: [file for file in files if file.name in ours]
            for partition, files in state.partitions().items()
            if matches(partition, order.partition)
        }

    def _vacuum(self, order: LakeOrder, query: TableQuery) -> LakeOrder:
        least = self._settings.lake_vacuum_hours
        hours = least if order.hours is None else order.hours
        refuse_retention(hours, least=least, is_forced=order.is_forced)
        _changeable(DeltaLog(query.location), order.table)
        table = MaintainedTable(name=order.table, location=query.location, codec=query.sink.codec)
        rules = MergeRules(target_bytes=self._target, least_files=2, most_bytes=self._target)
        maintenance = TableMaintenance(self._spark, table, rules, clock_ms=self._clock_ms)
        deleted = maintenance.vacuum(hours * _HOUR_MS, is_dry_run=order.is_dry_run)
        size = sum(file.size for file in deleted)
        verb = "Would delete" if order.is_dry_run else "Deleted"
        return order.done(
            f"{verb} {len(deleted)} files with {size} bytes that no version of the last {hours} hours has.",
            {
                "files_deleted": len(deleted),
                "bytes": size,
                "hours": hours,
                "is_dry_run": order.is_dry_run,
                "files": sorted(file.name for file in deleted)[:_MOST_FILES_NAMED],
            },
        )

    def _restore(self, order: LakeOrder, query: TableQuery) -> LakeOrder:
        assert order.version is not None
        log = DeltaLog(query.location)
        if order.attempts > 1 and (done := restored_by(log, order.id)) is not None:
            # The process ended before it could answer.
            message = (
                f"Table {order.table} was restored to version {order.version} in version {done.version}."
            )
            return order.done(message, {"version": order.version, "new_version": done.version})
        topic = self._topic(query)
        starts = self._starts(topic)
        for _ in range(_MOST_ATTEMPTS):
            plan = plan_restore(log, order.version, name=order.table)
            back = returning(plan, topic_id=topic.topic_id, starts=starts)
            # A version that has read nothing begins where the topic does.
            has_gap = bool(back.expired and plan.progress.positions.topic_id)
            if has_gap and self._settings.pipeline_on_gap == "stop":
                raise HeadraceError(
                    "lake_unsupported",
                    f"Table {order.table} cannot be restored to version {order.version}: records since then "
                    "have expired in the topic, and pipeline_on_gap is stop, so the connector would fail.",
                    remedy="Choose a newer version, or set pipeline_on_gap to continue.",
                )
            if query.sink.starts_at_latest and not plan.progress.positions.topic_id:
                raise HeadraceError(
                    "lake_unsupported",
                    f"Version {order.version} of table {order.table} had read nothing yet, and the connector "
                    "would begin at the end of the topic again: nothing would come back.",
                    remedy="Choose a newer version.",
                )
            version: int | None = plan.before.number
            if not plan.changes_nothing:
                progress = plan.progress
                if plan.is_doubtful:
                    progress = progress.bounded(
                        bounds_of_rows(self._spark, query.location.uri, version=plan.version)
                    )
                version = commit_restore(log, plan, progress=progress, order=order.id)
            if version is not None:
                return order.done(
                    restored_text(plan, back, table=order.table, topic=topic.name),
                    as_content(plan, back) | {"new_version": version},
                )
        raise HeadraceError(
            "pipeline_failed",
            f"Table {order.table} was not restored: it keeps changing meanwhile.",
            remedy="Try again when nobody else changes the table.",
        )

    def _rebuild(self, order: LakeOrder, query: TableQuery) -> LakeOrder:
        topic = self._topic(query)
        # Before the plan: Spark would look for the table of a connector that has not written yet.
        state = _changeable(DeltaLog(query.location), order.table)
        chosen_partition(state.partitions(), order.partition, table=order.table)
        starts = self._starts(topic)
        ends = self._cluster.latest([topic])
        if all(starts.get(place[1]) == end for place, end in ends.items()):
            raise HeadraceError(
                "lake_unsupported",
                f"Table {order.table} cannot be rebuilt: all records of topic {topic.name} have expired.",
                remedy="The table is as it was. `headrace lake restore` goes back to an older version.",
            )
        for _ in range(_MOST_LESSONS):
            try:
                rebuilt = query.rebuild({topic.name: topic}).run(order.partition, starts=starts)
                break
            except Exception as error:
                if not query.has_learned(error):
                    raise
                logger.info("The rebuild of table %s begins again: it has learned a schema", order.table)
        else:
            raise HeadraceError(
                "pipeline_failed",
                f"The records of table {order.table} have more than {_MOST_LESSONS} schemas that are new.",
            )
        doubles = f" {rebuilt.doubles} double rows are gone." if rebuilt.doubles else ""
        return order.done(
            f"Rebuilt partition {partition_text(rebuilt.partition)} from topic {topic.name}: {rebuilt.rows} "
            f"rows, {rebuilt.removed} files replaced by {rebuilt.added}, in version {rebuilt.version}."
            f"{doubles}",
            {
                "partition": dict(rebuilt.partition),
                "rows": rebuilt.rows,
                "files_removed": rebuilt.removed,
                "files_added": rebuilt.added,
                "doubles_removed": rebuilt.doubles,
                "version": rebuilt.version,
            },
        )

    def _topic(self, query: TableQuery) -> TopicIdentity:
        (name,) = query.source_topics
        found = self._cluster.topic(name)
        if found is None:
            raise HeadraceError(
                "no_such_topic",
                f"Topic {name} of table {query.location.name} does not exist any more.",
                remedy="Nothing could be read again from it.",
            )
        return found

    def _starts(self, topic: TopicIdentity) -> Offsets:
        earliest = self._cluster.earliest([topic])
        return {place[1]: offset for place, offset in earliest.items()}


def _changeable(log: DeltaLog, name: str) -> TableState:
    """Raises no_such_table, lake_damaged, lake_unsupported."""
    try:
        state = TableState(log)
    except FileNotFoundError as error:
        raise HeadraceError(
            "no_such_table",
            f"There is no table {name} at {log.table} yet.",
            remedy="Its connector creates it with the first record.",
        ) from error
    except ValueError as error:
        raise HeadraceError(
            "lake_damaged",
            f"Table {name} cannot be read: {error}.",
            remedy=f"Run `headrace lake repair {name}`.",
        ) from error
    if state.unsupported:
        raise HeadraceError("lake_unsupported", f"Table {name} cannot be changed: {state.unsupported}.")
    return state
