"""Writes plain files through Spark's own writers, beside the table, where no reader looks.

`lake/plain_log.py` gives them their names with the commit. Folders are made of columns that only Spark sees,
so that files can have, or lack, the fields that name their folders: Avro and JSON have all fields of the
record, as readers of single files expect; Parquet has not those in folders, as in Hive's convention, where a
column that is in both places is an error of many readers. No file has coordinates.

Files of bytes have the values and nothing else; Spark's text writer writes the bytes of a string as they are.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.file_names import FileNames, Stretch, Written, folder_of, partition_values, written
from headrace.lake.layout import TableLayout
from headrace.lake.plain_columns import check_columns
from headrace.lake.plain_log import STAGED, PlainDefinition, PlainLog
from headrace.lake.sink import ConverterKind, FileFormat, LakeSink, S3Storage
from headrace.lake.types import Struct
from headrace.pipeline.spark.s3a import use_storage
from headrace.pipeline.spark.steps.rows import column

_FOLDER: Final = "__FOLDER_"
_FORMATS: Final = {
    FileFormat.PARQUET: "parquet",
    FileFormat.AVRO: "avro",
    FileFormat.JSON: "json",
    FileFormat.BYTES: "text",
}
_NOT_IN_RECORD_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
# Nobody looks at the folder before all of it is written, so tasks may put their files there by themselves.
_COMMITTER: Final = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTable:
    """What is written: `columns` are those of the table, `derived` the folders among them that are no fields
    of records. `partitions` is the number of the topic's.
    """

    sink: LakeSink
    columns: Struct
    derived: tuple[str, ...]
    partitions: int

    def definition(self, partition_columns: tuple[str, ...]) -> PlainDefinition:
        return PlainDefinition(
            file_format=self.sink.file_format, columns=self.columns, partition_columns=partition_columns
        )

    def data(self, partition_columns: tuple[str, ...]) -> Struct:
        """The columns that files have."""
        is_parquet = self.sink.file_format is FileFormat.PARQUET
        left_out = {name.casefold() for name in (partition_columns if is_parquet else self.derived)}
        fields = tuple(each for each in self.columns.fields if each.name.casefold() not in left_out)
        return Struct(fields=fields)


class PlainFiles:
    """The files of one table, which is created if it does not exist: `DataFiles` of plain files.

    If `offsets_come_again`, names have more than offsets in them.
    """

    def __init__(self, spark: SparkSession, table: TableLayout, plain: PlainTable) -> None:
        """Raises lake_unsupported, lake_damaged."""
        if isinstance(table.location.storage, S3Storage):
            use_storage(spark, table.location.storage)
        # Spark's default is an old type of Parquet that other readers are about to drop.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        self.spark = spark
        self.offsets_come_again = False
        self._topic = table.name
        self._folders = table.partition_columns
        self._plain = plain
        self._data = plain.data(table.partition_columns)
        sink = plain.sink
        check_columns(sink.file_format, self._data, table=table.name)
        self._writes_bytes = sink.file_format is FileFormat.BYTES
        self._by_partition = sink.partitioning.by_partition
        self._options = _options(sink, table.name)
        self._names = FileNames(
            table.name,
            sink.plain_style,
            largest=sink.flush_size,
            ending=sink.plain_style.bytes_ending if self._writes_bytes else None,
        )
        # Of the next commit: its version, how many files it has, and the rows by the folders of the writes.
        self._version = 0
        self._files = 0
        self._rows: dict[str, int] = {}
        self._log = PlainLog(table.location)
        if self._log.open() is None:
            self._log.create(plain.definition(table.partition_columns))

    @property
    def log(self) -> PlainLog:
        return self._log

    def write(self, frame: DataFrame) -> list[str]:
        if self._version != self._log.next_version:
            self._version, self._files, self._rows = self._log.next_version, 0, {}
        staging = self._log.new_staging()
        seen = Observation()
        rows = frame.observe(seen, *self._measures())
        if self._by_partition:
            # In the order of their topic, as Confluent's sinks write them.
            rows = rows.sortWithinPartitions(layout.TOPIC_PARTITION, layout.TOPIC_OFFSET)
        folders = [f"{_FOLDER}{number}" for number in range(len(self._folders))]
        (
            rows.select(
                *self._columns(),
                *(column(name).alias(made) for name, made in zip(self._folders, folders, strict=True)),
            )
            .write.format(_FORMATS[self._plain.sink.file_format])
            .options(**self._options)
            .partitionBy(*folders)
            .save(self._log.staged_location(staging).uri)
        )
        counted = seen.get
        if not counted["rows"]:
            self._log.forget_staged(staging)
            return []
        self._rows[staging] = counted["rows"]
        files = [written(name, size) for name, size in self._log.staged_files(staging)]
        named = self._named(files, counted)
        self._files += len(files)
        return [self._add(file, staging, *named[file]) for file in files]

    def rows_in(self, adds: Sequence[str]) -> int:
        staged = (json.loads(text)["add"]["tags"][STAGED] for text in adds)
        return sum(self._rows[folder] for folder in {"/".join(name.split("/")[:3]) for name in staged})

    def without_known(self, suspects: DataFrame) -> DataFrame:
        """None: whoever reads the topic has left out what the table has (`plain_reading.py`)."""
        raise AssertionError(f"rows of plain files cannot be looked up: {suspects.columns}")

    def checkpoint(self) -> None:
        """A table of plain files has more files than commits, so its log is never what is long."""

    def _columns(self) -> list[Column]:
        if self._writes_bytes:
            (only,) = self._data.fields
            return [column(only.name).cast("string").alias("value")]
        return [column(each.name) for each in self._data.fields]

    def _measures(self) -> list[Column]:
        measures = [F.count(F.lit(1)).alias("rows")]
        if not self._by_partition:
            return measures
        measures.append(
            F.count_if(F.col(layout.TOPIC_PARTITION) >= self._plain.partitions).alias("elsewhere")
        )
        for number in range(self._plain.partitions):
            offset = F.when(F.col(layout.TOPIC_PARTITION) == number, F.col(layout.TOPIC_OFFSET))
            measures += [
                F.min(offset).alias(f"first_{number}"),
                F.max(offset).alias(f"last_{number}"),
                F.count(offset).alias(f"records_{number}"),
            ]
        return measures

    def _named(
        self, files: Sequence[Written], counted: Mapping[str, Any]
    ) -> dict[Written, tuple[str, int | None]]:
        if not self._by_partition:
            return self._names.of_version(files, self._version, first=self._files)
        if counted["elsewhere"]:
            raise HeadraceError(
                "pipeline_failed",
                f"Topic {self._topic} has got more partitions; the query starts again to read them.",
            )
        stretches = {
            number: Stretch(
                first=counted[f"first_{number}"],
                last=counted[f"last_{number}"],
                records=counted[f"records_{number}"],
            )
            for number in range(self._plain.partitions)
            if counted[f"records_{number}"]
        }
        version = self._version if self.offsets_come_again else None
        return self._names.of_partitions(files, stretches, version=version)

    def _add(self, file: Written, staging: str, name: str, rows: int | None) -> str:
        folder = folder_of(self._folders, file.folders)
        content: dict[str, Any] = {
            "path": quote(f"{folder}/{name}".lstrip("/"), safe="/=+"),
            "partitionValues": partition_values(self._folders, file.folders),
            "size": file.size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "tags": {STAGED: f"{staging}/{file.name}"},
        }
        if rows is not None:
            content["stats"] = json.dumps({"numRecords": rows})
        return json.dumps({"add": content}, separators=(",", ":"))


def _options(sink: LakeSink, table: str) -> dict[str, str]:
    options = {**_COMMITTER, "compression": sink.codec, "maxRecordsPerFile": str(sink.flush_size)}
    match sink.file_format:
        case FileFormat.AVRO:
            name = _NOT_IN_RECORD_NAMES.sub("_", table)
            options["recordName"] = f"_{name}" if name[0].isdigit() else name
        case FileFormat.JSON:
            # Of JSON without schemas, nobody knows whether a null was there; a schema says that it was.
            is_found = sink.value.kind is ConverterKind.JSON and not sink.value.has_schemas
            options |= {
                "ignoreNullFields": str(is_found).lower(),
                "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
                "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
            }
        case FileFormat.BYTES:
            options["lineSep"] = sink.plain_style.bytes_separator
    return options
