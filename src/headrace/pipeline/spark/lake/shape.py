"""The shape of a table's rows: how records of a topic become them, known before the first record is read.

A record is read (`values.py`), transformed (`pipeline/sink_records/transforms/`) and put into a folder
(`partitioning.py`); the columns of the table follow from that. Columns are expressions over Spark's Kafka
source; nothing here reads a record.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import Converter, ConverterKind, LakeSink, NullValues
from headrace.lake.types import Struct
from headrace.pipeline.sink_records.records import Record, Typed, typed
from headrace.pipeline.sink_records.stored_columns import stored_columns, value_columns
from headrace.pipeline.sink_records.transforms import transformed
from headrace.pipeline.spark.lake.partitioning import partitions
from headrace.pipeline.spark.lake.retyping import fitted
from headrace.pipeline.spark.lake.rows import COLUMN, DROPPED
from headrace.pipeline.spark.lake.spark_columns import nothing
from headrace.pipeline.spark.lake.transforming import SPARK
from headrace.pipeline.spark.lake.values import ValueReader
from headrace.pipeline.spark.steps.rows import REASON

# Columns in between, each made once for a record.
_PARSED_KEY: Final = "__PARSED_KEY"
_PARSED_VALUE: Final = "__PARSED_VALUE"
_KEY: Final = "__READ_KEY"
_VALUE: Final = "__READ_VALUE"
_MADE: Final = "__MADE_"
_KEPT: Final = "__KEPT"
_IS_NULL: Final = "__IS_NULL"
_RECORD_REASON: Final = "__RECORD_REASON"
_FOLDER_REASON: Final = "__FOLDER_REASON"


class TableShape:
    """Of the table of one topic; `keys` is None if keys are not read.

    Raises lake_unsupported if the sink cannot work on records of these types.
    """

    def __init__(
        self, sink: LakeSink, topic: str, values: ValueReader, keys: ValueReader | None = None
    ) -> None:
        self._sink = sink
        self._values = values
        self._keys = keys
        reason = values.reason(F.col("value"), F.col(_PARSED_VALUE))
        if keys is not None:
            reason = F.coalesce(reason, keys.reason(F.col("key"), F.col(_PARSED_KEY)))
        record = transformed(
            Record(
                topic=topic,
                key=None if keys is None else _typed(keys, sink.key, _KEY),
                value=_typed(values, sink.value, _VALUE),
                headers=F.col("headers"),
                # Kafka's -1 is no time.
                timestamp=F.when(F.unix_millis("timestamp") != -1, F.col("timestamp")),
                partition=F.col("partition"),
                offset=F.col("offset"),
                reason=reason,
            ),
            sink.transformations,
        )
        folders = partitions(sink.partitioning, record)
        stored = stored_columns(record, stores_keys=sink.stores_keys, stores_headers=sink.stores_headers)
        self._record = record
        self._folder_reason = folders.reason
        self._columns = (*value_columns(record.value), *folders.derived, *stored)
        self.partition_columns = folders.names
        # Those among them that are no fields of the value.
        self.derived_columns = tuple(each.name for each in folders.derived)

    @property
    def struct(self) -> Struct:
        """The columns that records have. The table may have more, or others of these names."""
        return Struct(fields=tuple(each.field for each in self._columns))

    def rows(self, records: DataFrame, table: Struct) -> DataFrame:
        """`records` with the columns of `table`, numbered, a reason, and whether they are dropped."""
        read = records.withColumn(_PARSED_VALUE, self._values.parsed(F.col("value")))
        read = read.withColumn(_VALUE, self._values.value(F.col(_PARSED_VALUE)))
        if self._keys is not None:
            read = read.withColumn(_PARSED_KEY, self._keys.parsed(F.col("key")))
            read = read.withColumn(_KEY, self._keys.value(F.col(_PARSED_KEY)))
        raw = [F.col(name) for name in records.columns]
        keep = F.lit(True) if self._record.keep is None else self._record.keep
        made = read.select(
            *raw,
            *(each.column.alias(f"{_MADE}{number}") for number, each in enumerate(self._columns)),
            keep.alias(_KEPT),
            (~self._record.value.present).alias(_IS_NULL),
            self._record.reason.alias(_RECORD_REASON),
            self._folder_reason.alias(_FOLDER_REASON),
        )
        fields, misfits = self._fitted(table)
        dropped = ~F.col(_KEPT)
        reasons = [F.col(_FOLDER_REASON), *misfits]
        match self._sink.null_values:
            case NullValues.IGNORE:
                dropped = dropped | F.col(_IS_NULL)
            case NullValues.FAIL:
                # What is wrong with the folder of a record without a value is that it has none.
                reasons.insert(0, F.when(F.col(_IS_NULL), F.lit("The value is null.")))
            case NullValues.WRITE:
                reasons = [F.when(~F.col(_IS_NULL), each) for each in reasons]
        # A record that cannot be read or transformed is never dropped, and one that is dropped has no reason.
        dropped = F.col(_RECORD_REASON).isNull() & dropped
        reason = F.coalesce(F.col(_RECORD_REASON), F.when(~dropped, F.coalesce(*reasons)))
        numbered = (each.alias(f"{COLUMN}{number}") for number, each in enumerate(fields))
        return made.select(*raw, *numbered, reason.alias(REASON), dropped.alias(DROPPED))

    def _fitted(self, table: Struct) -> tuple[list[Column], list[Column]]:
        """The table's columns, and the reasons of records that do not fit them."""
        numbers = {each.name.casefold(): number for number, each in enumerate(self._columns)}
        fields: list[Column] = []
        misfits: list[Column] = []
        for field in table.fields:
            number = numbers.get(field.name.casefold())
            if number is None:
                fields.append(nothing(field.type))
                continue
            given, made = self._columns[number].field.type, F.col(f"{_MADE}{number}")
            if given == field.type:
                fields.append(made)
                continue
            fit = fitted(given, field.type, field.name)
            fields.append(fit.value(made))
            if fit.problem is not None:
                misfits.append(fit.problem(made))
        return fields, misfits


def _typed(reader: ValueReader, converter: Converter, name: str) -> Typed[Column]:
    """What a reader gives. Texts and bytes are not records: the reader gives them as its only column."""
    has_schema = converter.kind is not ConverterKind.JSON or converter.has_schemas
    if converter.kind in (ConverterKind.STRING, ConverterKind.BYTES):
        (only,) = reader.struct.fields
        return typed(SPARK, only.type, F.col(name).getField(only.name), has_schema=has_schema)
    return typed(SPARK, reader.struct, F.col(name), has_schema=has_schema)
