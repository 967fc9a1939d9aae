"""Expressions of every shape give Spark SQL with a type, or an error with a place: never anything else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import Project, QueryPlan
from headrace.pipeline.rules.planning import plan_query
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import Query
from tests.statements.fixture_files import taken

SOURCE = """
CREATE STREAM s (b BOOLEAN, i INT, l BIGINT, d DOUBLE, t VARCHAR, y BYTES, da DATE, ti TIME, ts TIMESTAMP,
  n DECIMAL(4, 2), a ARRAY<INT>, m MAP<VARCHAR, INT>, st STRUCT<x INT, y VARCHAR>)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
"""
CATALOGUE = Catalogue()
for _parsed in parse(SOURCE):
    taken(_parsed, CATALOGUE)

LEAVES = some.sampled_from(
    [
        "b",
        "i",
        "l",
        "d",
        "t",
        "y",
        "da",
        "ti",
        "ts",
        "n",
        "a",
        "m",
        "st",
        "st->x",
        "ROWTIME",
        "NULL",
        "TRUE",
        "1",
        "-1",
        "0",
        "2147483648",
        "1.50",
        "0.05",
        "1E3",
        "'x'",
        "'12'",
        "'2020-01-01'",
    ]
)
TYPES = some.sampled_from(
    [
        "BOOLEAN",
        "INT",
        "BIGINT",
        "DOUBLE",
        "DECIMAL(6,3)",
        "VARCHAR",
        "BYTES",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "ARRAY<VARCHAR>",
        "MAP<VARCHAR,VARCHAR>",
    ]
)
OPERATORS = some.sampled_from(
    ["+", "-", "*", "/", "%", "=", "<>", "<", ">=", "AND", "OR", "IS DISTINCT FROM", "LIKE"]
)


def larger(inner: some.SearchStrategy[str]) -> some.SearchStrategy[str]:
    return some.one_of(
        some.builds("({} {} {})".format, inner, OPERATORS, inner),
        some.builds("CAST({} AS {})".format, inner, TYPES),
        some.builds("(NOT {})".format, inner),
        some.builds("(-({}))".format, inner),
        some.builds("({} IS NULL)".format, inner),
        some.builds("({} BETWEEN {} AND {})".format, inner, inner, inner),
        some.builds("({} IN ({}, {}))".format, inner, inner, inner),
        some.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        some.builds("ARRAY[{}, {}]".format, inner, inner),
        some.builds("MAP({} := {})".format, inner, inner),
        some.builds("STRUCT(x := {})".format, inner),
        some.builds("({})[{}]".format, inner, inner),
        some.builds("({})->x".format, inner),
        some.builds("COALESCE({}, {})".format, inner, inner),
        some.builds("UCASE({})".format, inner),
    )


EXPRESSIONS = some.recursive(LEAVES, larger, max_leaves=6)


@settings(max_examples=500, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_compiles_or_is_refused(expression: str) -> None:
    (parsed,) = parse(f"SELECT {expression} AS result FROM s EMIT CHANGES;")
    assert isinstance(parsed.statement, Query)
    planned = plan_or_error(parsed.statement)
    if isinstance(planned, StatementError):
        assert planned.at.line > 0
        assert "None" not in planned.message
        return
    assert isinstance(planned.root, Project)
    (made,) = planned.root.values
    assert made.value.type == planned.sink.value[0].type
    assert "None" not in made.value.spark
    assert is_balanced(made.value.spark)


def plan_or_error(statement: Query) -> QueryPlan | StatementError:
    try:
        return plan_query(statement, CATALOGUE)
    except StatementError as refused:
        return refused


def is_balanced(spark: str) -> bool:
    """Whether parentheses outside of texts match."""
    depth = 0
    is_text = is_escaped = False
    for character in spark:
        if is_text:
            is_text = is_escaped or character != "'"
            is_escaped = character == "\\" and not is_escaped
        elif character == "'":
            is_text = True
        else:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth < 0:
                return False
    return depth == 0 and not is_text
