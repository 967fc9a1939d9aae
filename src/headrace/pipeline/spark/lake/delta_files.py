"""Writes data files of a Delta table through Delta's own code, without committing them.

Delta's writer commits as soon as the files are written, unsynced, and whoever wrote in between. Here files
come first and the commit later, by `lake/delta_log.py`: after they are synced, and only as the very next
version. Files that are never committed are not part of the table; VACUUM removes them.

Uses classes of Delta that are not part of its interface, so it belongs to the pinned version
(`java/artifacts.toml`). One writer per table. Belongs to the thread that writes batches.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.layout import TableLayout
from headrace.lake.protocol import impossible_features
from headrace.lake.sink import S3Storage
from headrace.pipeline.spark.lake.bounds import without_known
from headrace.pipeline.spark.s3a import use_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The schema of a table, as Spark's JSON, and its partition columns."""

    schema: str
    partition_columns: tuple[str, ...]


def definition_of(spark: SparkSession, uri: str) -> Definition | None:
    """None if there is no table."""
    jvm, session = spark._jvm, spark._jsparkSession
    assert jvm is not None
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    logs.invalidateCache(session, jvm.org.apache.hadoop.fs.Path(uri))
    none = jvm.scala.Option.empty()
    metadata = logs.forTable(session, uri).update(False, none, none).metadata()
    if metadata.schema().isEmpty():
        return None
    columns = metadata.partitionColumns()
    return Definition(
        schema=str(metadata.schemaString()),
        partition_columns=tuple(str(columns.apply(number)) for number in range(columns.size())),
    )


class DeltaFiles:
    """The data files of one table, which is created if it does not exist: `DataFiles` of Delta."""

    def __init__(self, spark: SparkSession, table: TableLayout) -> None:
        jvm, session = spark._jvm, spark._jsparkSession
        assert jvm is not None
        self.spark = spark
        self._jvm = jvm
        self._none = jvm.scala.Option.empty()
        self.log = DeltaLog(table.location)
        self._uri = path = table.location.uri
        if isinstance(table.location.storage, S3Storage):
            use_storage(spark, table.location.storage)
        logs = jvm.org.apache.spark.sql.delta.DeltaLog
        # Delta remembers logs by their path: the table may have been repaired or replaced since.
        logs.invalidateCache(session, jvm.org.apache.hadoop.fs.Path(path))
        spark.sql(table.definition())
        self._log = logs.forTable(session, path)
        # Only its schema and settings are used, so it need not be the newest: another commit would be noticed
        # (`lake/resuming.py`).
        self._snapshot = self._log.update(False, self._none, self._none)
        if features := impossible_features(str(self._snapshot.protocol().json())):
            raise HeadraceError(
                "lake_unsupported",
                f"Table {table.name} has features of Delta that the lake does not write: "
                f"{', '.join(features)}.",
                remedy=f"Remove them with ALTER TABLE delta.`{path}` DROP FEATURE, or move the folder away: "
                "the pipeline creates the table again from what its topic still has.",
            )

    def write(self, frame: DataFrame) -> list[str]:
        """Write the rows, and return the `add` actions that make the files part of the table, as JSON."""
        data = frame._jdf
        self._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(data.sparkSession())
        transaction = self._log.startTransaction(self._none, self._jvm.scala.Option.apply(self._snapshot))
        actions = transaction.writeFiles(data)
        # All at once: a call to the JVM for each file takes long if there is much to do.
        written = self._jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(actions)
        return [json.dumps({"add": add}, separators=(",", ":")) for add in json.loads(written)]

    @property
    def takes_any_rows(self) -> bool:
        """Whether files of rows with the right columns are all that the table asks for: others may have given
        it constraints, generated columns or other names in its files, of which Delta's own writer takes care.
        """
        metadata = json.loads(self._snapshot.metadata().json())["metaData"]
        configuration = metadata.get("configuration") or {}
        is_plain = configuration.get("delta.columnMapping.mode", "none") == "none"
        has_rules = any(name.startswith("delta.constraints.") for name in configuration)
        return is_plain and not has_rules and not _has_rules(json.loads(metadata["schemaString"]))

    def rows_in(self, adds: Sequence[str]) -> int:
        return sum(json.loads(json.loads(text)["add"]["stats"])["numRecords"] for text in adds)

    def without_known(self, suspects: DataFrame) -> DataFrame:
        return without_known(suspects, self._uri)

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version, and remove commits that have expired."""
        self._snapshot = self._log.update(False, self._none, self._none)
        self._log.checkpointAndCleanUpDeltaLog(self._snapshot, self._none)
        self.log.sync_checkpoint(int(self._snapshot.version()))


def _has_rules(kind: Any) -> bool:
    """Whether a field of this type, in Spark's JSON, must not be null or has something to say for itself."""
    match kind:
        case {"type": "struct", "fields": fields}:
            return any(
                not each["nullable"] or each["metadata"] or _has_rules(each["type"]) for each in fields
            )
        case {"type": "array", "elementType": element}:
            return _has_rules(element)
        case {"type": "map", "valueType": value}:
            return _has_rules(value)
        case _:
            return False
