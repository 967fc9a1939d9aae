"""Rules: what plans and sources are made of, beyond what EXPLAIN shows of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.pipeline.rules as package
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Format, Source
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.moments import milliseconds
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.plan import (
    Aggregate,
    PlanKind,
    QueryPlan,
    Repartition,
    Step,
    inputs_of,
    reads_of,
)
from headrace.pipeline.rules import planning
from headrace.pipeline.rules.names import Names
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.expressions import ColumnReference, FieldAccess
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Emit
from headrace.pipeline.statements.tree import CreateAs, CreateSource, InsertSelect, Query
from headrace.pipeline.statements.types import (
    BIGINT,
    BYTES,
    DATE,
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
from tests.statements.fixture_files import outcome, pairs, taken

SOURCES = """
CREATE STREAM s (k INT KEY, v INT, t VARCHAR) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=4);
CREATE TABLE tb (k INT PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='tb', VALUE_FORMAT='JSON', PARTITIONS=4);
CREATE STREAM target (k INT KEY, v INT, t VARCHAR) WITH (KAFKA_TOPIC='target', VALUE_FORMAT='AVRO');
"""


def catalogue() -> Catalogue:
    made = Catalogue()
    for parsed in parse(SOURCES):
        taken(parsed, made)
    return made


def plan(text: str) -> QueryPlan:
    (parsed,) = parse(text)
    assert isinstance(parsed.statement, CreateAs | InsertSelect | Query)
    return planning.plan_query(parsed.statement, catalogue(), text=parsed.text)


def source(text: str, **known: object) -> Source:
    (parsed,) = parse(text)
    assert isinstance(parsed.statement, CreateSource)
    return planning.plan_source(parsed.statement, Catalogue(), text=parsed.text, **known)  # type: ignore[arg-type]


def steps_of(step: Step) -> Iterator[Step]:
    yield step
    for each in inputs_of(step):
        yield from steps_of(each)


def computed_in(value: object) -> Iterator[Computed]:
    if isinstance(value, Computed):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from computed_in(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, Source):
        for field in dataclasses.fields(value):
            yield from computed_in(getattr(value, field.name))


# Plans.


def test_a_plan_knows_what_it_reads_and_whether_rows_move() -> None:
    made = plan("CREATE STREAM o AS SELECT t, w FROM s JOIN tb ON s.v = tb.k PARTITION BY t;")
    assert made.sources == ("S", "TB")
    assert [read.alias for read in reads_of(made.root)] == ["S", "TB"]
    assert made.repartition is Repartition.LEFT
    assert plan("CREATE STREAM o AS SELECT * FROM s;").repartition is Repartition.NONE


def test_a_plan_is_the_same_each_time() -> None:
    text = "CREATE TABLE o AS SELECT t, COUNT(*) AS n FROM s WHERE v > 1 GROUP BY t HAVING COUNT(*) > 2;"
    assert plan(text) == plan(text)


def test_every_expression_of_a_plan_knows_its_place_and_its_text() -> None:
    made = plan(
        "CREATE TABLE o AS\n  SELECT t AS who, MAX(v + 1) AS top\n  FROM s\n  WHERE v > 1\n  GROUP BY t;"
    )
    found = {each.text: each.at for each in computed_in(made.root)}
    assert found["V > 1"] == Position(4, 11)
    assert found["MAX(V + 1)"] == Position(2, 20)
    assert all(at.line > 0 for at in found.values())


def test_what_kind_of_query_it_is() -> None:
    kinds = {
        "CREATE STREAM o AS SELECT * FROM s;": PlanKind.PERSISTENT,
        "INSERT INTO target SELECT * FROM s;": PlanKind.PERSISTENT,
        "SELECT * FROM s EMIT CHANGES;": PlanKind.PUSH,
        "SELECT * FROM tb WHERE k = 1;": PlanKind.PULL,
    }
    assert {text: plan(text).kind for text in kinds} == kinds


def test_an_insert_says_so_and_may_have_a_name() -> None:
    made = plan("INSERT INTO target WITH (QUERY_ID='copy') SELECT * FROM s;")
    assert (made.inserts, made.query_id, made.sink.name) == (True, "copy", "TARGET")
    assert plan("CREATE STREAM o AS SELECT * FROM s;").query_id is None


def test_emit_and_limit_are_in_the_plan() -> None:
    windowed = "SELECT t, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY t"
    assert plan(f"{windowed} EMIT FINAL;").emit is Emit.FINAL
    limited = plan(f"{windowed} EMIT CHANGES LIMIT 3;")
    assert (limited.emit, limited.limit) == (Emit.CHANGES, 3)


def test_a_sink_has_the_statement_and_a_query_for_whoever_asks_has_no_topic() -> None:
    assert plan("CREATE STREAM o AS SELECT * FROM s;").sink.statement == "CREATE STREAM o AS SELECT * FROM s;"
    asked = plan("SELECT t, k FROM s EMIT CHANGES;").sink
    assert (asked.topic, asked.key) == ("", ())
    assert [column.name for column in asked.value] == ["T", "K"]


@pytest.mark.parametrize(("grace", "expected"), [("", 86_400_000), (", GRACE PERIOD 5 SECONDS", 5_000)])
def test_a_window_waits_a_day_for_late_records_unless_it_is_told(grace: str, expected: int) -> None:
    made = plan(f"SELECT COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR{grace}) GROUP BY t EMIT CHANGES;")
    (step,) = [each for each in steps_of(made.root) if isinstance(each, Aggregate)]
    assert step.grace_ms == expected


def test_each_rule_is_a_file_of_its_own_and_is_in_the_tuple() -> None:
    files = {path.stem for path in Path(package.__path__[0]).glob("rule_*.py")}
    assert {rule.__module__.rsplit(".", 1)[1] for rule in planning.RULES} == files
    assert len(planning.RULES) == len(files)


def test_no_pair_of_the_fixtures_makes_anything_but_a_plan_or_an_error() -> None:
    marks = {outcome(pair)[0] for pair in pairs()}
    assert marks == {"==>", "!!>"}


# Errors.


def test_an_error_has_place_reason_and_remedy() -> None:
    with pytest.raises(StatementError) as refused:
        plan("CREATE STREAM o AS\n  SELECT k,\n         quantity FROM s;")
    error = refused.value
    assert error.at == Position(3, 10)
    assert error.message == "SELECT column QUANTITY cannot be resolved."
    assert error.remedy == "There are K, V, T."


def test_what_ksqldb_has_and_we_have_not_is_refused_as_such() -> None:
    with pytest.raises(UnsupportedError):
        source("CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON_SR');")


# Sources.


def test_columns_from_the_registry() -> None:
    text = "CREATE STREAM s WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');"
    (parsed,) = parse(text)
    assert isinstance(parsed.statement, CreateSource)
    assert planning.wants_inferred_columns(parsed.statement)
    made = source(text, inferred=(Column(name="A", type=VARCHAR),))
    assert [column.name for column in made.value] == ["A"]


def test_a_key_from_the_statement_and_values_from_the_registry() -> None:
    made = source(
        "CREATE TABLE t (id INT PRIMARY KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');",
        inferred=(Column(name="A", type=VARCHAR),),
    )
    assert [column.name for column in made.columns] == ["ID", "A"]


def test_a_key_from_the_registry() -> None:
    made = source(
        "CREATE TABLE t WITH (KAFKA_TOPIC='t', FORMAT='AVRO');",
        inferred=(Column(name="A", type=VARCHAR),),
        inferred_key=(Column(name="ROWKEY", type=INTEGER),),
    )
    assert (made.key_encoding.format, made.key_encoding.wrapped) == (Format.AVRO, False)
    assert [column.name for column in made.key] == ["ROWKEY"]


def test_columns_that_are_named_are_not_inferred() -> None:
    for text in (
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');",
        "CREATE STREAM s WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
    ):
        (parsed,) = parse(text)
        assert isinstance(parsed.statement, CreateSource)
        assert not planning.wants_inferred_columns(parsed.statement)


def test_a_topic_that_is_there_has_its_own_partitions() -> None:
    text = "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    assert source(text, partitions=7).partitions == 7
    told = text.replace(");", ", PARTITIONS=3);")
    assert source(told).partitions == 3
    with pytest.raises(StatementError, match="has 7 partitions, not 3"):
        source(told, partitions=7)


# Smaller parts.


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (INTEGER, "INT"),
        (BIGINT, "BIGINT"),
        (VARCHAR, "STRING"),
        (BYTES, "BINARY"),
        (DATE, "DATE"),
        (TIME, "INT"),
        (TIMESTAMP, "TIMESTAMP"),
        (DecimalType(10, 2), "DECIMAL(10,2)"),
        (ArrayType(INTEGER), "ARRAY<INT>"),
        (MapType(VARCHAR, ArrayType(TIME)), "MAP<STRING,ARRAY<INT>>"),
        (
            StructType((StructField("A", INTEGER), StructField("b`c", VARCHAR))),
            "STRUCT<`A`:INT,`b``c`:STRING>",
        ),
    ],
)
def test_types_in_spark(data_type: DataType, expected: str) -> None:
    assert spark_type(data_type) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970", 0),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00-0030", 1_800_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-13", None),
        ("soon", None),
        ("", None),
    ],
)
def test_moments(text: str, expected: int | None) -> None:
    assert milliseconds(text) == expected


def test_names_that_are_given() -> None:
    names = Names(["A", "B_1", "KSQL_COL_1"])
    column = ColumnReference("A")
    assert [names.name_for(column) for _ in range(3)] == ["KSQL_COL_0", "KSQL_COL_2", "KSQL_COL_3"]
    assert [names.name_for(FieldAccess(column, "A")) for _ in range(2)] == ["A_1", "A_2"]
    assert [names.name_for(FieldAccess(column, "B")) for _ in range(3)] == ["B", "B_2", "B_3"]
