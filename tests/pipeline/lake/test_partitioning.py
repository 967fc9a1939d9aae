"""Partition columns: their names, values and types, and records whose values cannot name a folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError
from headrace.lake.sink import Partitioning, TimePartitions
from headrace.lake.types import Decimal, Simple, Struct
from headrace.pipeline.sink_records.stored_columns import HEADERS, KEY, stored_columns
from headrace.pipeline.spark.lake.partitioning import partitions
from tests.pipeline.lake.generated_values import ALL, rows
from tests.pipeline.lake.plain_values import from_spark, struct
from tests.pipeline.lake.transforming import PARTITION, records

EVENT = struct(
    kind=Simple.STRING,
    day=Simple.STRING,
    count=Simple.INT,
    inner=struct(zone=Simple.STRING, at=Simple.BIGINT, price=Simple.DOUBLE),
)
HOURLY = (("year", "YYYY"), ("month", "MM"), ("day_of", "dd"), ("hour", "HH"))
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def found(
    spark: SparkSession, kind: Struct, values: list[Any], by: Partitioning, **more: Any
) -> tuple[tuple[str, ...], list[Any]]:
    """The names, and for each record the values of the derived columns or the reason."""
    frame, record = records(spark, kind, values, **more)
    made = partitions(by, record)
    columns = [each.column.alias(each.name) for each in made.derived]
    collected = frame.select(made.reason.alias("reason"), *columns).collect()
    shown = [row.reason or tuple(from_spark(each) for each in row[1:]) for row in collected]
    return made.names, shown


def times(**more: Any) -> Partitioning:
    given: dict[str, Any] = {"columns": HOURLY, "duration_ms": HOUR_MS, "timezone": "UTC", **more}
    return Partitioning(time=TimePartitions(**given))


def test_fields(spark: SparkSession) -> None:
    by = Partitioning(fields=("KIND", "day", "inner.zone"), date_fields=("day",))
    values = [
        {"kind": "view", "day": "2024-02-29", "inner": {"zone": "eu"}},
        {"kind": None, "day": None, "inner": None},
        {"kind": "view", "day": "2024-02-30", "inner": {}},
        {"kind": "view", "day": "2024-2-3", "inner": {}},
        {"kind": "x" * 250, "day": "2024-02-29", "inner": {}},
        {"kind": "/" * 84, "day": "2024-02-29", "inner": {}},
        {"kind": "x" * 251, "day": "2024-02-29", "inner": {}},
        None,
    ]
    names, shown = found(spark, EVENT, values, by)
    assert names == ("kind", "day", "inner.zone")
    assert shown[0] == ("eu",)
    assert shown[1] == (None,)
    assert shown[2] == "day is not a date (yyyy-MM-dd): 2024-02-30."
    assert shown[3] == "day is not a date (yyyy-MM-dd): 2024-2-3."
    assert shown[4] == (None,)
    assert shown[5].startswith("kind is too long for the name of a folder: ////")
    assert shown[6].startswith("kind is too long")
    assert shown[7] == (None,)


def test_the_topics_partition(spark: SparkSession) -> None:
    names, shown = found(spark, EVENT, [None], Partitioning(by_partition=True))
    assert (names, shown) == (("partition",), [(PARTITION,)])


def test_fields_come_before_times(spark: SparkSession) -> None:
    by = replace(times(extractor="Record"), fields=("kind",))
    names, shown = found(spark, EVENT, [None], by)
    assert names == ("kind", "year", "month", "day_of", "hour")
    assert shown == [("2023", "11", "14", "22")]


@pytest.mark.parametrize(
    ("zone", "duration", "at", "expected"),
    [
        ("UTC", HOUR_MS, 1_709_210_096_789, ("2024", "02", "29", "12")),
        ("America/Los_Angeles", HOUR_MS, 1_709_210_096_789, ("2024", "02", "29", "04")),
        # The clock's own days, not those of UTC.
        ("America/Los_Angeles", DAY_MS, 1_709_260_000_000, ("2024", "02", "29", "00")),
        ("Asia/Kolkata", 6 * HOUR_MS, 1_709_210_096_789, ("2024", "02", "29", "18")),
        ("UTC", DAY_MS, -1, ("1970", "01", "01", "00")),
        # Joda-Time's Y is not the year of the week.
        ("UTC", HOUR_MS, 1_735_603_200_000, ("2024", "12", "31", "00")),
    ],
)
def test_times(spark: SparkSession, zone: str, duration: int, at: int, expected: Any) -> None:
    by = times(timezone=zone, duration_ms=duration, extractor="RecordField", field="inner.at")
    _, shown = found(spark, EVENT, [{"inner": {"at": at}}], by)
    assert shown == [expected]


def test_texts_in_paths(spark: SparkSession) -> None:
    by = times(columns=(("folder", "'y='YYYY'/d'''D-MMM-a"),), extractor="Record")
    _, shown = found(spark, EVENT, [None], by)
    assert shown == [("y=2023/d'318-Nov-PM",)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1709210096789", "2024-02-29 12"),
        ("-1", "1970-01-01 00"),
        ("2024", "1970-01-01 00"),
        ("2024-02", "2024-02-01 00"),
        ("2024-02-29", "2024-02-29 00"),
        ("2024-02-29T12:34", "2024-02-29 12"),
        ("2024-02-29T12:34:56.789Z", "2024-02-29 12"),
        ("2024-02-29T12:34:56,5+02:00", "2024-02-29 10"),
        ("2024-02-29T12:34:56-0130", "2024-02-29 14"),
        ("2024-02-30", None),
        ("2024-02-29 12:34", None),
        ("yesterday", None),
        ("", None),
        ("99999999999999999999", None),
        ("9223372036854775807", None),
        (None, None),
    ],
)
def test_times_in_texts(spark: SparkSession, text: str | None, expected: str | None) -> None:
    """As Confluent's extractor reads them: digits alone are milliseconds. -1 is rounded towards 1970."""
    by = times(columns=(("folder", "yyyy-MM-dd HH"),), extractor="RecordField", field="day")
    _, shown = found(spark, EVENT, [{"day": text}], by)
    if expected is None:
        assert isinstance(shown[0], str)
        assert shown[0].endswith(f": {'null' if text is None else text}.")
    else:
        assert shown == [(expected,)]


