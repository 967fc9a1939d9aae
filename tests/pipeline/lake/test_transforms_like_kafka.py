"""Kafka's own transformations are the oracle: the same records give the same values, types and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.lake.sink import Predicate, Transformation
from headrace.lake.types import Simple, Struct
from tests.pipeline.lake.generated_values import ALL, rows
from tests.pipeline.lake.kafka_transforms import KafkaTransforms, kafka_transforms
from tests.pipeline.lake.plain_values import is_same, struct
from tests.pipeline.lake.transforming import Outcome, outcomes, step

pytestmark = pytest.mark.long

COUNT = 100
# 15 October 1582, when Java's calendar begins to be today's, and the end of the year 9999.
FIRST_MS, LAST_MS = -12_219_292_800_000, 253_402_300_799_999
CAST_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
FIELDS = tuple(each.name for each in ALL.fields)
FORMATS = (
    "yyyy-MM-dd",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ssZ",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "yyyy-MM-dd'T'HH:mm:ss z",
    "yyyyMMdd",
    "yyyyMMddHHmmss",
    "dd MMM yyyy",
    "d MMMM yy",
    "hh:mm a",
    "yy-MM-dd",
    "y-M-d",
    "EEE, dd MMM yyyy kk:mm:ss.SSS",
    "''yyyy''",
)
TOMBSTONE = Predicate(kind="RecordIsTombstone")


@pytest.fixture(scope="module")
def kafka(java: JavaRuntime, artifacts: Artifacts) -> Iterator[KafkaTransforms]:
    with kafka_transforms(java, artifacts) as found:
        yield found


def compare(
    spark: SparkSession,
    kafka: KafkaTransforms,
    kind: Struct,
    values: list[Any],
    steps: list[Transformation],
    *,
    has_schema: bool = True,
) -> str:
    """Fails if the two differ; says whether we refuse the types."""
    theirs, types, failures = kafka.outcomes(kind, values, steps, has_schema=has_schema)
    try:
        ours = outcomes(spark, kind, values, steps, has_schema=has_schema)
    except HeadraceError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.code == "lake_unsupported"
        assert failures, f"Kafka can, we refuse: {refusal}"
        # Null records, and records whose field is null, may pass in Kafka.
        assert all(each.fails or _has_nothing(each.value) for each in theirs), (str(refusal), theirs)
        return "refused"
    different = [
        (_difference(our, their), value)
        for value, our, their in zip(values, ours.rows, theirs, strict=True)
        if not _is_same(our, _without_nulls(our, their) if not has_schema else their)
    ]
    assert not different, f"{len(different)} of {len(values)} differ, such as {different[:8]}; {failures[:3]}"
    if types and isinstance(ours.value_type, Struct):
        found = [each.type for each in ours.value_type.fields]
        assert [b or a for a, b in zip(found, types, strict=True)] == found
    elif types:
        assert types[0] in (ours.value_type, None)
    return "compared"


def _is_same(ours: Outcome, theirs: Outcome) -> bool:
    if ours.fails or theirs.fails or ours.is_dropped or theirs.is_dropped:
        return (ours.fails, ours.is_dropped) == (theirs.fails, theirs.is_dropped)
    return is_same(ours.value, theirs.value)


def _without_nulls(ours: Outcome, theirs: Outcome) -> Outcome:
    """Without a schema, Kafka adds nulls under the names of fields that are not there."""
    if not isinstance(ours.value, dict) or not isinstance(theirs.value, dict):
        return theirs
    kept = {name: each for name, each in theirs.value.items() if each is not None or name in ours.value}
    return replace(theirs, value=kept)


def _difference(ours: Outcome, theirs: Outcome) -> str:
    """The fields that differ, or all."""
    if isinstance(ours.value, dict) and isinstance(theirs.value, dict):
        names = [name for name in ours.value if not is_same(ours.value[name], theirs.value.get(name))]
        return str([(name, ours.value[name], theirs.value.get(name)) for name in names])
    return f"{ours.value if not ours.fails else 'fails'}, not {theirs.value if not theirs.fails else 'fails'}"


def _has_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and any(each is None for each in value.values()))


@pytest.mark.parametrize("target", CAST_TYPES)
def test_cast(spark: SparkSession, kafka: KafkaTransforms, target: str) -> None:
    """Each field by itself: a field that fails hides the others."""
    refused = set()
    for name in FIELDS:
        kind = struct(**{name: next(each.type for each in ALL.fields if each.name == name)})
        steps = [step("Cast", {"spec": f"{name}:{target}"})]
        if compare(spark, kafka, kind, rows(kind, COUNT, seed=1), steps) == "refused":
            refused.add(name)
    assert refused == {"words", "counts", "inner"} | (set() if target == "string" else {"bytes"})


def test_cast_of_the_whole(spark: SparkSession, kafka: KafkaTransforms) -> None:
    kind = struct(text=Simple.STRING)
    steps = [step("ExtractField", {"field": "text"}), step("Cast", {"spec": "int32"})]
    assert compare(spark, kafka, kind, rows(kind, COUNT, seed=2), steps) == "compared"


@pytest.mark.parametrize("pattern", FORMATS)
def test_texts_become_times(spark: SparkSession, kafka: KafkaTransforms, pattern: str) -> None:
    kind = struct(text=Simple.STRING)
    steps = [step("TimestampConverter", {"field": "text", "target.type": "Timestamp", "format": pattern})]
    values = readable(kafka, kind, rows(kind, COUNT, seed=3), steps)
    if pattern.startswith("yyyyMM"):
        # Java reads the month of 2024-02-29 as -0.
        values = [each for each in values if each is None or "-" not in (each.get("text") or "")]
    assert compare(spark, kafka, kind, values, steps) == "compared"


def readable(
    kafka: KafkaTransforms, kind: Struct, values: list[Any], steps: list[Transformation], **more: Any
) -> list[Any]:
    """Without texts that Kafka takes for a time that the lake does not have, or in another calendar."""
    found, _, _ = kafka.outcomes(kind, values, steps, **more)
    return [
        value
        for value, each in zip(values, found, strict=True)
        if each.value is None or each.value["text"] is None or FIRST_MS <= each.value["text"] <= LAST_MS
    ]


@pytest.mark.parametrize("pattern", FORMATS)
def test_times_become_texts(spark: SparkSession, kafka: KafkaTransforms, pattern: str) -> None:
    kind = struct(moment=Simple.TIMESTAMP)
    settings = {"field": "moment", "target.type": "string", "format": pattern}
    values = [
        each for each in rows(kind, COUNT, seed=4) if each is None or (each.get("moment") or 0) > -(10**13)
    ]
    assert compare(spark, kafka, kind, values, [step("TimestampConverter", settings)]) == "compared"


@pytest.mark.parametrize("target", ["unix", "Date", "Time", "Timestamp"])
@pytest.mark.parametrize("precision", ["seconds", "milliseconds", "microseconds", "nanoseconds"])
def test_other_times(spark: SparkSession, kafka: KafkaTransforms, target: str, precision: str) -> None:
    for name in ("large", "day", "moment"):
        kind = struct(**{name: next(each.type for each in ALL.fields if each.name == name)})
        settings = {"field": name, "target.type": target, "unix.precision": precision}
        values = rows(kind, COUNT, seed=5)
        if target != "unix" and name == "large":
            # The lake has the years 1 to 9999 only.
            per_second = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
            most = 10**11 * per_second[precision]
            values = [each for each in values if each is None or abs(each.get(name) or 0) < most]
        assert compare(spark, kafka, kind, values, [step("TimestampConverter", settings)]) == "compared"


OTHERS: dict[str, list[Transformation]] = {
    "insert": [
        step(
            "InsertField",
            {
                "topic.field": "topic",
                "partition.field": "partition!",
                "offset.field": "offset?",
                "timestamp.field": "at",
                "static.field": "source",
                "static.value": "shop",
            },
        )
    ],
    "insert what is there": [step("InsertField", {"topic.field": "text"})],
    "exclude": [step("ReplaceField", {"exclude": "flag, inner ,none"})],
    "include": [step("ReplaceField", {"include": "text,large", "exclude": "large"})],
    "rename": [step("ReplaceField", {"renames": "text:words2,none:x,inner:outer"})],
    "rename to a field": [step("ReplaceField", {"renames": "text:large"})],
    "rename nothing to a field": [step("ReplaceField", {"renames": "none:text"})],
    "swap": [step("ReplaceField", {"renames": "large:small2,small:large", "include": "large,small"})],
    "extract": [step("ExtractField", {"field": "inner"})],
    "extract nested": [step("ExtractField", {"field": "inner.deep.b", "field.syntax.version": "V2"})],
    "extract quoted": [step("ExtractField", {"field": "`inner`.`deep`.b", "field.syntax.version": "V2"})],
    "extract dotted": [step("ExtractField", {"field": "inner.deep"})],
    "extract what is not there": [step("ExtractField", {"field": "none"})],
    "hoist": [step("HoistField", {"field": "line"})],
    "flatten": [step("ReplaceField", {"exclude": "counts"}), step("Flatten", {"delimiter": "_"})],
    "flatten a map": [step("Flatten")],
    "mask": [
        step(
            "MaskField", {"fields": "flag,small,large,single,double,text,day,moment,price,words,counts,none"}
        )
    ],
    "mask bytes": [step("MaskField", {"fields": "bytes"})],
    "mask a record": [step("MaskField", {"fields": "inner"})],
    "mask numbers": [step("MaskField", {"fields": "small,large,single,double,text", "replacement": "-12"})],
    "mask with a fraction": [
        step("MaskField", {"fields": "small,large,single,double", "replacement": "4e9"})
    ],
    "mask with a text": [step("MaskField", {"fields": "small", "replacement": "xyz"})],
    "mask a flag": [step("MaskField", {"fields": "flag", "replacement": "1"})],
    "value to key": [step("ValueToKey", {"fields": "text,small"})],
    "value to key, not there": [step("ValueToKey", {"fields": "none"})],
    "filter": [step("Filter")],
    "filter tombstones": [step("Filter", predicate=TOMBSTONE)],
    "filter others": [step("Filter", predicate=TOMBSTONE, negate=True)],
    "filter a topic": [
        step("Filter", predicate=Predicate(kind="TopicNameMatches", settings={"pattern": "shop"}))
    ],
    "only with values": [step("MaskField", {"fields": "text"}, predicate=TOMBSTONE, negate=True)],
    "hoist values": [step("HoistField", {"field": "line"}, predicate=TOMBSTONE, negate=True)],
    "many": [
        step("ReplaceField", {"exclude": "counts"}),
        step("Flatten"),
        step("InsertField", {"timestamp.field": "at", "static.field": "source", "static.value": "shop"}),
        step("TimestampConverter", {"field": "at", "target.type": "string", "format": "yyyy-MM-dd"}),
        step("Cast", {"spec": "flag:string,inner.a:float64,day:int64"}),
        step("ReplaceField", {"renames": "inner.a:a,inner.deep.b:b"}),
    ],
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(spark: SparkSession, kafka: KafkaTransforms, name: str) -> None:
    found = compare(spark, kafka, ALL, rows(ALL, COUNT, seed=6), OTHERS[name])
    assert found == ("refused" if name in REFUSED else "compared")


REFUSED = {
    *("insert what is there", "rename to a field", "rename nothing to a field", "extract dotted"),
    *("extract what is not there", "flatten a map", "mask bytes", "mask a record", "mask with a text"),
    *("mask a flag", "value to key, not there"),
}

JSON = struct(
    large=Simple.BIGINT,
    double=Simple.DOUBLE,
    flag=Simple.BOOLEAN,
    text=Simple.STRING,
    inner=struct(a=Simple.BIGINT, deep=struct(b=Simple.STRING)),
)
WITHOUT_SCHEMA: dict[str, list[Transformation]] = {
    "insert": OTHERS["insert"],
    "insert what is there": OTHERS["insert what is there"],
    "rename": OTHERS["rename"],
    "rename nothing to a field": OTHERS["rename nothing to a field"],
    "extract": OTHERS["extract"],
    "extract nested": OTHERS["extract nested"],
    "extract what is not there": OTHERS["extract what is not there"],
    "hoist": OTHERS["hoist"],
    "mask": [step("MaskField", {"fields": "large,double,flag,text"})],
    "cast": [step("Cast", {"spec": "large:int8,double:int32,flag:string,text:boolean"})],
    "times": [step("TimestampConverter", {"field": "text", "target.type": "unix", "format": "yyyy-MM-dd"})],
    "not there": [step("TimestampConverter", {"field": "no", "target.type": "unix"})],
}


@pytest.mark.parametrize("name", WITHOUT_SCHEMA)
def test_without_schema(spark: SparkSession, kafka: KafkaTransforms, name: str) -> None:
    values = [each for each in rows(JSON, COUNT, seed=7) if each is None or each]
    if name == "times":
        values = readable(kafka, JSON, values, WITHOUT_SCHEMA[name], has_schema=False)
    assert compare(spark, kafka, JSON, values, WITHOUT_SCHEMA[name], has_schema=False) == "compared"


@pytest.mark.parametrize(
    ("regex", "replacement"),
    [
        ("(.*)", "$1_copy"),
        (r"shop\.(.*)", "$1"),
        (r"(?<shop>\w+)\.(orders)", r"${shop}-$2\$"),
        ("shop", "x"),
        ("shop|.*", "x"),
        (r"([^.]+)\.([^.]+)", "$2$1$11"),
        ("", "x"),
    ],
)
def test_regex_router(spark: SparkSession, kafka: KafkaTransforms, regex: str, replacement: str) -> None:
    steps = [step("RegexRouter", {"regex": regex, "replacement": replacement})]
    assert outcomes(spark, JSON, [], steps).topic == kafka.topic(steps)
