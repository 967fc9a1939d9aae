"""Which form of a function a call means, and what it gives; without Spark."""

from __future__ import annotations

import re

import pytest

from headrace.pipeline.expressions.functions.differences import DIFFERENCES
from headrace.pipeline.expressions.functions.function import (
    UNIT,
    Argument,
    FunctionKind,
    LambdaResult,
    LambdaShape,
)
from headrace.pipeline.expressions.functions.spark_text import (
    filled,
    integer_value,
    lambda_parts,
    string_literal,
    string_value,
)
from headrace.pipeline.expressions.functions.table import ALL, find, nearest
from headrace.pipeline.expressions.functions.unsupported import UNSUPPORTED
from headrace.pipeline.statements.errors import UnsupportedError
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
    StructField,
    StructType,
)

from .evaluating import call
from .odd_values import odd_forms

# All that ksqlDB 8 has built in.
KSQLDB_FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        """
    ABS ACOS ARRAY_CONCAT ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_JOIN
    ARRAY_LENGTH ARRAY_MAX ARRAY_MIN ARRAY_REMOVE ARRAY_SORT ARRAY_UNION ASIN AS_MAP AS_VALUE ATAN
    ATAN2 ATTR AVG BIGINT_FROM_BYTES CBRT CEIL CHR COALESCE COLLECT_LIST COLLECT_SET CONCAT
    CONCAT_WS CONVERT_TZ CORRELATION COS COSH COT COUNT COUNT_DISTINCT CUBE_EXPLODE DATEADD DATESUB
    DATETOSTRING DEGREES DOUBLE_FROM_BYTES EARLIEST_BY_OFFSET ELT ENCODE ENTRIES EXP EXPLODE
    EXTRACTJSONFIELD FIELD FILTER FLOOR FORMAT_DATE FORMAT_TIME FORMAT_TIMESTAMP FROM_BYTES
    FROM_DAYS FROM_UNIXTIME GENERATE_SERIES GEO_DISTANCE GREATEST HISTOGRAM IFNULL INITCAP INSTR
    INT_FROM_BYTES IS_JSON_STRING JSON_ARRAY_CONTAINS JSON_ARRAY_LENGTH JSON_CONCAT JSON_ITEMS
    JSON_KEYS JSON_RECORDS LATEST_BY_OFFSET LCASE LEAST LEN LN LOG LPAD MAP_KEYS MAP_UNION
    MAP_VALUES MASK MASK_KEEP_LEFT MASK_KEEP_RIGHT MASK_LEFT MASK_RIGHT MAX MD5 MIN NULLIF
    PARSE_DATE PARSE_TIME PARSE_TIMESTAMP PI POWER RADIANS RANDOM REDUCE REGEXP_EXTRACT
    REGEXP_EXTRACT_ALL REGEXP_REPLACE REGEXP_SPLIT_TO_ARRAY REPLACE ROUND RPAD SIGN SIN SINH SLICE
    SPLIT SPLIT_TO_MAP SQRT STDDEV_SAMP STDDEV_SAMPLE STRINGTODATE STRINGTOTIMESTAMP SUBSTRING SUM
    SUM_LIST TAN TANH TIMEADD TIMESTAMPADD TIMESTAMPSUB TIMESTAMPTOSTRING TIMESUB TOPK TOPKDISTINCT
    TO_BYTES TO_JSON_STRING TRANSFORM TRIM TRUNC UCASE UNIX_DATE UNIX_TIMESTAMP URL_DECODE_PARAM
    URL_ENCODE_PARAM URL_EXTRACT_FRAGMENT URL_EXTRACT_HOST URL_EXTRACT_PARAMETER URL_EXTRACT_PATH
    URL_EXTRACT_PORT URL_EXTRACT_PROTOCOL URL_EXTRACT_QUERY UUID
        """,
    )
)


def given(name: str, *arguments: Argument) -> DataType | None:
    resolution = ALL[name].resolve(arguments)
    return None if resolution is None else resolution.type


def spark_of(name: str, arguments: tuple[Argument, ...], *texts: str) -> str:
    resolution = ALL[name].resolve(arguments)
    assert resolution is not None
    return resolution.spark(texts)


def test_every_function_of_ksqldb_is_here_or_said_to_be_missing() -> None:
    assert set(ALL) | set(UNSUPPORTED) == KSQLDB_FUNCTIONS
    assert not set(ALL) & set(UNSUPPORTED)


def test_differences_are_those_of_functions() -> None:
    assert set(ALL) >= set(DIFFERENCES)


