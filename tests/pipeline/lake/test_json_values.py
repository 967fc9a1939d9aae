"""JSON without schemas as rows: columns found in the data, values that fit or do not, and any bytes."""

from __future__ import annotations

import json
import random
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.evolution import NEW_JSON_TABLE, merged
from headrace.lake.types import Array, Field, Map, Simple, Struct, Type, ddl
from headrace.lake.types import Decimal as DecimalType
from headrace.pipeline.spark.lake.json_columns import columns_in, infer
from headrace.pipeline.spark.lake.json_values import JsonValues
from headrace.pipeline.spark.lake.values import BytesValues, TextValues
from tests.pipeline.lake.reading import Read, read


def struct(**fields: Type) -> Struct:
    return Struct(fields=tuple(Field(name=name, type=kind) for name, kind in fields.items()))


def inferred(spark: SparkSession, *texts: str | bytes) -> Struct:
    values = [(bytearray(each.encode() if isinstance(each, str) else each),) for each in texts]
    return infer(spark.createDataFrame(values, "value binary"))


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (
            "OBJECT<a: BIGINT, b: DECIMAL(3,1), c: DOUBLE, d: STRING, e: BOOLEAN>",
            "`a`:BIGINT,`b`:DOUBLE,`c`:DOUBLE,`d`:STRING,`e`:BOOLEAN",
        ),
        ("OBJECT<a: VOID, b: OBJECT<>, c: ARRAY<VOID>, d: ARRAY<OBJECT<>>, e: BIGINT>", "`e`:BIGINT"),
        ("OBJECT<a: VARIANT, b: ARRAY<VARIANT>>", "`a`:STRING,`b`:ARRAY<STRING>"),
        (
            "OBJECT<`a ,<b`: OBJECT<`x``y`: BIGINT, z: ARRAY<OBJECT<q: STRING>>>>",
            "`a__<b`:STRUCT<`x``y`:BIGINT,`z`:ARRAY<STRUCT<`q`:STRING>>>",
        ),
        (
            "OBJECT<A: BIGINT, a: STRING, `_offset`: BIGINT, _TOPIC_OFFSET: BIGINT>",
            "`A`:STRING,`_offset`:BIGINT",
        ),
        ("OBJECT<>", ""),
        ("VOID", ""),
        ("VARIANT", ""),
        ("OBJECT<a: TIMESTAMP_NTZ, b: BIGINT>", "`a`:STRING,`b`:BIGINT"),
    ],
)
def test_types_as_spark_prints_them_become_columns(schema: str, columns: str) -> None:
    assert ddl(columns_in(schema)) == f"STRUCT<{columns}>"


def test_too_many_fields_are_refused() -> None:
    fields = ", ".join(f"a{at}: BIGINT" for at in range(1001))
    with pytest.raises(HeadraceError, match="more than 1000 different fields"):
        columns_in(f"OBJECT<{fields}>")


@pytest.mark.parametrize("kind", ["ARRAY<", "OBJECT<a: "])
def test_what_is_too_deep_is_a_text(kind: str) -> None:
    found: Type = columns_in(f"OBJECT<a: {kind * 2_000}BIGINT{'>' * 2_000}, b: BIGINT>")
    assert isinstance(found, Struct)
    assert found.find("b") is not None
    assert ddl(found).count("<") == 6


def test_columns_are_found_in_the_data(spark: SparkSession) -> None:
    found = inferred(
        spark,
        '{"a": 1, "b": {"c": 1.5, "d": []}, "n": null, "w x": "y", "m": 1}',
        '{"a": 2.5, "b": {"d": [{"e": true}]}, "l": [1, "x"], "m": "text"}',
        '{"a": 12345678901234567890, "empty": {}}',
        "nonsense",
        "[1]",
        b"\xff\xfe",
    )
    assert ddl(found) == (
        "STRUCT<`a`:DOUBLE,`b`:STRUCT<`c`:DOUBLE,`d`:ARRAY<STRUCT<`e`:BOOLEAN>>>,"
        "`l`:ARRAY<STRING>,`m`:STRING,`w_x`:STRING>"
    )
    assert inferred(spark, "[]") == Struct(fields=())


def test_batches_are_merged(spark: SparkSession) -> None:
    batches = [inferred(spark, '{"a": 1, "b": 1}'), inferred(spark, '{"a": 1.5, "b": "x", "c": {"d": 1}}')]
    assert (
        ddl(merged(batches, rules=NEW_JSON_TABLE)) == "STRUCT<`a`:DOUBLE,`b`:STRING,`c`:STRUCT<`d`:BIGINT>>"
    )


COLUMNS = struct(
    t=Simple.BOOLEAN,
    i=Simple.INT,
    l=Simple.BIGINT,
    f=Simple.FLOAT,
    d=Simple.DOUBLE,
    n=DecimalType(precision=6, scale=2),
    s=Simple.STRING,
    x=Simple.BINARY,
    day=Simple.DATE,
    a=Array(element=Simple.BIGINT),
    m=Map(value=Simple.DOUBLE),
    r=struct(p=Simple.BIGINT, Q=Array(element=struct(z=Simple.STRING))),
)


