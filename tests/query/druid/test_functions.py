"""Every function on a real DuckDB, with the results that Druid documents, and the SQL it becomes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.query.druid.functions import FUNCTIONS
from tests.query.druid.asking import asked, database, translated

T = "TIMESTAMP '2013-08-01 08:14:37.123'"
# A single expression, and its value as JSON. Where Druid's documentation has an example, it is that one.
EXPRESSIONS = {
    "TIME_FLOOR(TIMESTAMP '2013-08-01 09:13:00', 'PT45M', TIMESTAMP '2013-08-01 08:0:00')": '"2013-08-01T08:45:00.000Z"',
    "TIME_CEIL(TIMESTAMP '2013-08-01 08:14:37', 'PT45M', TIMESTAMP '2013-08-01 08:0:00')": '"2013-08-01T08:45:00.000Z"',
    "TIME_CEIL(TIMESTAMP '2013-08-01 00:00:00', 'P1D')": '"2013-08-01T00:00:00.000Z"',
    f"TIME_CEIL({T}, 'P1M')": '"2013-09-01T00:00:00.000Z"',
    f"TIME_FLOOR({T}, 'P1D')": '"2013-08-01T00:00:00.000Z"',
    f"TIME_FLOOR({T}, 'P1W')": '"2013-07-29T00:00:00.000Z"',
    f"TIME_FLOOR({T}, 'P3M')": '"2013-07-01T00:00:00.000Z"',
    f"TIME_FLOOR({T}, 'P1Y')": '"2013-01-01T00:00:00.000Z"',
    f"TIME_FLOOR({T}, 'PT1H30M')": '"2013-08-01T07:30:00.000Z"',
    f"TIME_FLOOR({T}, 'P1D', NULL, 'America/Los_Angeles')": '"2013-08-01T07:00:00.000Z"',
    f"TIME_FLOOR({T}, 'PT1H', NULL, 'Asia/Kolkata')": '"2013-08-01T07:30:00.000Z"',
    f"TIME_FLOOR({T}, 'P1D', NULL, '+02:00')": '"2013-07-31T22:00:00.000Z"',
    "TIME_FLOOR(TIMESTAMP '1950-08-01 08:14:37', 'P1W')": '"1950-07-31T00:00:00.000Z"',
    "TIME_SHIFT(TIMESTAMP '2013-08-01 08:14:37', 'PT1H', -24)": '"2013-07-31T08:14:37.000Z"',
    "TIME_SHIFT(TIMESTAMP '2000-01-31 00:00:00', 'P1M', 1)": '"2000-02-29T00:00:00.000Z"',
    # A day with 23 hours.
    "TIME_SHIFT(TIMESTAMP '2026-03-28 12:00:00', 'P1D', 1, 'Europe/Berlin')": '"2026-03-29T11:00:00.000Z"',
    "TIME_SHIFT(TIMESTAMP '2026-03-28 12:00:00', 'PT24H', 1, 'Europe/Berlin')": '"2026-03-29T12:00:00.000Z"',
    f"TIME_EXTRACT({T}, 'hour', '-04:00')": "4",
    f"TIME_EXTRACT({T}, 'EPOCH')": "1375344877",
    "TIME_PARSE('2005-11-01', 'YYYY-MM-dd', '-05:00')": '"2005-11-01T05:00:00.000Z"',
    "TIME_PARSE('2000-01-02T03:04:05Z')": '"2000-01-02T03:04:05.000Z"',
    "TIME_PARSE('2000-02-01 00:00:00', NULL, 'America/Los_Angeles')": '"2000-02-01T08:00:00.000Z"',
    "TIME_PARSE('tomorrow')": "null",
    "TIME_PARSE('01/02/2000', 'yyyy-MM-dd')": "null",
    "TIME_PARSE('2000-01-02 03:04:05.678 +0200', 'yyyy-MM-dd HH:mm:ss.SSS Z')": '"2000-01-02T01:04:05.678Z"',
    "TIME_FORMAT(TIMESTAMP '2013-08-01 08:14:37', 'dd-MM-YYYY hh:mm aa zzz', '-05:00')": '"01-08-2013 03:14 AM -05:00"',
    f"TIME_FORMAT({T})": '"2013-08-01T08:14:37.123Z"',
    f"TIME_FORMAT({T}, NULL, 'Europe/Berlin')": '"2013-08-01T10:14:37.123+02:00"',
    f"TIME_FORMAT({T}, 'EEEE, d. MMMM yy ''at'' H.mm k K w e D xxxx S Z')": '"Thursday, 1. August 13 at 8.14 8 8 31 4 213 2013 1 +0000"',
    f"TIME_FORMAT({T}, '100% yyyy', 'UTC')": '"100% 2013"',
    "TIME_IN_INTERVAL(TIMESTAMP '2013-08-01 08:14:37', '2013-08-01T08:00:00/PT1H')": "true",
    "TIME_IN_INTERVAL(TIMESTAMP '2013-08-01 09:00:00', '2013-08-01T08:00:00/PT1H')": "false",
    "TIME_IN_INTERVAL(TIMESTAMP '2000-01-31 23:59:59', '2000-01-01/2000-02-01')": "true",
    "TIME_IN_INTERVAL(TIMESTAMP '2000-01-31 00:00:00', 'P1M/2000-02-29')": "true",
    f"DATE_TRUNC('month', {T})": '"2013-08-01T00:00:00.000Z"',
    f"DATE_TRUNC('decade', {T})": '"2010-01-01T00:00:00.000Z"',
    "MILLIS_TO_TIMESTAMP(1375344877123)": '"2013-08-01T08:14:37.123Z"',
    f"TIMESTAMP_TO_MILLIS({T})": "1375344877123",
    f"TIMESTAMPADD(MONTH, 2, {T})": '"2013-10-01T08:14:37.123Z"',
    f"TIMESTAMPADD(SQL_TSI_DAY, -1, {T})": '"2013-07-31T08:14:37.123Z"',
    "TIMESTAMPDIFF(MONTH, TIMESTAMP '2000-01-31 00:00:00', TIMESTAMP '2000-02-28 00:00:00')": "0",
    "TIMESTAMPDIFF(HOUR, TIMESTAMP '2000-01-02 00:30:00', TIMESTAMP '2000-01-01 00:00:00')": "-24",
    f"FLOOR({T} TO HOUR)": '"2013-08-01T08:00:00.000Z"',
    f"CEIL({T} TO QUARTER)": '"2013-10-01T00:00:00.000Z"',
    f"EXTRACT(MILLISECOND FROM {T})": "123",
    f"EXTRACT(DOW FROM {T})": "4",
    f"EXTRACT(CENTURY FROM {T})": "21",
    f"EXTRACT(MILLENNIUM FROM {T})": "3",
    f"EXTRACT(DECADE FROM {T})": "201",
    f"{T} + INTERVAL '1 02:30' DAY TO MINUTE": '"2013-08-02T10:44:37.123Z"',
    f"{T} - INTERVAL '1-2' YEAR TO MONTH": '"2012-06-01T08:14:37.123Z"',
    f"INTERVAL '1.5' SECOND + {T}": '"2013-08-01T08:14:38.623Z"',
    f"{T} + 2 * INTERVAL '1' DAY": '"2013-08-03T08:14:37.123Z"',
    f"CAST({T} AS VARCHAR)": '"2013-08-01 08:14:37"',
    f"CAST({T} AS DATE)": '"2013-08-01T00:00:00.000Z"',
    f"CAST({T} AS BIGINT)": "1375344877123",
    "CAST('2000-01-02 03:04:05' AS TIMESTAMP)": '"2000-01-02T03:04:05.000Z"',
    "CAST('foo' AS BIGINT)": "null",
    "CAST('1.9' AS BIGINT)": "1",
    "CAST(1.9 AS INTEGER)": "1",
    "CAST('9223372036854775807' AS BIGINT)": "9223372036854775807",
    "CAST(1 AS DOUBLE)": "1.0",
    "CAST('true' AS BOOLEAN)": "true",
    "CURRENT_TIMESTAMP > TIMESTAMP '2020-01-01 00:00:00' AND CURRENT_DATE > DATE '2020-01-01'": "true",
    "7 / 2": "3", "-7 / 2": "-3", "7 / 2.0": "3.5", "7 % 4": "3", "MOD(7, 4)": "3", "DIV(7, 2)": "3", "DIV(7.5, 2)": "3",
    "SAFE_DIVIDE(10, 4)": "2", "SAFE_DIVIDE(1, 0)": "null", "SAFE_DIVIDE(1.0, 4)": "0.25",
    "PI()": "3.141592653589793", "ABS(-2)": "2", "CEIL(1.2)": "2.0", "FLOOR(-1.2)": "-2.0", "ROUND(2.567, 1)": "2.6",
    "TRUNC(-2.567, 2)": "-2.56", "TRUNCATE(2.9)": "2.0", "POWER(2, 3)": "8.0", "SQRT(16)": "4.0", "LOG10(100)": "2.0",
    "LN(1)": "0.0", "EXP(0)": "1.0", "DEGREES(PI())": "180.0", "RADIANS(180) = PI()": "true", "ATAN2(0, 1)": "0.0",
    "SIN(0) + COS(0) + TAN(0) + ASIN(0) + ATAN(0) + ACOS(1)": "1.0", "COT(1) > 0.6": "true",
    "BITWISE_AND(12, 10)": "8", "BITWISE_OR(12, 10)": "14", "BITWISE_XOR(12, 10)": "6", "BITWISE_COMPLEMENT(12)": "-13",
    "BITWISE_SHIFT_LEFT(2, 3)": "16", "BITWISE_SHIFT_RIGHT(16, 3)": "2",
    "CONCAT('a', 1, '-', 2.5)": '"a1-2.5"', "CONCAT('a', NULL)": "null", "'a' || 1": '"a1"', "TEXTCAT('a', 'b')": '"ab"',
    "CONTAINS_STRING('Hello', 'ell')": "true", "CONTAINS_STRING('Hello', 'ELL')": "false",
    "ICONTAINS_STRING('Hello', 'ELL')": "true", "DECODE_BASE64_UTF8('SGVsbG8=')": '"Hello"',
    "LEFT('abc', 2)": '"ab"', "RIGHT('abc', 2)": '"bc"', "LENGTH('abc')": "3", "CHAR_LENGTH('abc')": "3",
    "CHARACTER_LENGTH('ab')": "2", "STRLEN('ü')": "1", "LOWER('Ab')": '"ab"', "UPPER('Ab')": '"AB"',
    "LPAD('abc', 5, 'xy')": '"xyabc"', "LPAD('abc', 5)": '"  abc"', "LPAD('abc', 2)": '"ab"', "LPAD('abc', 5, '')": '"abc"',
    "RPAD('abc', 5, 'xy')": '"abcxy"', "RPAD('abc', 5, NULL)": "null",
    "PARSE_LONG('12')": "12", "PARSE_LONG('ff', 16)": "255", "PARSE_LONG('x')": "null",
    "POSITION('b' IN 'abcb')": "2", "POSITION('b' IN 'abcb' FROM 3)": "4", "POSITION('z' IN 'abcb' FROM 3)": "0",
    "STRPOS('abc', 'c')": "3", "STRPOS('abc', 'z')": "0",
    "REGEXP_EXTRACT('foobar', 'b(.)r', 1)": '"a"', "REGEXP_EXTRACT('foobar', 'o+')": '"oo"',
    "REGEXP_EXTRACT('foobar', 'z')": "null", "REGEXP_LIKE('foobar', 'o+b')": "true", "REGEXP_LIKE('foobar', '^b')": "false",
    "REGEXP_REPLACE('foo bar baz', '([a-z]+) ', '$1-')": '"foo-bar-baz"',
    "REGEXP_REPLACE('ab', 'b', '\\')": '"a\\\\"', "REGEXP_REPLACE('ab', '(b)', LOWER('$1$1'))": '"abb"',
    "REPLACE('aXa', 'X', '-')": '"a-a"', "REPEAT('ab', 2)": '"abab"', "REVERSE('abc')": '"cba"',
    "STRING_FORMAT('%s: %03d', 'a', 7)": '"a: 007"',
    "SUBSTRING('abcdef', 2, 3)": '"bcd"', "SUBSTRING('abcdef' FROM 4)": '"def"', "SUBSTR('abc', 2)": '"bc"',
    "TRIM(' a ')": '"a"', "TRIM(LEADING 'x' FROM 'xax')": '"ax"', "TRIM(TRAILING 'x' FROM 'xax')": '"xa"',
    "BTRIM('xax', 'x')": '"a"', "LTRIM(' a ')": '"a "', "RTRIM(' a ')": '" a"',
    "COALESCE(NULL, 2)": "2", "NVL(NULL, 'x')": '"x"', "NULLIF(1, 1)": "null", "GREATEST(1, NULL, 3)": "3", "LEAST(2, 1)": "1",
    "ARRAY['a', 'b']": '"[\\"a\\",\\"b\\"]"', "ARRAY_LENGTH(ARRAY[1, 2])": "2", "MV_LENGTH('a')": "1",
    "ARRAY_CONTAINS(ARRAY['a', 'b'], 'a')": "true", "ARRAY_CONTAINS(ARRAY['a', 'b'], ARRAY['a', 'c'])": "false",
    "ARRAY_OVERLAP(ARRAY[1, 2], ARRAY[2])": "true", "ARRAY_OFFSET(ARRAY[1, 2], 0)": "1", "ARRAY_OFFSET(ARRAY[1, 2], 2)": "null",
    "ARRAY_ORDINAL(ARRAY[1, 2], 1)": "1", "ARRAY_ORDINAL(ARRAY[1, 2], 0)": "null",
    "ARRAY_OFFSET_OF(ARRAY[1, 2], 2)": "1", "ARRAY_OFFSET_OF(ARRAY[1, 2], 3)": "null", "ARRAY_ORDINAL_OF(ARRAY[1, 2], 2)": "2",
    "ARRAY_PREPEND(1, ARRAY[2])": '"[1,2]"', "ARRAY_APPEND(ARRAY[1], 2)": '"[1,2]"', "ARRAY_CONCAT(ARRAY[1], ARRAY[2])": '"[1,2]"',
    "ARRAY_SLICE(ARRAY[1, 2, 3], 1, 2)": '"[2]"', "ARRAY_SLICE(ARRAY[1], 0, 2)": '"[1,null]"', "ARRAY_SLICE(ARRAY[1], 2, 3)": "null",
    "ARRAY_TO_STRING(ARRAY[1, 2], '-')": '"1-2"', "STRING_TO_ARRAY('a,b', ',')": '"[\\"a\\",\\"b\\"]"',
    "STRING_TO_MV('a1b', '[0-9]')": '"[\\"a\\",\\"b\\"]"', "MV_TO_ARRAY('a')": '"[\\"a\\"]"', "ARRAY_TO_MV(ARRAY['a'])": '"[\\"a\\"]"',
    "SCALAR_IN_ARRAY(1, ARRAY[1, 2])": "true", "MV_FILTER_ONLY(ARRAY['a', 'b'], ARRAY['a'])": '"[\\"a\\"]"',
    "MV_FILTER_NONE(ARRAY['a', 'b'], ARRAY['a'])": '"[\\"b\\"]"', "MV_FILTER_REGEX(ARRAY['a', 'b'], 'b')": '"[\\"b\\"]"',
    "MV_FILTER_PREFIX(ARRAY['ab', 'b'], 'a')": '"[\\"ab\\"]"', "MV_CONTAINS(ARRAY['a'], 'a')": "true",
    "MV_OVERLAP(ARRAY['a'], ARRAY['a'])": "true", "MV_OFFSET(ARRAY['a'], 0)": '"a"', "MV_ORDINAL(ARRAY['a'], 1)": '"a"',
    "MV_OFFSET_OF(ARRAY['a'], 'a')": "0", "MV_ORDINAL_OF(ARRAY['a'], 'a')": "1", "MV_PREPEND('a', ARRAY['b'])": '"[\\"a\\",\\"b\\"]"',
    "MV_APPEND(ARRAY['a'], 'b')": '"[\\"a\\",\\"b\\"]"', "MV_CONCAT('a', 'b')": '"[\\"a\\",\\"b\\"]"',
    "MV_SLICE(ARRAY['a', 'b'], 0, 1)": '"[\\"a\\"]"', "MV_TO_STRING(ARRAY['a', 'b'], '-')": '"a-b"',
    "JSON_VALUE(PARSE_JSON('{\"a\": 1}'), '$.a' RETURNING BIGINT)": "1", "JSON_VALUE(TRY_PARSE_JSON('{'), '$.a')": "null",
    "JSON_KEYS(PARSE_JSON('{\"a\": 1}'), '$')": '"[\\"a\\"]"', "TO_JSON_STRING(ARRAY[1])": '"[1]"',
    "JSON_QUERY(PARSE_JSON('{\"a\": {\"b\": 1}}'), '$.a')": '"{\\"b\\":1}"',
    "CASE WHEN NULL THEN 1 ELSE 2 END": "2", "CASE 1 WHEN 1 THEN 'a' END": '"a"',
    # Three-valued logic.
    "NULL = 1": "null", "NOT NULL IS NULL": "false", "1 IN (2, NULL)": "null", "NULL IS NOT DISTINCT FROM NULL": "true",
    "'abc' LIKE 'a%'": "true", "'a%c' LIKE 'a!%c' ESCAPE '!'": "true", "5 NOT BETWEEN 1 AND 3": "true", "'' IS NULL": "false",
    "1.5": "1.5", "1e3": "1000.0", "0.1 + 0.2": "0.30000000000000004",
}  # fmt: skip

QUERIES = {
    "SELECT COUNT(*), COUNT(VIEWS), COUNT(DISTINCT TYPE), SUM(VIEWS), MIN(VIEWS), MAX(PRICE), AVG(VIEWS) FROM events":
        ["[3,2,2,8,1,2.5,4.0]"],
    "SELECT SUM(VIEWS) / COUNT(*), SUM(PRICE) / 2 FROM events": ["[2,2.0]"],
    "SELECT SUM(VIEWS) FILTER (WHERE TYPE = 'A'), COUNT(*) FILTER (WHERE TYPE = 'C') FROM events": ["[1,0]"],
    "SELECT SUM(VIEWS), COUNT(*), LATEST(TYPE) FROM events WHERE false": ["[null,0,null]"],
    "SELECT LATEST(VIEWS), LATEST(TYPE, 1024), EARLIEST(VIEWS), EARLIEST(TYPE, 10) FROM events": ['[null,null,1,"A"]'],
    "SELECT LATEST(TYPE) FROM events WHERE VIEWS > 0": ['["B"]'],
    "SELECT LATEST_BY(TYPE, MILLIS_TO_TIMESTAMP(VIEWS)), EARLIEST_BY(TYPE, __time, 5) FROM events": ['["B","A"]'],
    "SELECT LATEST(e.VIEWS) FROM events e JOIN events f ON e.TYPE = f.TYPE": ["[7]"],
    "SELECT LATEST(v) FROM (SELECT __time, VIEWS AS v FROM events WHERE VIEWS < 3)": ["[1]"],
    "SELECT ANY_VALUE(TYPE), ANY_VALUE(VIEWS, 10) FROM events WHERE TYPE = 'A'": ['["A",1]'],
    "SELECT APPROX_COUNT_DISTINCT(TYPE), APPROX_COUNT_DISTINCT_BUILTIN(TYPE), APPROX_COUNT_DISTINCT_DS_HLL(TYPE, 12), APPROX_COUNT_DISTINCT_DS_THETA(TYPE) FROM events":
        ["[2,2,2,2]"],
    "SELECT APPROX_QUANTILE(VIEWS, 0.5), APPROX_QUANTILE_DS(VIEWS, 0.5, 128), APPROX_QUANTILE_FIXED_BUCKETS(VIEWS, 0.5, 10, 0, 9) FROM events":
        ["[4.0,4.0,4.0]"],
    "SELECT VAR_POP(VIEWS), VAR_SAMP(VIEWS), VARIANCE(VIEWS), STDDEV_POP(VIEWS), ROUND(STDDEV_SAMP(VIEWS), 2), ROUND(STDDEV(VIEWS), 2) FROM events":
        ["[9.0,18.0,18.0,3.0,4.24,4.24]"],
    "SELECT BIT_AND(VIEWS), BIT_OR(VIEWS), BIT_XOR(VIEWS) FROM events": ["[1,7,6]"],
    "SELECT STRING_AGG(TYPE, ','), STRING_AGG(TYPE), LISTAGG(DISTINCT TYPE, '-', 100) FROM events WHERE TYPE = 'A'":
        ['["A","A","A"]'],
    "SELECT ARRAY_AGG(VIEWS), ARRAY_AGG(DISTINCT TYPE, 100), ARRAY_CONCAT_AGG(TAGS) FROM events WHERE TYPE = 'A'":
        ['["[1]","[\\"A\\"]","[\\"x\\",\\"y\\"]"]'],
    "SELECT TYPE, GROUPING(TYPE), COUNT(*) FROM events GROUP BY GROUPING SETS ((TYPE), ()) ORDER BY 2, 1":
        ['[null,0,1]', '["A",0,1]', '["B",0,1]', "[null,1,3]"],
    "SELECT TYPE, COUNT(*) FROM events GROUP BY ROLLUP (TYPE) ORDER BY GROUPING(TYPE), TYPE DESC":
        ['["B",1]', '["A",1]', "[null,1]", "[null,3]"],
    # Nulls are small.
    "SELECT TYPE FROM events ORDER BY TYPE": ["[null]", '["A"]', '["B"]'],
    "SELECT TYPE FROM events ORDER BY TYPE DESC": ['["B"]', '["A"]', "[null]"],
    "SELECT FLOOR(__time TO DAY) AS d, COUNT(*) AS n FROM events GROUP BY FLOOR(__time TO DAY) HAVING COUNT(*) > 1":
        ['["2013-08-01T00:00:00.000Z",2]'],
    "SELECT TYPE FROM druid.events WHERE __time >= '2013-08-01T09:00:00' AND __time < TIMESTAMP '2014-01-01 00:00:00'":
        ['["B"]'],
    "SET sqlTimeZone = 'America/Los_Angeles'; SELECT TYPE, __time FROM events WHERE __time >= TIMESTAMP '2013-08-01 02:00:00' AND VIEWS > 0":
        ['["B","2013-08-01T02:13:00.000-07:00"]'],
    "SELECT TYPE FROM events WHERE TIME_IN_INTERVAL(__time, '2013-08-01T09/PT1H')": ['["B"]'],
    "SELECT TYPE FROM events WHERE __time BETWEEN '2013-08-01' AND '2013-08-01 09:00:00'": ['["A"]'],
    "SELECT TYPE FROM events WHERE DAY = '2013-08-01' AND VIEWS = '7'": ['["B"]'],
    "SELECT t, COUNT(*) FROM events CROSS JOIN UNNEST(MV_TO_ARRAY(TAGS)) AS u(t) WHERE t <> 'x' GROUP BY t ORDER BY t":
        ['["y",1]', '["z",1]'],
    "SELECT JSON_VALUE(PLACE, '$.city'), JSON_VALUE(PLACE, '$.zip' RETURNING BIGINT) FROM events WHERE TYPE = 'A'":
        ['["Bonn",53111]'],
    "SELECT PLACE, TAGS FROM events WHERE TYPE = 'A'": ['["{\\"city\\":\\"Bonn\\",\\"zip\\":53111}","[\\"x\\",\\"y\\"]"]'],
    "WITH a AS (SELECT TYPE AS k, SUM(VIEWS) AS s FROM events GROUP BY 1) SELECT a.k, b.s / 2 FROM a JOIN a AS b ON a.k = b.k WHERE b.s > 1":
        ['["B",3]'],
    "SELECT s / 2 FROM (SELECT SUM(VIEWS) FROM events) AS t(s)": ["[4]"],
    "SELECT \"EXPR$0\" + 1 FROM (SELECT COUNT(*) FROM events)": ["[4]"],
    "SELECT (SELECT MAX(VIEWS) FROM events) - VIEWS FROM events WHERE EXISTS (SELECT 1) AND VIEWS IN (SELECT 1)": ["[6]"],
    "SELECT a FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, b) WHERE b = 'y'": ["[2]"],
    "SELECT VIEWS FROM events WHERE VIEWS > 0 UNION ALL SELECT 9 ORDER BY VIEWS DESC LIMIT 2": ["[9]", "[7]"],
    "(SELECT 1 AS a) UNION (SELECT 1) EXCEPT SELECT 2": ["[1]"],
    "SELECT TYPE FROM events ORDER BY TYPE OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY": ['["A"]'],
    "SELECT TYPE, ROW_NUMBER() OVER (ORDER BY TYPE), RANK() OVER w, DENSE_RANK() OVER w, NTILE(2) OVER w, LAG(TYPE) OVER w, LEAD(TYPE, 2) OVER w, FIRST_VALUE(VIEWS) OVER w, LAST_VALUE(VIEWS) OVER w, PERCENT_RANK() OVER w, CUME_DIST() OVER w FROM events WHERE VIEWS > 0 WINDOW w AS (ORDER BY TYPE)":
        ['["A",1,1,1,1,null,null,1,1,0.0,0.5]', '["B",2,2,2,2,"A",null,1,7,1.0,1.0]'],
    "SELECT SUM(SUM(VIEWS)) OVER (PARTITION BY TYPE ORDER BY TYPE ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM events WHERE TYPE = 'B' GROUP BY TYPE":
        ["[7]"],
    "SELECT e.*, COUNT(*) OVER () FROM (SELECT TYPE FROM events) AS e WHERE e.TYPE = 'A'": ['["A",1]'],
}  # fmt: skip

SQL = {
    "SELECT TYPE, COUNT(*) FROM events WHERE VIEWS / 2 > 1 GROUP BY TYPE":
        'SELECT "TYPE" AS "TYPE", count(*) AS "EXPR$1" FROM (SELECT "AT" AS "__time", "TYPE", "VIEWS", "PRICE", '
        '"AT", "TAGS", "DAY", "PLACE", "odd ""name"" {x}" FROM "events") AS "events" '
        'WHERE ("VIEWS" // 2) > 1 GROUP BY "TYPE"',
    "SELECT TIME_SHIFT(TIMESTAMP '2000-01-01 00:00:00', 'P1D', 1)":
        "SELECT (TIMESTAMP '2000-01-01 00:00:00' + INTERVAL '0 months 1 days' * 1) AS \"EXPR$0\"",
    "SELECT APPROX_COUNT_DISTINCT(1), LOWER('A')":
        "SELECT approx_count_distinct(1) AS \"EXPR$0\", lower('A') AS \"EXPR$1\"",
}  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return database()


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items(), ids=str)
def test_expressions(connection: duckdb.DuckDBPyConnection, expression: str, expected: str) -> None:
    assert asked(connection, f"SELECT {expression}") == [f"[{expected}]"]


@pytest.mark.parametrize(("query", "expected"), QUERIES.items(), ids=str)
def test_queries(connection: duckdb.DuckDBPyConnection, query: str, expected: list[str]) -> None:
    assert asked(connection, query) == expected


@pytest.mark.parametrize(("query", "expected"), SQL.items(), ids=str)
def test_the_sql_that_a_query_becomes(query: str, expected: str) -> None:
    assert translated(query) == expected


def test_every_function_has_an_example() -> None:
    text = " ".join([*EXPRESSIONS, *QUERIES])
    assert {name for name in FUNCTIONS if not re.search(rf"\b{name}\(", text)} == {"LOOKUP"}


def test_distinct_counts_approximate_on_request() -> None:
    assert "approx_count_distinct" in translated("SELECT COUNT(DISTINCT TYPE) FROM events", exact=False)
    assert "approx" not in translated("SELECT COUNT(DISTINCT TYPE) FROM events")


_times = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1))  # noqa: DTZ001
_zones = st.sampled_from(["UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "+05:45", "-03:30"])


@given(
    time=_times,
    zone=_zones,
    unit=st.sampled_from(["P1D", "P1W", "P1M", "P3M", "P1Y", "PT1H", "PT15M", "P2D"]),
)
@settings(max_examples=200, deadline=None)
def test_floor_and_ceiling_enclose_a_time(time: datetime, zone: str, unit: str) -> None:
    literal = f"TIMESTAMP '{time.isoformat(sep=' ', timespec='milliseconds')}'"
    floor, ceiling = (f"{name}({literal}, '{unit}', NULL, '{zone}')" for name in ("TIME_FLOOR", "TIME_CEIL"))
    same = f"TIME_FLOOR({floor}, '{unit}', NULL, '{zone}') = {floor}"
    (row,) = asked(_DATABASE, f"SELECT {floor} <= {literal}, {ceiling} >= {literal}, {same}")
    assert row == "[true,true,true]"


@given(time=_times, zone=st.sampled_from(["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "UTC"]))
@settings(max_examples=100, deadline=None)
def test_a_formatted_time_is_the_one_of_the_zone(time: datetime, zone: str) -> None:
    literal = f"TIMESTAMP '{time.isoformat(sep=' ', timespec='milliseconds')}'"
    (row,) = asked(_DATABASE, f"SELECT TIME_FORMAT({literal}, 'yyyy-MM-dd HH:mm:ss', '{zone}')")
    local = time.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    assert json.loads(row) == [local.strftime("%Y-%m-%d %H:%M:%S")]


_DATABASE = database()
