"""Transformations on Spark: what they make of records, their types, reasons and refusals.

`test_transforms_like_kafka.py` compares them with Kafka's own on many more values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError
from headrace.lake.sink import Partitioning, Predicate, TimePartitions, Transformation
from headrace.lake.types import Simple, Struct, Type
from headrace.pipeline.sink_records.columns import CAST_TYPES
from headrace.pipeline.sink_records.records import Record, typed
from headrace.pipeline.sink_records.transforms import KINDS, needs_key, transformed
from headrace.pipeline.spark.lake.partitioning import partitions
from headrace.pipeline.spark.lake.transforming import SPARK
from tests.pipeline.lake.generated_values import ALL, rows
from tests.pipeline.lake.plain_values import struct
from tests.pipeline.lake.transforming import OFFSET, PARTITION, TIMESTAMP, TOPIC, outcomes, step

ORDER = struct(id=Simple.BIGINT, note=Simple.STRING, at=Simple.STRING)
FIRST = {"id": 7, "note": "12", "at": "2024-02-29 12:00:00"}
SECOND = {"id": None, "note": "twelve", "at": "2024-02-30 12:00:00 and more"}
HAS_HEADER = Predicate(kind="HasHeaderKey", settings={"name": "trace"})
TOMBSTONE = Predicate(kind="RecordIsTombstone")
ORDERS = Predicate(kind="TopicNameMatches", settings={"pattern": r"shop\..*"})

# Steps, the type after them, and what becomes of FIRST, SECOND and null: a value, "fails" or "dropped".
CASES: dict[str, tuple[list[Transformation], Type, list[Any]]] = {
    "insert": (
        [step("InsertField", {"topic.field": "topic!", "timestamp.field": "seen"})],
        struct(
            id=Simple.BIGINT, note=Simple.STRING, at=Simple.STRING, topic=Simple.STRING, seen=Simple.TIMESTAMP
        ),
        [
            {**FIRST, "topic": TOPIC, "seen": TIMESTAMP},
            {**SECOND, "topic": TOPIC, "seen": TIMESTAMP + 1},
            None,
        ],
    ),
    "the old names of include and exclude": (
        [step("ReplaceField", {"whitelist": "id,note", "blacklist": "id"})],
        struct(note=Simple.STRING),
        [{"note": "12"}, {"note": "twelve"}, None],
    ),
    "a text that is no number": (
        [step("ReplaceField", {"include": "note"}), step("Cast", {"spec": "note:int8"})],
        struct(note=Simple.INT),
        [{"note": 12}, "fails", None],
    ),
    "a lenient time": (
        [
            step("ReplaceField", {"include": "at"}),
            step(
                "TimestampConverter",
                {
                    "field": "at",
                    "target.type": "unix",
                    "format": "yyyy-MM-dd HH:mm:ss",
                    "unix.precision": "seconds",
                },
            ),
        ],
        struct(at=Simple.BIGINT),
        [{"at": 1_709_208_000}, {"at": 1_709_294_400}, None],
    ),
    "a time of the day": (
        [
            step("ExtractField", {"field": "at"}),
            step("TimestampConverter", {"target.type": "Time", "format": "yyyy-MM-dd HH"}),
        ],
        Simple.INT,
        [12 * 3_600_000, 12 * 3_600_000, None],
    ),
    "nulls cannot be masked": (
        [step("MaskField", {"fields": "note,id", "replacement": "3"})],
        ORDER,
        [{**FIRST, "id": 3, "note": "3"}, {**SECOND, "note": "3"}, "fails"],
    ),
    "the first failure alone": (
        [step("Cast", {"spec": "note:int32"}), step("MaskField", {"fields": "at"})],
        struct(id=Simple.BIGINT, note=Simple.INT, at=Simple.STRING),
        [{"id": 7, "note": 12, "at": ""}, "fails", "fails"],
    ),
    "dropped records do not fail": (
        [
            step("Filter", predicate=TOMBSTONE),
            step("MaskField", {"fields": "none"}),
        ],
        ORDER,
        [FIRST, SECOND, "dropped"],
    ),
    "dropped by a header": (
        [step("Filter", predicate=HAS_HEADER)],
        ORDER,
        ["dropped", SECOND, None],
    ),
    "dropped by two": (
        [step("Filter", predicate=HAS_HEADER, negate=True), step("Filter", predicate=TOMBSTONE)],
        ORDER,
        [FIRST, "dropped", "dropped"],
    ),
    "only for a header": (
        [step("InsertField", {"static.field": "mark", "static.value": "x"}, predicate=HAS_HEADER)],
        struct(id=Simple.BIGINT, note=Simple.STRING, at=Simple.STRING, mark=Simple.STRING),
        [{**FIRST, "mark": "x"}, {**SECOND, "mark": None}, None],
    ),
    "fields that only some records lose": (
        [step("ReplaceField", {"include": "id"}, predicate=HAS_HEADER)],
        ORDER,
        [{"id": 7, "note": None, "at": None}, SECOND, None],
    ),
    "failures that a predicate excludes": (
        [step("MaskField", {"fields": "note"}, predicate=TOMBSTONE, negate=True)],
        ORDER,
        [{**FIRST, "note": ""}, {**SECOND, "note": ""}, None],
    ),
    "another type for all that are not null": (
        [step("ExtractField", {"field": "id"}, predicate=TOMBSTONE, negate=True)],
        Simple.BIGINT,
        [7, None, None],
    ),
    "by the name of the topic": (
        [
            step("ReplaceField", {"include": "id"}, predicate=ORDERS),
            step("ExtractField", {"field": "id"}, predicate=ORDERS, negate=True),
        ],
        struct(id=Simple.BIGINT),
        [{"id": 7}, {"id": None}, None],
    ),
    "a null in a field": (
        [step("HoistField", {"field": "line"})],
        struct(line=ORDER),
        [{"line": FIRST}, {"line": SECOND}, {"line": None}],
    ),
    "flat": (
        [step("HoistField", {"field": "line"}), step("Flatten", {"delimiter": "-"})],
        struct(**{"line-id": Simple.BIGINT, "line-note": Simple.STRING, "line-at": Simple.STRING}),
        [
            {f"line-{name}": each for name, each in FIRST.items()},
            {f"line-{name}": each for name, each in SECOND.items()},
            {"line-id": None, "line-note": None, "line-at": None},
        ],
    ),
    "the name of a schema": ([step("SetSchemaMetadata", {"schema.name": "x"})], ORDER, [FIRST, SECOND, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(spark: SparkSession, name: str) -> None:
    steps, kind, expected = CASES[name]
    found = outcomes(spark, ORDER, [FIRST, SECOND, None], steps, headers=["other", "trace"])
    assert found.value_type == kind
    shown = ["fails" if row.fails else "dropped" if row.is_dropped else row.value for row in found.rows]
    assert shown == expected


def test_reasons_name_the_transformation_and_the_value(spark: SparkSession) -> None:
    cast = outcomes(spark, ORDER, [SECOND, None], [step("Cast", {"spec": "note:int32"})])
    assert cast.reasons == ["it (Cast) cannot cast the field note to int32: twelve.", None]
    steps = [step("TimestampConverter", {"field": "note", "target.type": "Date", "format": "yyyy"})]
    time = outcomes(spark, ORDER, [SECOND], steps)
    assert time.reasons == ["it (TimestampConverter) cannot convert the field note to Date: twelve."]
    key = outcomes(spark, ORDER, [None], [step("ValueToKey", {"fields": "id"})])
    assert key.reasons == ["it (ValueToKey) needs a record with fields, but the value is null."]


def test_keys(spark: SparkSession) -> None:
    steps = [
        step("ValueToKey", {"fields": "id,note"}),
        step("ExtractField", {"field": "note"}, side="key"),
        step("Cast", {"spec": "string"}, side="key"),
    ]
    found = outcomes(spark, ORDER, [FIRST, SECOND], steps)
    assert [row.key for row in found.rows] == ["12", "twelve"]
    given = outcomes(
        spark,
        ORDER,
        [FIRST, None],
        [step("HoistField", {"field": "k"}, side="key")],
        key_kind=Simple.BIGINT,
        keys=[5, None],
    )
    assert [row.key for row in given.rows] == [{"k": 5}, {"k": None}]
    assert needs_key(steps)
    assert not needs_key(steps[:1])


def test_the_topic(spark: SparkSession) -> None:
    steps = [
        step("RegexRouter", {"regex": r"shop\.(.*)", "replacement": "$1_of_shop"}),
        step("RegexRouter", {"regex": r"shop\.(.*)", "replacement": "never"}),
        step("InsertField", {"topic.field": "topic"}),
    ]
    found = outcomes(spark, ORDER, [FIRST], steps)
    assert (found.topic, found.values[0]["topic"]) == ("orders_of_shop", "orders_of_shop")


def test_a_timestamp_without_a_schema_is_a_number(spark: SparkSession) -> None:
    settings = {"timestamp.field": "id", "partition.field": "p", "offset.field": "o"}
    found = outcomes(spark, ORDER, [FIRST], [step("InsertField", settings)], has_schema=False)
    new = {"note": "12", "at": FIRST["at"], "id": TIMESTAMP, "p": PARTITION, "o": OFFSET}
    assert found.values == [new]
    assert isinstance(found.value_type, Struct)
    assert [each.type for each in found.value_type.fields[-3:]] == [Simple.INT, Simple.BIGINT, Simple.BIGINT]


REFUSED = {
    "no such kind": (step("TimestampRouter"), "TimestampRouter"),
    "no such predicate": (step("Filter", predicate=Predicate(kind="Odd")), "Odd"),
    "keys are not read": (step("HoistField", {"field": "a"}, side="key"), "keys are not read"),
    "no such field": (step("ExtractField", {"field": "ID"}), "ID"),
    "a missing setting": (step("ExtractField"), "field"),
    "an item of spec": (step("Cast", {"spec": "id:int9"}), "id:int9"),
    "a whole and a field": (step("Cast", {"spec": "id:int8,string"}), "one type"),
    "a whole record": (step("Cast", {"spec": "string"}), "STRUCT"),
    "no fields left": (step("ReplaceField", {"include": "none"}), "no field"),
    "names that differ in case": (step("ReplaceField", {"renames": "id:Note"}), "two fields named note"),
    "a time without a format": (step("TimestampConverter", {"field": "at", "target.type": "unix"}), "format"),
    "a format of weeks": (
        step("TimestampConverter", {"field": "at", "target.type": "unix", "format": "YYYY-ww"}),
        "YYYY",
    ),
    "an open quote": (
        step("TimestampConverter", {"field": "at", "target.type": "unix", "format": "yyyy'T"}),
        "quote",
    ),
    "a target": (step("TimestampConverter", {"field": "at", "target.type": "date"}), "'date'"),
    "a pattern": (step("RegexRouter", {"regex": "(", "replacement": ""}), "pattern"),
    "a replacement": (step("RegexRouter", {"regex": ".*", "replacement": "$1"}), "$1"),
    "topics of some records": (
        step("RegexRouter", {"regex": ".*", "replacement": "x"}, predicate=TOMBSTONE),
        "some records only",
    ),
    "two types": (step("Cast", {"spec": "id:string"}, predicate=HAS_HEADER), "id"),
    "a record or not": (step("ExtractField", {"field": "id"}, predicate=HAS_HEADER), "BIGINT"),
    "a backtick": (
        step("ExtractField", {"field": "`id", "field.syntax.version": "V2"}),
        "backtick",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(spark: SparkSession, name: str) -> None:
    refused, part = REFUSED[name]
    with pytest.raises(HeadraceError) as raised:
        outcomes(spark, ORDER, [], [refused])
    assert raised.value.code == "lake_unsupported"
    assert part in raised.value.message
    assert "transformation it" in raised.value.message


def test_paths_with_dots_in_names(spark: SparkSession) -> None:
    kind = Struct(fields=struct(**{"a.b": struct(**{"c`": Simple.INT, "d": Simple.INT})}).fields)
    value = {"a.b": {"c`": 1, "d": 2}}
    for path, expected in {"`a.b`.d": 2, "`a.b`.`c``": 1}.items():
        steps = [step("ExtractField", {"field": path, "field.syntax.version": "V2"})]
        assert outcomes(spark, kind, [value], steps).values == [expected]


ANYTHING = [
    *(
        step("Cast", {"spec": f"{name}:{kind}"})
        for name in ("text", "double", "huge")
        for kind in ("int8", "int64")
    ),
    *(step("Cast", {"spec": f"{name}:string"}) for name in ("flag", "moment", "day", "tiny", "bytes")),
    step("Cast", {"spec": "text:float32,double:boolean"}),
    *(
        step(
            "TimestampConverter",
            {"field": "text", "target.type": kind, "format": "yyyy-MM-dd'T'HH:mm:ss.SSSX"},
        )
        for kind in ("string", "unix", "Date", "Time", "Timestamp")
    ),
    *(
        step(
            "TimestampConverter",
            {"field": "large", "target.type": kind, "format": "y", "unix.precision": unit},
        )
        for kind in ("string", "Date", "Timestamp")
        for unit in ("seconds", "nanoseconds")
    ),
    step("MaskField", {"fields": "text,words,counts,moment"}),
    step("ValueToKey", {"fields": "inner,words"}),
    step("HoistField", {"field": "x"}),
]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(ANYTHING[::4], id="some"),
        pytest.param(ANYTHING, id="all", marks=pytest.mark.long),
    ],
)
def test_no_data_ends_the_query(spark: SparkSession, steps: list[Transformation]) -> None:
    values = rows(ALL, 200, seed=11)
    for each in steps:
        found = outcomes(spark, ALL, values, [each])
        assert len(found.rows) == len(values)
        assert not all(row.fails for row in found.rows)


EXTREMES = {
    Simple.DATE: ("date_from_unix_date(2147483647)", "date_from_unix_date(-2147483648)"),
    Simple.TIMESTAMP: ("timestamp_micros(9223372036854775807)", "timestamp_micros(-9223372036854775808)"),
    Simple.TIMESTAMP_NTZ: (
        "timestamp_micros(9223372036854775807)::timestamp_ntz",
        "timestamp_micros(-9223372036854775808)::timestamp_ntz",
    ),
    Simple.DOUBLE: ("double('NaN')", "double('Infinity')", "double('-Infinity')"),
    Simple.FLOAT: ("float('NaN')", "float('Infinity')", "float('-Infinity')"),
    Simple.BIGINT: ("9223372036854775807", "-9223372036854775807L - 1"),
}


def test_no_extreme_ends_the_query(spark: SparkSession) -> None:
    """Values that Python has not: Avro's numbers can stand for days millions of years away."""
    for kind, texts in EXTREMES.items():
        values = ", ".join(f"({each})" for each in texts)
        frame = spark.sql(f"SELECT col1 AS it FROM VALUES {values}").repartition(1)
        record = Record(
            topic=TOPIC,
            key=None,
            value=typed(SPARK, struct(it=kind), F.struct(F.col("it"))),
            headers=F.lit(None),
            timestamp=F.col("it") if kind is Simple.TIMESTAMP else F.current_timestamp(),
            partition=F.lit(0),
            offset=F.lit(0),
            reason=F.lit(None).cast("string"),
        )
        steps = [step("Cast", {"spec": f"it:{each}"}) for each in CAST_TYPES]
        if kind not in (Simple.DOUBLE, Simple.FLOAT):
            settings = {"field": "it", "format": "yyyy-MM-dd HH:mm:ss.SSS"}
            targets = ("string", "unix", "Date", "Time", "Timestamp")
            steps += [step("TimestampConverter", {**settings, "target.type": each}) for each in targets]
        columns = []
        for each in steps:
            new = transformed(record, [each])
            columns += [new.value.column, new.reason]
        for extractor in ("Record", "RecordField"):
            by = TimePartitions(
                columns=(("year", "YYYY-MM-dd HH"),),
                duration_ms=3_600_000,
                timezone="Asia/Kolkata",
                extractor=extractor,
                field="it",
            )
            inferred = replace(record, value=replace(record.value, has_schema=False))
            made = partitions(Partitioning(time=by), inferred)
            columns += [made.derived[0].column, made.reason]
        # Not collected: Python has no such days.
        found = frame.select(F.hash(*columns)).collect()
        assert len(found) == len(texts)