@pytest.mark.parametrize("name", ["small", "large", "day", "moment", "text"])
def test_no_time_ends_the_query(spark: SparkSession, name: str) -> None:
    _, shown = found(spark, ALL, rows(ALL, 200, seed=12), times(extractor="RecordField", field=name))
    assert any(isinstance(each, tuple) for each in shown)


def test_the_clock(spark: SparkSession) -> None:
    before = spark.sql("SELECT date_format(now(), 'yyyy')").collect()[0][0]
    _, shown = found(spark, EVENT, [None, {}], times())
    after = spark.sql("SELECT date_format(now(), 'yyyy')").collect()[0][0]
    assert {each[0] for each in shown} <= {before, after}


def test_floating_times_are_for_json_without_a_schema(spark: SparkSession) -> None:
    by = times(columns=(("year", "yyyy"),), extractor="RecordField", field="inner.price")
    values = [{"inner": {"price": 1.7e12}}, {"inner": {"price": float("nan")}}, {"inner": {"price": 1e300}}]
    _, shown = found(spark, EVENT, values, by, has_schema=False)
    assert shown[:2] == [("2023",), ("1970",)]
    assert "outside the years 1 to 9999" in shown[2]
    with pytest.raises(HeadraceError, match=r"inner\.price, which is DOUBLE"):
        found(spark, EVENT, values, by)


REFUSED = {
    "no such field": (Partitioning(fields=("nothing",)), "nothing, which does not exist"),
    "no such nested field": (Partitioning(fields=("inner.x",)), "inner.x"),
    "nested in a text": (Partitioning(fields=("kind.x",)), "kind.x"),
    "a record": (Partitioning(fields=("inner",)), "STRUCT"),
    "a floating number": (Partitioning(fields=("inner.price",)), "DOUBLE"),
    "dates in numbers": (Partitioning(fields=("count",), date_fields=("count",)), "INT"),
    "twice": (Partitioning(fields=("kind", "Kind")), "twice"),
    "the name of a field": (times(columns=(("day", "dd"),)), "has a field of that name"),
    "a zone": (times(timezone="Mars/Base"), "Mars/Base"),
    "a pattern": (times(columns=(("week", "xxxx-ww"),)), "xxxx-ww"),
    "an extractor": (times(extractor="Other"), "Other"),
    "no time in the field": (times(extractor="RecordField", field="none"), "none"),
    "a time in a record": (times(extractor="RecordField", field="inner"), "STRUCT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(spark: SparkSession, name: str) -> None:
    by, part = REFUSED[name]
    _, record = records(spark, EVENT, [])
    with pytest.raises(HeadraceError) as raised:
        partitions(by, record)
    assert raised.value.code == "lake_unsupported"
    assert part in raised.value.message


def test_types_that_name_folders(spark: SparkSession) -> None:
    kind = struct(a=Simple.BOOLEAN, b=Simple.DATE, c=Decimal(precision=5, scale=2), d=Simple.TIMESTAMP)
    names, shown = found(
        spark, kind, [None, {}], Partitioning(fields=("a", "b", "c", "d"), date_fields=("b",))
    )
    assert names == ("a", "b", "c", "d")
    assert shown == [(), ()]


def test_keys_and_headers(spark: SparkSession) -> None:
    frame, record = records(
        spark, EVENT, [None, None], headers=["a", "b"], key_kind=struct(k=Simple.INT), keys=[{"k": 1}, None]
    )
    columns = stored_columns(record, stores_keys=True, stores_headers=True)
    assert [each.name for each in columns] == [KEY, HEADERS]
    made = frame.select(*(each.column.alias(each.name) for each in columns)).collect()
    assert from_spark(made[0]) == {
        KEY: {"k": 1},
        HEADERS: [{"key": "a", "value": b"x"}, {"key": "b", "value": b"x"}],
    }
    assert from_spark(made[1]) == {KEY: None, HEADERS: None}
    assert stored_columns(record, stores_keys=False, stores_headers=False) == ()
    _, taken = records(spark, struct(_headers=Simple.INT), [])
    with pytest.raises(HeadraceError, match="_HEADERS"):
        stored_columns(taken, stores_keys=False, stores_headers=True)


def test_reasons_are_null_without_partitions(spark: SparkSession) -> None:
    frame, record = records(spark, EVENT, [None])
    made = partitions(Partitioning(), record)
    assert made.names == made.derived == ()
    assert frame.filter(F.isnull(made.reason)).count() == 1