def test_functions_describe_themselves() -> None:
    for function in ALL.values():
        assert function.description, function.name
        assert function.signatures, function.name
    assert [str(form) for form in ALL["ARRAY_REMOVE"].signatures] == [
        "(array ARRAY<T>, element T) -> ARRAY<T>"
    ]
    assert str(ALL["TRANSFORM"].signatures[0]) == "(array ARRAY<T>, lambda LAMBDA (T) => R) -> ARRAY<R>"
    assert str(ALL["COALESCE"].signatures[0]) == "(first T, others T...) -> T"
    assert str(ALL["DATEADD"].signatures[0]) == "(unit UNIT, interval INTEGER, value DATE) -> DATE"


def test_names() -> None:
    found = find("ucase")
    assert found is ALL["UCASE"]
    assert found.kind is FunctionKind.SCALAR
    assert find("UPPER") is None
    assert nearest("UCAS") == "UCASE"
    assert nearest("substr") == "SUBSTRING"
    assert nearest("LATEST_BY_OFSET") == "LATEST_BY_OFFSET"
    assert nearest("QQQQQQQQ") is None


def test_the_very_types_go_before_casts() -> None:
    assert given("ABS", INTEGER) is INTEGER
    assert given("ABS", BIGINT) is BIGINT
    assert given("ABS", DecimalType(5, 2)) == DecimalType(5, 2)
    assert given("ROUND", INTEGER) is BIGINT
    assert given("ROUND", DOUBLE, INTEGER) is DOUBLE
    assert given("ROUND", DecimalType(5, 2)) == DecimalType(3, 0)
    assert given("ROUND", DecimalType(5, 2), INTEGER) == DecimalType(5, 2)


def test_numbers_widen_by_themselves() -> None:
    assert given("SQRT", DecimalType(5, 2)) is DOUBLE
    assert given("FROM_UNIXTIME", INTEGER) is TIMESTAMP
    assert given("GEO_DISTANCE", DOUBLE, INTEGER, BIGINT, DecimalType(3, 1)) is DOUBLE
    assert "try_cast(i as DOUBLE)" in spark_of(
        "GEO_DISTANCE", (DOUBLE, INTEGER, DOUBLE, DOUBLE), "d", "i", "d", "d"
    )


def test_nothing_becomes_narrower() -> None:
    assert given("FROM_DAYS", BIGINT) is None
    assert given("SUBSTRING", VARCHAR, DOUBLE) is None
    assert given("LEN", INTEGER) is None
    assert given("GEO_DISTANCE", DOUBLE, DOUBLE, VARCHAR, DOUBLE) is None


def test_texts_become_times_by_themselves() -> None:
    assert given("UNIX_DATE", VARCHAR) is INTEGER
    assert given("FORMAT_TIME", VARCHAR, VARCHAR) is VARCHAR


def test_what_could_mean_two_forms_is_refused() -> None:
    assert given("ABS", None) is None
    assert given("GREATEST", INTEGER, BIGINT) is None
    assert given("POWER", INTEGER, BIGINT) is None


def test_the_number_of_arguments_counts() -> None:
    assert given("UCASE") is None
    assert given("UCASE", VARCHAR, VARCHAR) is None
    assert given("CONCAT_WS", VARCHAR) is None
    assert given("CONCAT_WS", VARCHAR, VARCHAR) is VARCHAR
    assert given("PI") is DOUBLE


def test_null_takes_the_type_of_the_others() -> None:
    assert given("IFNULL", None, VARCHAR) is VARCHAR
    assert given("IFNULL", None, None) is None
    assert spark_of("IFNULL", (None, VARCHAR), "NULL", "s") == "coalesce(CAST(NULL AS STRING), s)"
    assert given("COALESCE", INTEGER, None, INTEGER) is INTEGER


def test_open_types_are_the_same_everywhere() -> None:
    assert given("COALESCE", INTEGER, BIGINT) is None
    assert given("ARRAY_CONTAINS", ArrayType(INTEGER), VARCHAR) is None
    assert given("ARRAY_CONCAT", ArrayType(VARCHAR), ArrayType(VARCHAR)) == ArrayType(VARCHAR)
    assert given("MAP_VALUES", MapType(VARCHAR, ArrayType(DATE))) == ArrayType(ArrayType(DATE))
    assert given("MAP_KEYS", MapType(INTEGER, DATE)) is None
    assert given("AS_MAP", ArrayType(VARCHAR), ArrayType(TIME)) == MapType(VARCHAR, TIME)


def test_what_spark_cannot_compare_is_refused() -> None:
    maps = MapType(VARCHAR, INTEGER)
    assert given("ARRAY_DISTINCT", ArrayType(maps)) is None
    assert given("NULLIF", maps, maps) is None
    assert given("ARRAY_MAX", ArrayType(ArrayType(INTEGER))) is None
    assert given("COLLECT_SET", StructType((StructField("M", maps),))) is None
    assert given("COLLECT_LIST", maps) == ArrayType(maps)


