"""Aggregate functions on a real Spark: one job for all examples, and for groups that have nothing."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, functions

from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.functions.spark_text import string_literal
from headrace.pipeline.expressions.functions.table import ALL
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
)

from .evaluating import declared, plain
from .test_functions_in_spark import same

DECIMAL = DecimalType(4, 2)
SMALL_DECIMAL = DecimalType(2, 1)
LIST = ArrayType(INTEGER)

# A row is a record: its group, its place in the order, and values. They come out of order.
COLUMNS: dict[str, DataType] = {
    "i": INTEGER,
    "l": BIGINT,
    "d": DOUBLE,
    "y": DOUBLE,
    "s": VARCHAR,
    "dec": DECIMAL,
    "small": SMALL_DECIMAL,
    "list": LIST,
    "lists": ArrayType(DOUBLE),
    "b": BYTES,
    "date": DATE,
    "time": TIME,
    "stamp": TIMESTAMP,
    "same": VARCHAR,
    "map": MapType(VARCHAR, INTEGER),
    "flag": BOOLEAN,
}
ROWS: list[dict[str, Any]] = [
    {
        "g": 1,
        "o": 3,
        "i": 3,
        "l": 30,
        "d": 1.5,
        "y": 8.0,
        "s": "b",
        "dec": "1.25",
        "small": "9.0",
        "list": "array(1, NULL)",
    },
    {
        "g": 1,
        "o": 1,
        "i": 1,
        "l": 10,
        "d": -3.5,
        "y": -2.0,
        "s": "a",
        "dec": "2.50",
        "small": "5.0",
        "list": "array(5)",
    },
    {"g": 1, "o": 4, "i": 5, "l": 2**63 - 1, "d": -4.5, "y": -1.0, "s": None, "dec": None, "same": "x"},
    {"g": 1, "o": 2, "i": 5, "d": 3.0, "y": 11.0, "s": "b", "same": "x", "lists": "array(0.5D, 0.25D)"},
    {"g": 1, "o": 5, "i": None, "d": None, "y": -6.0, "s": "c", "same": "x", "map": "map('a', 1)"},
    # Nothing but nulls.
    {"g": 2, "o": 1},
    {"g": 2, "o": 2},
    # A single value, and sums that do not fit.
    {
        "g": 3,
        "o": 1,
        "i": 2**31 - 1,
        "d": 2.0,
        "y": 1.0,
        "same": "x",
        "date": "DATE'2021-01-02'",
        "time": "5",
        "b": "X'01'",
    },
    {
        "g": 3,
        "o": 2,
        "i": 1,
        "same": "x",
        "date": "DATE'2020-01-02'",
        "time": "7",
        "b": "X'02'",
        "stamp": "TIMESTAMP'2021-01-02 00:00:00'",
    },
    # Values that are all the same.
    {"g": 4, "o": 1, "i": 7, "d": 1.0, "y": 1.0, "s": "z"},
    {"g": 4, "o": 2, "i": 7, "d": 1.0, "y": 2.0, "s": "z"},
]


@dataclass(frozen=True)
class Aggregated:
    """What a call gives for each group: four values."""

    name: str
    arguments: tuple[tuple[DataType, str], ...]
    expected: tuple[Any, Any, Any, Any]


def of(name: str, *arguments: str | int | bool, expected: tuple[Any, Any, Any, Any]) -> Aggregated:
    found: list[tuple[DataType, str]] = []
    for each in arguments:
        if isinstance(each, bool):
            found.append((BOOLEAN, str(each).upper()))
        elif isinstance(each, int):
            found.append((INTEGER, str(each)))
        else:
            found.append((COLUMNS[each], f"`{each}`"))
    return Aggregated(name, tuple(found), expected)


NAN = math.nan
CORRELATION = statistics.correlation([1.5, -3.5, -4.5, 3.0], [8.0, -2.0, -1.0, 11.0])
EXAMPLES = (
    of("ATTR", "same", expected=(None, None, "x", None)),
    of("ATTR", "i", expected=(None, None, None, 7)),
    of("ATTR", "s", expected=(None, None, None, "z")),
    of("AVG", "i", expected=(3.5, 0.0, 2.0**30, 7.0)),
    of("AVG", "d", expected=(-0.875, 0.0, 2.0, 1.0)),
    of("AVG", "l", expected=((2**63 - 1 + 40) / 3, 0.0, 0.0, 0.0)),
    of("COLLECT_LIST", "i", expected=([1, 5, 3, 5, None], [None, None], [2**31 - 1, 1], [7, 7])),
    of(
        "COLLECT_LIST",
        "map",
        expected=([None, None, None, None, {"a": 1}], [None, None], [None, None], [None, None]),
    ),
    of("COLLECT_SET", "i", expected=([1, 3, 5, None], [None], [1, 2**31 - 1], [7])),
    of("COLLECT_SET", "s", expected=(["a", "b", "c", None], [None], [None], ["z"])),
    of("CORRELATION", "d", "y", expected=(CORRELATION, NAN, NAN, NAN)),
    of("CORRELATION", "i", "i", expected=(1.0, NAN, 1.0, NAN)),
    of("COUNT", expected=(5, 2, 2, 2)),
    of("COUNT", "i", expected=(4, 0, 2, 2)),
    of("COUNT", "map", expected=(1, 0, 0, 0)),
    of("COUNT_DISTINCT", "i", expected=(3, 0, 2, 1)),
    of("COUNT_DISTINCT", "list", expected=(2, 0, 0, 0)),
    of("EARLIEST_BY_OFFSET", "i", expected=(1, None, 2**31 - 1, 7)),
    of("EARLIEST_BY_OFFSET", "l", False, expected=(10, None, None, None)),
    of("EARLIEST_BY_OFFSET", "same", False, expected=(None, None, "x", None)),
    of("EARLIEST_BY_OFFSET", "i", 3, expected=([1, 5, 3], [], [2**31 - 1, 1], [7, 7])),
    of(
        "EARLIEST_BY_OFFSET", "same", 2, False, expected=([None, "x"], [None, None], ["x", "x"], [None, None])
    ),
    of("HISTOGRAM", "s", expected=({"a": 1, "b": 2, "c": 1}, {}, {}, {"z": 2})),
    of("LATEST_BY_OFFSET", "i", expected=(5, None, 1, 7)),
    of("LATEST_BY_OFFSET", "i", False, expected=(None, None, 1, 7)),
    of("LATEST_BY_OFFSET", "i", True, expected=(5, None, 1, 7)),
    of("LATEST_BY_OFFSET", "map", expected=({"a": 1}, None, None, None)),
    of("LATEST_BY_OFFSET", "i", 2, expected=([3, 5], [], [2**31 - 1, 1], [7, 7])),
    of("LATEST_BY_OFFSET", "i", 2, False, expected=([5, None], [None, None], [2**31 - 1, 1], [7, 7])),
    of("MAX", "i", expected=(5, None, 2**31 - 1, 7)),
    of("MAX", "s", expected=("c", None, None, "z")),
    of("MAX", "dec", expected=(Decimal("2.50"), None, None, None)),
    of("MAX", "time", expected=(None, None, 7, None)),
    of("MAX", "b", expected=(None, None, b"\x02", None)),
    of("MIN", "d", expected=(-4.5, None, 2.0, 1.0)),
    of("MIN", "l", expected=(10, None, None, None)),
    of("STDDEV_SAMP", "i", expected=(11 / 3, 0.0, (2.0**31 - 2) ** 2 / 2, 0.0)),
    of("STDDEV_SAMPLE", "i", expected=(math.sqrt(11 / 3), 0.0, (2**31 - 2) / math.sqrt(2), 0.0)),
    of("STDDEV_SAMPLE", "d", expected=(statistics.stdev([1.5, -3.5, -4.5, 3.0]), 0.0, 0.0, 0.0)),
    of("SUM", "i", expected=(14, 0, None, 14)),
    of("SUM", "l", expected=(None, 0, 0, 0)),
    of("SUM", "d", expected=(-3.5, 0.0, 2.0, 2.0)),
    of("SUM", "dec", expected=(Decimal("3.75"), Decimal("0.00"), Decimal("0.00"), Decimal("0.00"))),
    of("SUM", "small", expected=(None, Decimal("0.0"), Decimal("0.0"), Decimal("0.0"))),
    of("SUM_LIST", "list", expected=(6, 0, 0, 0)),
    of("SUM_LIST", "lists", expected=(0.75, 0.0, 0.0, 0.0)),
    of("TOPK", "i", 2, expected=([5, 5], [], [2**31 - 1, 1], [7, 7])),
    of("TOPK", "s", 2, expected=(["c", "b"], [], [], ["z", "z"])),
    of(
        "TOPK",
        "i",
        "s",
        "d",
        3,
        expected=(
            [
                {"sort_col": 5, "col0": "b", "col1": 3.0},
                {"sort_col": 5, "col0": None, "col1": -4.5},
                {"sort_col": 3, "col0": "b", "col1": 1.5},
            ],
            [],
            [{"sort_col": 2**31 - 1, "col0": None, "col1": 2.0}, {"sort_col": 1, "col0": None, "col1": None}],
            [{"sort_col": 7, "col0": "z", "col1": 1.0}, {"sort_col": 7, "col0": "z", "col1": 1.0}],
        ),
    ),
    of(
        "TOPK",
        "s",
        "i",
        1,
        expected=([{"sort_col": "c", "col0": None}], [], [], [{"sort_col": "z", "col0": 7}]),
    ),
    of("TOPKDISTINCT", "i", 2, expected=([5, 3], [], [2**31 - 1, 1], [7])),
    of("TOPKDISTINCT", "dec", 1, expected=([Decimal("2.50")], [], [], [])),
)


def _constant(kind: DataType, value: Any) -> str:
    if value is None:
        return f"CAST(NULL AS {spark_type(kind)})"
    if kind is VARCHAR:
        return string_literal(value)
    if kind is DOUBLE:
        return f"{value!r}D"
    return f"CAST({value} AS {spark_type(kind)})"


def test_each_aggregate_has_an_example() -> None:
    aggregates = {name for name, each in ALL.items() if each.kind is FunctionKind.AGGREGATE}
    assert aggregates == {example.name for example in EXAMPLES}


def _records(spark: SparkSession) -> DataFrame:
    rows = ", ".join(
        f"({row['g']}, named_struct('time', 0L, 'partition', 0, 'offset', {row['o']}L), "
        + ", ".join(_constant(kind, row.get(name)) for name, kind in COLUMNS.items())
        + ")"
        for row in ROWS
    )
    names = ", ".join(f"`{name}`" for name in COLUMNS)
    return spark.sql(f"SELECT * FROM VALUES {rows} AS t(g, __ORDER, {names})")


def _aggregated(records: DataFrame) -> DataFrame:
    calls = []
    for number, example in enumerate(EXAMPLES):
        resolution = ALL[example.name].resolve(tuple(kind for kind, _ in example.arguments))
        assert resolution is not None, example
        calls.append(f"{resolution.spark(tuple(text for _, text in example.arguments))} AS r{number}")
    return records.groupBy("g").agg(*map(functions.expr, calls))


def _wrong(groups: dict[int, Row]) -> list[str]:
    found = []
    for number, example in enumerate(EXAMPLES):
        values = tuple(plain(groups[group][number + 1]) for group in (1, 2, 3, 4))
        if not all(same(one, other) for one, other in zip(values, example.expected, strict=True)):
            found.append(f"{example} gives {values}")
    return found


def test_aggregates(spark: SparkSession) -> None:
    found = _aggregated(_records(spark).repartition(2).localCheckpoint())
    for example, field in zip(EXAMPLES, found.schema.fields[1:], strict=True):
        resolution = ALL[example.name].resolve(tuple(kind for kind, _ in example.arguments))
        assert resolution is not None
        assert field.dataType.simpleString().lower() == declared(resolution.type), example
    wrong = _wrong({int(row["g"]): row for row in found.collect()})
    assert not wrong, "\n".join(wrong)


def test_aggregates_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """In two batches: what a group keeps between them is enough."""
    records = _records(spark)
    for part in ("__ORDER.offset <= 2", "__ORDER.offset > 2"):
        records.where(part).coalesce(1).write.mode("append").parquet(str(tmp_path / "records"))
    stream = (
        spark.readStream.schema(records.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "records"))
    )
    groups: dict[int, Row] = {}
    batches: list[int] = []

    def keep(batch: DataFrame, number: int) -> None:
        batches.append(number)
        groups.update({int(row["g"]): row for row in batch.collect()})

    query = (
        _aggregated(stream)
        .writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(batches) == 2
    wrong = _wrong(groups)
    assert not wrong, "\n".join(wrong)
