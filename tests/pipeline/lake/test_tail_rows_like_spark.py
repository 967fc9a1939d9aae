"""The rows that SQL shows before they are in the lake are those that Spark writes.

Random records, through both. What the tail leaves to the lake is counted: it must stay the exception.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.lake.sink import (
    Converter,
    ConverterKind,
    NullValues,
    Partitioning,
    Predicate,
    TimePartitions,
    Transformation,
)
from headrace.lake.types import Type
from tests.lake.columns.records import framed
from tests.pipeline.lake.generated_values import _DAYS, _LONGS, _MOMENTS, _TEXTS, ALL, rows
from tests.pipeline.lake.plain_values import connect_schema, connect_value
from tests.pipeline.lake.tail_rows import Given, Twice, of_sink
from tests.pipeline.lake.transforming import step

EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "KIND", "type": ["null", "string"]},
        {"name": "at", "type": ["null", "long"]},
        {"name": "small", "type": "int"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "moment", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Inner",
                    "fields": [
                        {"name": "at", "type": ["null", "long"]},
                        {"name": "zone", "type": ["null", "string"]},
                        {"name": "flag", "type": "boolean"},
                        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
                        {"name": "moment", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                    ],
                },
            ],
        },
    ],
}
HOURLY = (("year", "YYYY"), ("month", "MM"), ("dd", "dd"), ("hour", "HH"))
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
# Just before and after clocks in Europe and America change, and the ends of what can name a folder.
EDGES = (
    *(1_711_846_799_999, 1_711_846_800_000, 1_729_990_799_999, 1_729_994_400_000, 1_710_064_800_000),
    *(-1, 0, 1, -62_135_510_400_001, -62_135_510_400_000, 253_402_214_399_999, 253_402_214_400_000),
    *(-2_208_988_800_000, 63_072_000_000, 63_071_999_999, 4_102_444_800_000, 1_735_603_200_000),
)


def moment(chance: random.Random) -> int:
    return chance.choice(
        [*EDGES, *_LONGS, chance.randrange(0, 4 * 10**12), chance.randrange(10**12, 2 * 10**12)]
    )


def time_text(chance: random.Random) -> str:
    """Texts of times, of which some are none."""
    made = (
        f"{chance.choice(['2024', '0001', '9999', '1969', '24'])}"
        f"-{chance.randrange(14)}-{chance.randrange(33):02}"
        f"T{chance.randrange(25)}:{chance.randrange(61):02}"
        f"{chance.choice(['', ':5', ':59.5', ':07,123456789', ':60'])}"
        f"{chance.choice(['', 'Z', '+02', '-0130', '+05:45', '+18', '+17:59', '+19:00', '-00:00', '+0199'])}"
    )
    cut = chance.choice([made, made, made, made[:10], made[:7], made[:4], made[:11]])
    return chance.choice([cut, cut, str(moment(chance)), chance.choice(_TEXTS)])


def event(chance: random.Random, *, usual: bool = False) -> dict[str, Any]:
    """`usual`: with nothing that keeps it from being read in columns."""
    at = chance.randrange(1_600_000_000_000, 1_800_000_000_000) if usual else moment(chance)
    inner = {
        "at": at if usual else chance.choice([None, moment(chance)]),
        "zone": chance.choice(["eu", "us/east", "", "ü"] if usual else [None, "eu", "", "x" * 260, "a/b"]),
        "flag": chance.random() < 0.5,
        "day": chance.choice([None, *_DAYS[:4]]),
        "moment": chance.choice(_MOMENTS[:5]),
    }
    return {
        "KIND": chance.choice([None, "view", "click", ""]),
        "at": at if usual or chance.random() < 0.9 else None,
        "small": chance.randrange(-(2**31), 2**31),
        "text": str(at) if usual else chance.choice([None, *(time_text(chance) for _ in range(9))]),
        "day": chance.randrange(1_000, 20_000) if usual else chance.choice([*_DAYS[:5], -719_162, 2_932_896]),
        "moment": at if usual else chance.choice(_MOMENTS[:7]),
        "inner": inner if usual or chance.random() < 0.9 else None,
    }


def records(seed: int, count: int, *, usual: bool = False) -> list[Given]:
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        value: bytes | None = framed(1, EVENT, event(chance, usual=usual))
        if not usual and chance.random() < 0.1:
            value = chance.choice([None, b"", b"x", b"\x00\x00\x00\x03\xe7a"])
        timestamp = chance.randrange(10**12, 2 * 10**12) if usual else chance.choice([-1, moment(chance)])
        # Spark's source has timestamps of microseconds.
        timestamp = max(min(timestamp, 9 * 10**15), -9 * 10**15)
        found.append(Given(value=value, timestamp=timestamp))
    return found


def by_time(**more: Any) -> Partitioning:
    given: dict[str, Any] = {
        "columns": HOURLY,
        "duration_ms": HOUR_MS,
        "timezone": "UTC",
        "extractor": "Record",
        **{
            name: more.pop(name)
            for name in tuple(more)
            if name not in ("fields", "date_fields", "by_partition")
        },
    }
    return Partitioning(time=TimePartitions(**given), **more)


def mostly_long(cases: Mapping[str, Any], every: int) -> list[Any]:
    """Each takes seconds: of so many, `make test` runs the first."""
    return [
        pytest.param(name, marks=() if number % every == 0 else (pytest.mark.long,))
        for number, name in enumerate(cases)
    ]


DAILY = (("folder", "'d='yyyy-MM-dd"),)
PARTITIONINGS = {
    "hourly": by_time(),
    "in a zone that changes its clocks": by_time(timezone="America/New_York"),
    "days in a zone": by_time(columns=DAILY, duration_ms=DAY_MS, timezone="Europe/Berlin"),
    "an odd duration and seconds": by_time(
        columns=(("second", "EEE D a hh:mm:ss.SSS"), ("week", "MMMM yy 'o''clock'")),
        duration_ms=1_500,
        timezone="Asia/Kathmandu",
    ),
    "no duration": by_time(columns=(("minute", "HH-mm"),), duration_ms=-1, timezone="+05:30"),
    "a field": by_time(extractor="RecordField", field="at"),
    "a nested field": by_time(extractor="RecordField", field="inner.AT", timezone="Asia/Tokyo"),
    "a text": by_time(
        extractor="RecordField", field="text", columns=(("minute", "yyyyMMddHHmmss"),), duration_ms=1
    ),
    "a date": by_time(extractor="RecordField", field="day", timezone="America/Los_Angeles"),
    "a timestamp": by_time(extractor="RecordField", field="moment"),
    "an int": by_time(extractor="RecordField", field="small"),
    "fields and time": by_time(fields=("KIND", "inner.zone"), columns=DAILY, duration_ms=DAY_MS),
    "texts of nested fields": Partitioning(
        fields=("inner.flag", "inner.at", "inner.day", "inner.moment"), by_partition=True
    ),
    "nothing": Partitioning(),
}


@pytest.mark.parametrize("name", mostly_long(PARTITIONINGS, 4))
def test_partitions(spark: SparkSession, name: str) -> None:
    made = of_sink(partitioning=PARTITIONINGS[name], null_values=NullValues.WRITE)
    twice = Twice(spark, made, schemas={1: EVENT})
    found = twice.compare(records(1, 600))
    assert len(found.unsure) < 60, found
    assert found.rows > 100, found
    # In columns.
    assert twice.compare(records(2, 300, usual=True)).rows == 300


@pytest.mark.long
@pytest.mark.parametrize("policy", NullValues)
def test_null_values(spark: SparkSession, policy: NullValues) -> None:
    made = of_sink(partitioning=by_time(fields=("KIND",)), null_values=policy)
    schemas = {1: EVENT, 2: ["null", EVENT]}
    given = [
        *records(3, 50),
        Given(value=None, timestamp=-1),
        Given(value=None, timestamp=2**50),
        Given(value=framed(2, schemas[2], None)),
        Given(value=framed(2, schemas[2], event(random.Random(1), usual=True))),
    ]
    found = Twice(spark, made, schemas=schemas).compare(given)
    assert found.dropped >= (3 if policy is NullValues.IGNORE else 0)


def some_bytes(chance: random.Random) -> bytes:
    """Texts, and what is none: cut letters, halves of pairs, overlong forms, letters beyond the last."""
    parts = (
        *(b"a", b"\x00", "ü".encode(), "漢".encode(), "🎈".encode(), b"\xff", b"\xc0\xaf", b"\xe0\x80\x80"),
        *(
            b"\xed\xa0\x80",
            b"\xed\xb0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf0\x9f\x8e",
            b"\xe6\xbc",
            b"\xc3",
            b"\x80",
        ),
        *(b"\xf8\x88\x80\x80\x80", b"\xfe", b"\xf0\x80\x80\x80"),
    )
    mixed = b"".join(chance.choice(parts) for _ in range(chance.randrange(6)))
    return chance.choice([mixed, mixed, chance.randbytes(chance.randrange(8))])


HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (),
    (("a", b"1"),),
    (("a", None), ("a", b""), ("ü", b"\xff")),
    (("headrace-source", b"q/t/1/2/3"), ("headrace-posted-at", b"1700000000000")),
    (("headrace-source", b"odd"), ("b", b"x" * 50)),
)


@pytest.mark.parametrize("kind", [ConverterKind.STRING, ConverterKind.BYTES])
def test_texts_and_bytes_with_keys_and_headers(spark: SparkSession, kind: ConverterKind) -> None:
    chance = random.Random(4)
    made = of_sink(
        value=Converter(kind=kind),
        key=Converter(kind=ConverterKind.BYTES if kind is ConverterKind.STRING else ConverterKind.STRING),
        partitioning=by_time(by_partition=True),
        null_values=NullValues.WRITE,
        stores_keys=True,
        stores_headers=True,
    )
    given = [
        Given(
            value=chance.choice([None, *(some_bytes(chance) for _ in range(9))]),
            key=chance.choice([None, *(some_bytes(chance) for _ in range(9))]),
            headers=chance.choice(HEADERS),
        )
        for _ in range(1_500)
    ]
    found = Twice(spark, made).compare(given)
    assert (found.rows, found.unsure) == (len(given), [])


KEYS: dict[str, tuple[Any, list[Any]]] = {
    "a record": (EVENT, [event(random.Random(5), usual=True)]),
    "a text": ("string", ["", "k", "ü"]),
    "a number or null": (["null", "long"], [None, 5]),
    "an array": ({"type": "array", "items": "int"}, [[], [1, 2]]),
    "a record or null": (["null", EVENT], [None, event(random.Random(6), usual=True)]),
}


@pytest.mark.parametrize("name", mostly_long(KEYS, 4))
def test_avro_keys(spark: SparkSession, name: str) -> None:
    schema, keys = KEYS[name]
    made = of_sink(
        key=Converter(kind=ConverterKind.AVRO), stores_keys=True, stores_headers=True, partitioning=by_time()
    )
    values = [each.value for each in records(7, 20, usual=True)]
    bodies = [None, b"", b"\x00\x00\x00\x00\x02", *(framed(2, schema, key) for key in keys)]
    given = [
        Given(value=value, key=bodies[at % len(bodies)], headers=HEADERS[at % len(HEADERS)])
        for at, value in enumerate(values)
    ]
    twice = Twice(spark, made, schemas={1: EVENT}, key_schemas={2: schema})
    found = twice.compare(given)
    assert (found.unsure, found.rows > 8) == ([], True), found


# Transformations. Columns of every type, read as Connect's JSON with schemas.

HAS_HEADER = Predicate(kind="HasHeaderKey", settings={"name": "trace"})
TOMBSTONE = Predicate(kind="RecordIsTombstone")
ORDERS = Predicate(kind="TopicNameMatches", settings={"pattern": r"shop\..*"})
NUMBERS = ("flag", "small", "large", "single", "double", "day", "moment", "price", "huge", "tiny")
FORMATS = (
    *("yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "yyyyMMddHHmmss", "yy-MM-dd"),
    *("d MMM yyyy", "hh:mm a", "HH:mm:ss z", "yyyy-MM-dd'T'HH:mm:ssZ", "k:mm 'o''clock'"),
)
STEPS: dict[str, list[Transformation]] = {
    "insert": [
        step(
            "InsertField",
            {
                "topic.field": "topic!",
                "partition.field": "p",
                "offset.field": "o?",
                "timestamp.field": "seen",
                "static.field": "s",
                "static.value": "x",
            },
        )
    ],
    "replace": [
        step("ReplaceField", {"exclude": "flag,inner", "renames": "small:SMALL,text:words2"}),
        step("ReplaceField", {"whitelist": "SMALL,words2,large,moment"}),
    ],
    **{
        f"cast to {target}": [
            step("Cast", {"spec": ",".join(f"{name}:{target}" for name in (*NUMBERS, "text"))})
        ]
        for target in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean")
    },
    "cast to string": [step("Cast", {"spec": ",".join(f"{name}:string" for name in (*NUMBERS, "text"))})],
    "cast texts": [step("Cast", {"spec": "text:float64"})],
    **{
        f"time as {pattern}": [
            step("TimestampConverter", {"field": "moment", "target.type": "string", "format": pattern}),
            step("TimestampConverter", {"field": "text", "target.type": kind, "format": pattern}),
        ]
        for pattern, kind in zip(FORMATS, ("unix", "Date", "Time", "Timestamp", "string") * 2, strict=True)
    },
    **{
        f"numbers as {kind} in {unit}": [
            step("TimestampConverter", {"field": "large", "target.type": kind, "unix.precision": unit}),
            step("TimestampConverter", {"field": "day", "target.type": "unix", "unix.precision": unit}),
        ]
        for kind, unit in (
            ("Date", "seconds"),
            ("Timestamp", "milliseconds"),
            ("Time", "microseconds"),
            ("unix", "nanoseconds"),
        )
    },
    "extract and hoist": [
        step("ExtractField", {"field": "inner.deep.b", "field.syntax.version": "V2"}),
        step("HoistField", {"field": "it"}),
    ],
    "extract a number": [step("ExtractField", {"field": "large"}), step("Cast", {"spec": "string"})],
    "mask": [
        step("MaskField", {"fields": "flag,small,single,text,day,moment,price,words"}),
        step("MaskField", {"fields": "large,double", "replacement": "7.5"}),
    ],
    "filter": [step("Filter", predicate=HAS_HEADER), step("Filter", predicate=TOMBSTONE)],
    "not filtered": [step("Filter", predicate=HAS_HEADER, negate=True)],
    "some only": [
        step("InsertField", {"static.field": "mark", "static.value": "x"}, predicate=HAS_HEADER),
        step("ReplaceField", {"exclude": "text"}, predicate=HAS_HEADER, negate=True),
        step("ExtractField", {"field": "inner"}, predicate=ORDERS, negate=True),
    ],
    "a key of the value": [
        step("ValueToKey", {"fields": "small,text"}),
        step("ExtractField", {"field": "text"}, side="key"),
        step("RegexRouter", {"regex": r"shop\.(.*)", "replacement": "$1"}),
        step("InsertField", {"topic.field": "topic"}),
    ],
    "the key": [
        step("HoistField", {"field": "k"}, side="key"),
        step("Cast", {"spec": "k:int64"}, side="key"),
        step("SetSchemaMetadata", {"schema.name": "x"}),
    ],
}
STORES_KEYS = frozenset({"a key of the value", "the key"})


def enveloped(kind: Type, value: Any) -> bytes:
    envelope = {"schema": connect_schema(kind), "payload": connect_value(kind, value)}
    return json.dumps(envelope).encode()


def envelopes(seed: int, count: int) -> list[Given]:
    chance = random.Random(seed)
    return [
        Given(
            value=chance.choice([None, b"{}"]) if chance.random() < 0.05 else enveloped(ALL, value),
            key=chance.choice([None, b"", b"5", b" 7", b"x"]),
            headers=chance.choice([(), (("trace", b"1"),), (("other", None), ("trace", None))]),
            timestamp=chance.choice([-1, 0, 1_700_000_000_123]),
        )
        for value in rows(ALL, count, seed)
    ]


JSON_PARTS = {
    "plain": [],
    "transformed": [
        step("InsertField", {"timestamp.field": "seen", "offset.field": "large"}),
        step("Cast", {"spec": "small:string,flag:int8,text:boolean"}),
        step("ExtractField", {"field": "inner"}, predicate=ORDERS, negate=True),
    ],
}


def json_value(chance: random.Random) -> Any:
    """Mostly of the same types."""
    found: dict[str, Any] = {
        "small": chance.choice([chance.randrange(-(10**6), 10**6), 0, None]),
        "large": chance.choice([2**53 + 1, 2**63 - 1, -(2**63), 7]),
        "double": chance.choice([0.5, -0.0, 1e300, 3, 1e-7, 123456789.125, 2**60]),
        "text": chance.choice(["", "true", "é\x00", "TRUE", None]),
        "flag": chance.random() < 0.5,
        "inner": chance.choice([None, {}, {"a": 1, "deep": {"b": "x"}}, {"a": None}]),
        "words": chance.choice([None, [], ["a", None], ["b"]]),
        "objects": chance.choice([[], [{"a": 1}, None, {"a": 2, "b": "c"}]]),
    }
    if chance.random() < 0.1:
        name = chance.choice(list(found))
        found[chance.choice([name, name.upper(), f"{name} "])] = chance.choice(
            [1.0, "1", True, [1], {"a": "b"}, 2**70]
        )
    return found if chance.random() < 0.97 else chance.choice([[found], "x", 5, None])


@pytest.mark.long
@pytest.mark.parametrize("name", JSON_PARTS)
def test_json_without_schemas(spark: SparkSession, name: str) -> None:
    chance = random.Random(9)
    made = of_sink(
        value=Converter(kind=ConverterKind.JSON),
        partitioning=by_time(columns=DAILY),
        transformations=tuple(JSON_PARTS[name]),
        null_values=NullValues.WRITE,
    )
    usual = {"small": 1, "large": 2**40, "double": 0.5, "text": "t", "flag": True, "words": ["w"]}
    inner = {"inner": {"a": 1, "deep": {"b": "x"}}, "objects": [{"a": 1, "b": "c"}]}
    first = [Given(value=json.dumps({**usual, **inner}).encode())]
    given = [Given(value=json.dumps(json_value(chance)).encode()) for _ in range(600)]
    given += [Given(value=each) for each in (None, b"", b"{", b"\xff{}", b'{"text": "\\ud800"}', b"{}")]
    found = Twice(spark, made, records=first).compare([*first, *given])
    assert found.rows > 300, (found.rows, Counter(found.unsure))


@pytest.mark.parametrize("name", mostly_long(STEPS, 17))
def test_transformations(spark: SparkSession, name: str) -> None:
    made = of_sink(
        value=Converter(kind=ConverterKind.JSON, has_schemas=True),
        partitioning=Partitioning(),
        transformations=tuple(STEPS[name]),
        null_values=NullValues.WRITE,
        stores_keys=name in STORES_KEYS,
        stores_headers=name in STORES_KEYS,
    )
    given = envelopes(8, 400)
    found = Twice(spark, made, records=given).compare(given)
    assert found.rows + found.refused + found.dropped > 100, (found.rows, Counter(found.unsure))