def row(**values: Any) -> dict[str, Any]:
    return dict.fromkeys(field.name for field in COLUMNS.fields) | values


# All in one job of Spark each: a job of its own for every value would take minutes.
FITTING: dict[str, dict[str, Any]] = {
    "{}": {},
    '{"t": true, "i": 1, "l": 9223372036854775807, "f": 0.5, "d": 1, "n": 12.5}': {
        "t": True,
        "i": 1,
        "l": 2**63 - 1,
        "f": 0.5,
        "d": 1.0,
        "n": Decimal("12.50"),
    },
    '{"i": 5.0, "l": 1e3, "d": 1e300, "n": 3}': {"i": 5, "l": 1000, "d": 1e300, "n": Decimal("3.00")},
    '{"T": false, "I": 2, "unknown": [1, {}]}': {"t": False, "i": 2},
    '{"s": "a\\u0000\\"ü"}': {"s": 'a\0"ü'},
    '{"s": {"b": [1, null]}}': {"s": '{"b":[1,null]}'},
    '{"s": 5}': {"s": "5"},
    '{"x": "AP8=", "day": "2026-03-14"}': {"x": b"\x00\xff", "day": date(2026, 3, 14)},
    '{"a": [1, null, 3], "m": {"k": 1, "K": null}}': {"a": [1, None, 3], "m": {"k": 1.0, "K": None}},
    '{"a": [], "m": {}}': {"a": [], "m": {}},
    '{"r": {"P": 1, "q": [{"z": "y"}, {}, null]}}': {"r": {"p": 1, "Q": [{"z": "y"}, {"z": None}, None]}},
    '{"r": null, "a": null, "i": null, "s": null}': {},
}


def test_values_that_fit(spark: SparkSession) -> None:
    found = read(spark, JsonValues(COLUMNS), [text.encode() for text in FITTING])
    for (text, expected), each in zip(FITTING.items(), found, strict=True):
        assert each == Read(value=row(**expected), reason=None), text


NOT_FITTING: dict[str, str] = {
    '{"i": 2147483648}': "Field i is not INT: 2147483648.",
    '{"i": 1.5}': "Field i is not INT: 1.5.",
    '{"i": "1"}': "Field i is not INT: 1.",
    '{"l": 9223372036854775808}': "Field l is not BIGINT: 9223372036854775808.",
    '{"l": true}': "Field l is not BIGINT: true.",
    '{"t": 1}': "Field t is not BOOLEAN: 1.",
    '{"d": 1e400}': "Field d is not DOUBLE: Infinity.",
    '{"n": 12345}': "Field n is not DECIMAL(6,2): 12345.",
    '{"n": 1.234}': "Field n is not DECIMAL(6,2): 1.234.",
    '{"x": "?"}': "Field x is not BINARY: ?.",
    '{"day": "+12026-01-01"}': "Field day is not DATE: +12026-01-01.",
    '{"a": {"b": 1}}': 'Field a is not ARRAY<BIGINT>: {"b":1}.',
    '{"a": [1, "x"]}': "Field a[] is not BIGINT: x.",
    '{"m": {"k": "v"}}': "Field m[] is not DOUBLE: v.",
    '{"r": {"q": [{}, 5]}}': "Field r.Q[] is not STRUCT<`z`:STRING>: 5.",
    '{"a": 1, "a": 2}': "The value is not a JSON object, or has a field twice.",
    "[]": "The value is not a JSON object, or has a field twice.",
    "": "The value is not a JSON object, or has a field twice.",
    "{": "The value is not a JSON object, or has a field twice.",
}


def test_values_that_do_not_fit_have_a_reason(spark: SparkSession) -> None:
    found = read(spark, JsonValues(COLUMNS), [text.encode() for text in NOT_FITTING])
    assert {text: each.reason for text, each in zip(NOT_FITTING, found, strict=True)} == NOT_FITTING


FLAT = struct(t=Simple.BOOLEAN, i=Simple.INT, l=Simple.BIGINT, d=Simple.DOUBLE, s=Simple.STRING)
SINGLE: list[str] = ["true", "1", "1.0", "1.5", "-0", "1e3", "1e400", "2147483648", "9223372036854775808"]
SINGLE += ["1e-400", "null", '""', '"1"', '"true"', '"NaN"', "[]", "[1]", "{}", '{"a": 1}', '"\\u00fc"']


