"""Runs transformations on Spark, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import Predicate, Transformation
from headrace.lake.types import Type, ddl
from headrace.pipeline.sink_records.records import Record, typed
from headrace.pipeline.sink_records.transforms import transformed
from headrace.pipeline.spark.lake.transforming import SPARK
from tests.pipeline.lake.plain_values import from_spark, spark_value

TOPIC = "shop.orders"
# Of the first record; each further one has the next offset.
TIMESTAMP = 1_700_000_000_123
PARTITION = 3
OFFSET = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a record. `value` and `key` are None for records that failed or were dropped."""

    value: Any = None
    key: Any = None
    fails: bool = False
    is_dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    topic: str
    value_type: Type
    rows: list[Outcome]
    reasons: list[str | None]

    @property
    def values(self) -> list[Any]:
        return [row.value for row in self.rows]


def step(
    kind: str,
    settings: Mapping[str, str] | None = None,
    *,
    side: str = "value",
    predicate: Predicate | None = None,
    negate: bool = False,
) -> Transformation:
    is_whole = kind in ("Filter", "RegexRouter", "ValueToKey")
    return Transformation(
        name="it",
        kind=kind,
        side="" if is_whole else side,
        settings=settings or {},
        predicate=predicate,
        negate=negate,
    )


def records(
    spark: SparkSession,
    kind: Type,
    values: Sequence[Any],
    *,
    keys: Sequence[Any] | None = None,
    key_kind: Type | None = None,
    headers: Sequence[str] = (),
    has_schema: bool = True,
) -> tuple[Any, Record[Column]]:
    """A frame of records, and the record that its columns are. The first record alone has the headers."""
    schema = f"value {ddl(kind)}, number INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows: list[tuple[Any, ...]] = [
        (spark_value(kind, value), number, [(name, b"x") for name in headers] if number == 0 else None)
        for number, value in enumerate(values)
    ]
    if key_kind is not None:
        schema += f", key {ddl(key_kind)}"
        rows = [(*row, spark_value(key_kind, each)) for row, each in zip(rows, keys or (), strict=True)]
    # In one task and as data, not as constants, which Spark would compute while it plans.
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 1), schema)
    record = Record(
        topic=TOPIC,
        key=None if key_kind is None else typed(SPARK, key_kind, F.col("key"), has_schema=has_schema),
        value=typed(SPARK, kind, F.col("value"), has_schema=has_schema),
        headers=F.col("headers"),
        timestamp=F.timestamp_millis(F.lit(TIMESTAMP).cast("bigint") + F.col("number")),
        partition=F.lit(PARTITION),
        offset=F.lit(OFFSET).cast("bigint") + F.col("number"),
        reason=F.lit(None).cast("string"),
    )
    return frame, record


def outcomes(
    spark: SparkSession, kind: Type, values: Sequence[Any], steps: Sequence[Transformation], **more: Any
) -> Outcomes:
    frame, record = records(spark, kind, values, **more)
    new = transformed(record, steps)
    none = F.lit(None).cast("string")
    made = frame.select(
        new.value.column.alias("value"),
        (none if new.key is None else new.key.column).alias("key"),
        new.reason.alias("reason"),
        (F.lit(True) if new.keep is None else new.keep).alias("keep"),
    )
    assert made.schema["value"].dataType.simpleString() == simple_string(spark, new.value.type)
    rows, reasons = [], []
    for row in made.collect():
        reasons.append(row.reason)
        if row.reason is not None:
            rows.append(Outcome(fails=True))
        elif not row.keep:
            rows.append(Outcome(is_dropped=True))
        else:
            rows.append(Outcome(value=from_spark(row.value), key=from_spark(row.key)))
    return Outcomes(topic=new.topic, value_type=new.value.type, rows=rows, reasons=reasons)


def simple_string(spark: SparkSession, kind: Type) -> str:
    return spark.createDataFrame([], f"it {ddl(kind)}").schema["it"].dataType.simpleString()