def test_decimals_keep_what_they_hold() -> None:
    assert given("GREATEST", DecimalType(2, 1), DecimalType(6, 3)) == DecimalType(6, 3)
    assert given("LEAST", DecimalType(4, 0), DecimalType(3, 2)) == DecimalType(6, 2)
    assert given("SUM", DecimalType(4, 2)) == DecimalType(4, 2)
    assert given("TOPKDISTINCT", DecimalType(4, 2), INTEGER) == ArrayType(DecimalType(4, 2))


def test_aggregates_cast_nothing() -> None:
    assert given("AVG", DecimalType(4, 2)) is None
    assert given("CORRELATION", INTEGER, BIGINT) is None
    assert given("HISTOGRAM", INTEGER) is None
    assert given("COUNT") is BIGINT
    assert given("COUNT", BYTES) is BIGINT


def test_topk_names_its_columns() -> None:
    assert given("TOPK", VARCHAR, INTEGER) == ArrayType(VARCHAR)
    assert given("TOPK", INTEGER, VARCHAR, BOOLEAN, INTEGER) == ArrayType(
        StructType(
            (StructField("sort_col", INTEGER), StructField("col0", VARCHAR), StructField("col1", BOOLEAN))
        )
    )


def test_latest_by_offset_tells_a_number_from_a_flag() -> None:
    assert given("LATEST_BY_OFFSET", VARCHAR) is VARCHAR
    assert given("LATEST_BY_OFFSET", VARCHAR, BOOLEAN) is VARCHAR
    assert given("LATEST_BY_OFFSET", VARCHAR, INTEGER) == ArrayType(VARCHAR)
    assert given("LATEST_BY_OFFSET", VARCHAR, INTEGER, BOOLEAN) == ArrayType(VARCHAR)


def test_lambdas_learn_the_types_of_their_parameters() -> None:
    numbers, counts = ArrayType(INTEGER), MapType(VARCHAR, BIGINT)
    assert ALL["TRANSFORM"].lambda_parameters(1, (numbers, LambdaShape(1))) == (INTEGER,)
    assert ALL["TRANSFORM"].lambda_parameters(2, (counts, LambdaShape(2), LambdaShape(2))) == (
        VARCHAR,
        BIGINT,
    )
    assert ALL["TRANSFORM"].lambda_parameters(1, (numbers, LambdaShape(2))) is None
    assert ALL["REDUCE"].lambda_parameters(2, (numbers, DOUBLE, LambdaShape(2))) == (DOUBLE, INTEGER)
    assert ALL["REDUCE"].lambda_parameters(2, (counts, DOUBLE, LambdaShape(3))) == (DOUBLE, VARCHAR, BIGINT)
    assert ALL["UCASE"].lambda_parameters(0, (LambdaShape(1),)) is None


def test_lambdas_give_the_type_of_the_result() -> None:
    numbers, counts = ArrayType(INTEGER), MapType(VARCHAR, BIGINT)
    assert given("TRANSFORM", numbers, LambdaResult((INTEGER,), DATE)) == ArrayType(DATE)
    keys, values = LambdaResult((VARCHAR, BIGINT), INTEGER), LambdaResult((VARCHAR, BIGINT), DATE)
    assert given("TRANSFORM", counts, keys, values) == MapType(INTEGER, DATE)
    assert given("FILTER", numbers, LambdaResult((INTEGER,), INTEGER)) is None
    assert given("REDUCE", numbers, INTEGER, LambdaResult((INTEGER, INTEGER), INTEGER)) is INTEGER
    assert given("REDUCE", numbers, INTEGER, LambdaResult((INTEGER, INTEGER), BIGINT)) is None


def test_units() -> None:
    assert given("DATEADD", UNIT, INTEGER, DATE) is DATE
    assert given("DATEADD", VARCHAR, INTEGER, DATE) is None
    assert given("UCASE", UNIT) is None
    with pytest.raises(UnsupportedError, match="YEARS"):
        spark_of("DATEADD", (UNIT, INTEGER, DATE), "YEARS", "1", "d")


def test_what_has_to_be_a_constant_says_so() -> None:
    with pytest.raises(UnsupportedError, match="TOPK"):
        spark_of("TOPK", (INTEGER, INTEGER), "i", "`n`")
    with pytest.raises(UnsupportedError, match="LATEST_BY_OFFSET"):
        spark_of("LATEST_BY_OFFSET", (INTEGER, INTEGER), "i", "0")


def test_formats_that_spark_cannot_follow_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="'YYYY'"):
        spark_of("FORMAT_DATE", (DATE, VARCHAR), "d", "'YYYY-ww'")
    with pytest.raises(UnsupportedError, match="'n'"):
        spark_of("PARSE_TIMESTAMP", (VARCHAR, VARCHAR), "s", "'yyyy n'")
    with pytest.raises(UnsupportedError, match="zone"):
        spark_of("FORMAT_TIMESTAMP", (TIMESTAMP, VARCHAR, VARCHAR), "t", "'HH z'", "'Europe/London'")