def test_flat_values_are_as_those_of_other_tables(spark: SparkSession) -> None:
    """Spark's JSON reader and variants agree on which values fit, and what they are."""
    names = ["t", "i", "l", "d", "s", "S", "other"]
    texts = [f'{{"{name}": {each}}}'.encode() for name in names for each in SINGLE]
    texts += [b"", b"[]", b'[{"i": 1}]', b"5", b"null", b'{"i": 1', b'{"s": "x", "S": "y"}', b"\xff"]
    nested = Struct(fields=(*FLAT.fields, Field(name="nested", type=struct(x=Simple.BIGINT))))
    quick = read(spark, JsonValues(FLAT), texts)
    slow = read(spark, JsonValues(nested), texts)
    assert [each.reason for each in quick] == [each.reason for each in slow]
    for text, one, other in zip(texts, quick, slow, strict=True):
        is_text = text.lower().startswith(b'{"s"')
        if one.reason is None and not (is_text and b"1" in text):
            # Numbers in texts are as written, or as variants write them.
            assert one.value == {key: each for key, each in other.value.items() if key != "nested"}, text


def test_null_is_a_tombstone(spark: SparkSession) -> None:
    assert read(spark, JsonValues(COLUMNS), [None]) == [Read(value=None, reason=None)]


def test_other_fields_are_kept_in_a_json_column(spark: SparkSession) -> None:
    reader = JsonValues(struct(a=Simple.BIGINT), json_column="rest")
    assert ddl(reader.struct) == "STRUCT<`a`:BIGINT,`rest`:STRING>"
    found = read(
        spark, reader, [b'{"A": 1, "b c": {"d": [1, "x", null]}, "E": null}', b'{"a": 1}', b'{"rest": 5}']
    )
    assert [each.value["a"] for each in found] == [1, 1, None]
    kept = [None if each.value["rest"] is None else json.loads(each.value["rest"]) for each in found]
    assert kept == [{"b c": {"d": [1, "x", None]}, "E": None}, None, {"rest": 5}]


def test_any_bytes_are_read_or_have_a_reason(spark: SparkSession) -> None:
    chance = random.Random(1)
    whole = (
        b'{"t": true, "i": 1, "d": 1.5, "s": "a", "a": [1], "m": {"k": 1}, "r": {"p": 1, "q": [{"z": "y"}]}}'
    )
    values = []
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.choice(
                [*b'"[]{}:,0-9e.ntf\\', chance.randrange(256)]
            )
        values.append(bytes(damaged))
    values += [chance.randbytes(chance.randrange(30)) for _ in range(50)]
    found = read(spark, JsonValues(COLUMNS, json_column="rest"), values)
    assert all(each.reason is not None or each.value is not None for each in found)
    assert inferred(spark, *values) is not None


def test_names_may_have_any_character(spark: SparkSession) -> None:
    text = '{"a.b": 1, "x`y": {"q.r": 2, "": 3}, "ß": 4, "i=j": [{"k l": 5}]}'
    columns = inferred(spark, text)
    expected = {"a.b": 1, "i_j": [{"k_l": 5}], "x`y": {"_": 3, "q.r": 2}, "ß": 4}
    assert read(spark, JsonValues(columns), [text.encode()]) == [Read(value=expected, reason=None)]


def test_deep_and_large_values_never_end_a_query(spark: SparkSession) -> None:
    columns = struct(a=Simple.STRING)
    deep = [b'{"a":' * depth + b"1" + b"}" * depth for depth in (100, 900, 1_100, 100_000)]
    large = [b'{"a": "' + b"x" * size + b'"}' for size in (1_000_000, 10_000_000)]
    found = read(spark, JsonValues(columns), [*deep, *large])
    assert all(each.reason is not None or each.value is not None for each in found)
    columns = inferred(spark, *deep, b'{"b": 1}')
    assert ddl(columns).endswith(",`b`:BIGINT>")
    assert all(
        each.reason is not None or each.value is not None for each in read(spark, JsonValues(columns), deep)
    )


def test_texts_and_bytes_are_one_column(spark: SparkSession) -> None:
    assert read(spark, TextValues(), [b"a", b"\xff", b"", None]) == [
        Read(value={"value": "a"}, reason=None),
        Read(value={"value": "\ufffd"}, reason=None),
        Read(value={"value": ""}, reason=None),
        Read(value=None, reason=None),
    ]
    assert [each.value for each in read(spark, BytesValues(), [b"\xff", None])] == [{"value": b"\xff"}, None]


names = st.text(alphabet="aB_ ,`<>:.ü0", min_size=1, max_size=4)


def _printed_object(fields: dict[str, str]) -> str:
    members = (f"`{name.replace('`', '``')}`: {kind}" for name, kind in fields.items())
    return f"OBJECT<{', '.join(members)}>"


single = st.sampled_from(["BIGINT", "STRING", "DOUBLE", "DECIMAL(3,1)", "VOID", "VARIANT", "BOOLEAN"])
printed: st.SearchStrategy[str] = st.deferred(
    lambda: (
        single
        | printed.map(lambda kind: f"ARRAY<{kind}>")
        | st.dictionaries(names, printed, max_size=2).map(_printed_object)
    )
)


@given(schema=printed)
def test_every_printed_type_is_understood(schema: str) -> None:
    columns_in(f"OBJECT<a: BIGINT, z: {schema}>")