def test_numbers_that_are_none(spark: SparkSession) -> None:
    kind = struct(it=Simple.DOUBLE)
    values = [{"it": float(each)} for each in ("nan", "inf", "-inf")]
    for target, expected in {
        "int8": [0, -1, 0],
        "int32": [0, 2**31 - 1, -(2**31)],
        "int64": [0, 2**63 - 1, -(2**63)],
        "boolean": [False, True, True],
        "string": ["NaN", "Infinity", "-Infinity"],
    }.items():
        found = outcomes(spark, kind, values, [step("Cast", {"spec": f"it:{target}"})])
        assert [each["it"] for each in found.values] == expected


def test_a_chain_does_not_grow_with_its_length() -> None:
    """Each field has an expression of its own: no step builds the record for the next one to take apart."""
    names = [f"f{number}" for number in range(30)]
    kind = struct(**dict.fromkeys(names, Simple.STRING))
    record = Record(
        topic=TOPIC,
        key=None,
        value=typed(SPARK, kind, F.col("value")),
        headers=F.col("headers"),
        timestamp=F.col("timestamp"),
        partition=F.col("partition"),
        offset=F.col("offset"),
        reason=F.lit(None).cast("string"),
    )
    steps = [step("Cast", {"spec": f"{name}:string"}) for name in names[:20]]
    steps += [step("ReplaceField", {"renames": f"{name}:{name}_new"}) for name in names[:20]]
    new = transformed(record, steps)
    assert len(str(new.value.column)) < 10_000


def test_every_kind_is_tested() -> None:
    used = {each.kind for steps, _, _ in CASES.values() for each in steps}
    used |= {each.kind for each in ANYTHING} | {"RegexRouter"}
    assert used >= set(KINDS)