def test_ordinary_patterns_and_zones_are_not_asked_about() -> None:
    """What asks Java is not deterministic to Spark, and may not stand in an aggregate or a key."""
    types = (VARCHAR, VARCHAR)
    ordinary = (r"'(\\w+)@([a-z.]+)'", "'^[A-Z]{3}-\\\\d{2,}$'", "'a|b'", "'(?<year>\\\\d{4})'")
    assert not any("reflect" in spark_of("REGEXP_EXTRACT", types, each, "s") for each in ordinary)
    odd = ("'('", "'a{'", "'[[]'", "'\\\\p{L}'", "'(?i)a'", "s", "'[a&&b]'", "'\\\\Qa'", "'a{2,1}'")
    assert all("reflect" in spark_of("REGEXP_EXTRACT", types, each, "s") for each in odd)
    zoned = (TIMESTAMP, VARCHAR, VARCHAR)
    assert "reflect" not in spark_of("FORMAT_TIMESTAMP", zoned, "t", "'HH'", "'+02:00'")
    assert "reflect" in spark_of("FORMAT_TIMESTAMP", zoned, "t", "'HH'", "'Mars/Base'")
    assert "reflect" not in spark_of("PARSE_TIMESTAMP", (VARCHAR, VARCHAR), "s", "'yyyy-MM-dd'")


def test_costly_arguments_are_computed_once() -> None:
    template = "CASE WHEN {a} > 0 THEN {a} ELSE {b} END"
    assert (
        filled(template, {"a": "`X`", "b": "f(y)"}, binds=True) == "CASE WHEN `X` > 0 THEN `X` ELSE f(y) END"
    )
    bound = filled(template, {"a": "f(x)", "b": "f(y)"}, binds=True)
    assert bound.count("f(x)") == 1
    assert bound.count("f(y)") == 1
    # Aggregates cannot stand in a lambda.
    assert filled(template, {"a": "f(x)", "b": "f(y)"}, binds=False).count("f(x)") == 2


def test_calls_can_stand_beside_operators() -> None:
    """Each is a call, a CASE or stands in parentheses; whoever uses it adds none."""
    loose = []
    for function in ALL.values():
        if function.kind is FunctionKind.AGGREGATE:
            continue
        for form in odd_forms(function, rows=1):
            texts = [each.spark if each.is_fixed else "c" for each in form.arguments]
            spark, _ = call(form.name, [each.argument for each in form.arguments], texts)
            if not re.fullmatch(r"[\w.]*", _outermost(spark)):
                loose.append(spark)
    assert loose == []


def _outermost(spark: str) -> str:
    """Without constants, what stands in parentheses, and CASE."""
    rest = re.sub(r"""r?'(?:[^'\\]|\\.)*'|r?"[^"]*\"""", "", spark)
    for inner in (r"\([^()]*\)", r"(?s)\bCASE\b(?:(?!\bCASE\b|\bEND\b).)*\bEND\b"):
        while (shorter := re.sub(inner, "", rest)) != rest:
            rest = shorter
    return rest.strip()


def test_braces_in_arguments_are_left_alone() -> None:
    assert spark_of("UCASE", (VARCHAR,), "'{x}'") == "upper('{x}')"
    state = (ArrayType(VARCHAR), VARCHAR, LambdaResult((VARCHAR, VARCHAR), VARCHAR))
    assert "'{}'" in spark_of("REDUCE", state, "a", "s", "(`S`, `X`) -> concat(`S`, '{}')")


@pytest.mark.parametrize("value", ["", "it's", "a\\b", "\\E", "${x}", "a\nb", "\u597d", '"', "%_"])
def test_constants_are_read_as_written(value: str) -> None:
    assert string_value(string_literal(value)) == value


def test_what_is_no_constant_is_none() -> None:
    assert string_value("`a`") is None
    assert string_value("concat('a', 'b')") is None
    assert string_value("'a' || 'b'") is None
    assert integer_value("(-2)") == -2
    assert integer_value("-(2)") == -2
    assert integer_value("3L") == 3
    assert integer_value("`a`") is None
    assert integer_value("1.5") is None


def test_lambdas_are_taken_apart() -> None:
    assert lambda_parts("`X` -> (`X` + 1)") == (("`X`",), "(`X` + 1)")
    assert lambda_parts("(`S`, `X`) -> transform(a, `Y` -> `Y`)") == (
        ("`S`", "`X`"),
        "transform(a, `Y` -> `Y`)",
    )
