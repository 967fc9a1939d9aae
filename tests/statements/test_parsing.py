"""Statements to trees: what is read, and what errors say."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.pipeline.statements.errors import StatementError, SyntaxProblemError, UnsupportedError
from headrace.pipeline.statements.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Between,
    ColumnReference,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    Expression,
    FieldAccess,
    FunctionCall,
    IntegerLiteral,
    IntervalUnit,
    Lambda,
    LambdaVariable,
    Logical,
    LogicalOperator,
    Negation,
    Not,
    StringLiteral,
    Subscript,
)
from headrace.pipeline.statements.parser import parse, parse_expression
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Emit, JoinKind, Star, WindowKind
from headrace.pipeline.statements.tree import (
    ColumnConstraint,
    CreateAs,
    CreateSource,
    InsertValues,
    Print,
    Query,
    SourceKind,
    Statement,
)
from headrace.pipeline.statements.types import BIGINT, INTEGER, VARCHAR, ArrayType, DecimalType, MapType

A, B, C = (ColumnReference(name) for name in "ABC")
ADD, MULTIPLY = ArithmeticOperator.ADD, ArithmeticOperator.MULTIPLY


def one(text: str, **variables: str) -> Statement:
    (parsed,) = parse(text, variables=variables)
    return parsed.statement


def select(text: str) -> Query:
    statement = one(text)
    assert isinstance(statement, Query)
    return statement


def test_the_statements_of_the_acceptance_list() -> None:
    source, target = parse(
        "CREATE STREAM source_json (Event_Type VARCHAR, User_ID VARCHAR) WITH (KAFKA_TOPIC='events', "
        "VALUE_FORMAT='JSON');\n"
        "CREATE STREAM target_json WITH (KAFKA_TOPIC='events_avro',REPLICAS=1,PARTITIONS=1,"
        "VALUE_FORMAT='AVRO') AS SELECT *, SUBSTRING(Server_Time, 0, 10) as Server_Date FROM source_json;"
    )
    created = source.statement
    assert isinstance(created, CreateSource)
    assert (created.kind, created.name) == (SourceKind.STREAM, "SOURCE_JSON")
    assert [(column.name, column.type) for column in created.columns] == [
        ("EVENT_TYPE", VARCHAR),
        ("USER_ID", VARCHAR),
    ]
    assert [(each.name, each.value) for each in created.properties] == [
        ("KAFKA_TOPIC", StringLiteral("events")),
        ("VALUE_FORMAT", StringLiteral("JSON")),
    ]
    derived = target.statement
    assert isinstance(derived, CreateAs)
    star, date = derived.query.items
    assert star == Star()
    assert date.alias == "SERVER_DATE"
    assert target.text.startswith("CREATE STREAM target_json")
    assert target.text.endswith("source_json;")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", Arithmetic(ADD, A, Arithmetic(MULTIPLY, B, C))),
        ("(a + b) * c", Arithmetic(MULTIPLY, Arithmetic(ADD, A, B), C)),
        ("a + b + c", Arithmetic(ADD, Arithmetic(ADD, A, B), C)),
        ("a || b", Arithmetic(ADD, A, B)),
        ("-a", Negation(A)),
        ("-5", IntegerLiteral(-5)),
        ("a - 5", Arithmetic(ArithmeticOperator.SUBTRACT, A, IntegerLiteral(5))),
        ("-9223372036854775808", IntegerLiteral(-(2**63))),
        ("1.20", DecimalLiteral(Decimal("1.20"))),
        ("'it''s'", StringLiteral("it's")),
        ("not a = b", Not(Comparison(ComparisonOperator.EQUAL, A, B))),
        ("a != b", Comparison(ComparisonOperator.NOT_EQUAL, A, B)),
        ("a IS NOT DISTINCT FROM b", Comparison(ComparisonOperator.NOT_DISTINCT, A, B)),
        ("a NOT BETWEEN b AND c", Between(A, B, C, negated=True)),
        ("`x y`", ColumnReference("x y")),
        ('"mixedCase"', ColumnReference("mixedCase")),
        ("s.a", ColumnReference("A", "S")),
        ("a->b->c", FieldAccess(FieldAccess(A, "B"), "C")),
        ("a[1]->b", FieldAccess(Subscript(A, IntegerLiteral(1)), "B")),
        ("f(x => x + a)", FunctionCall("F", (Lambda(("X",), Arithmetic(ADD, LambdaVariable("X"), A)),))),
        ("f(days, a)", FunctionCall("F", (IntervalUnit("DAYS"), A))),
        ("count(*)", FunctionCall("COUNT", (), star=True)),
        ("LEFT(a)", FunctionCall("LEFT", (A,))),
    ],
)
def test_expressions(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


def test_and_binds_closer_than_or() -> None:
    found = parse_expression("a OR b AND c")
    assert found == Logical(LogicalOperator.OR, A, Logical(LogicalOperator.AND, B, C))


def test_a_parameter_of_a_lambda_is_known_only_in_its_body() -> None:
    found = parse_expression("f(x => g((x, y) => x), x)")
    assert isinstance(found, FunctionCall)
    assert found.arguments[1] == ColumnReference("X")


def test_types_and_constraints() -> None:
    statement = one(
        "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(10, 2), m MAP<STRING, ARRAY<BIGINT>>, "
        "n VARCHAR(20), h BYTES HEADER('trace'), i INT ARRAY);"
    )
    assert isinstance(statement, CreateSource)
    types = [column.type for column in statement.columns]
    assert types[1:4] == [DecimalType(10, 2), MapType(VARCHAR, ArrayType(BIGINT)), VARCHAR]
    assert types[5] == ArrayType(INTEGER)
    assert statement.columns[0].constraint is ColumnConstraint.PRIMARY_KEY
    assert statement.columns[4].header == "trace"


def test_a_query_with_all_its_parts() -> None:
    query = select(
        "SELECT a, COUNT(*) n FROM s AS x "
        "LEFT JOIN u WITHIN (1 HOUR, 5 MINUTES) GRACE PERIOD 1 DAY ON x.id = u.id "
        "WINDOW w HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES, RETENTION 2 DAYS, GRACE PERIOD 10 MINUTES) "
        "WHERE a > 1 GROUP BY a, b PARTITION BY (a + b) HAVING COUNT(*) > 1 EMIT FINAL LIMIT 3;"
    ).select
    (join,) = query.joins
    assert join.kind is JoinKind.LEFT
    assert join.within is not None
    assert join.within.grace is not None
    assert [each.milliseconds for each in (join.within.before, join.within.after)] == [3_600_000, 300_000]
    assert query.window is not None
    assert query.window.kind is WindowKind.HOPPING
    assert query.group_by == (A, B)
    assert query.partition_by == (Arithmetic(ADD, A, B),)
    assert (query.emit, query.limit) == (Emit.FINAL, 3)


def test_names_of_topics_keep_their_case() -> None:
    assert one("PRINT Orders FROM BEGINNING LIMIT 3;") == Print("Orders", True, None, 3)


def test_variables_stand_for_their_values() -> None:
    found = one("INSERT INTO ${target} (a) VALUES ('${who} and ${WHO}');", target="s", who="Ann")
    assert found == InsertValues(target="S", columns=("A",), values=(StringLiteral("Ann and Ann"),))


def test_a_variable_counts_for_the_statements_behind_its_definition() -> None:
    parsed = parse("DEFINE t_name = 'x'; PRINT '${t_name}'; DEFINE t_name = 'y'; PRINT '${t_name}';")
    assert [each.statement.topic for each in parsed if isinstance(each.statement, Print)] == ["x", "y"]
    with pytest.raises(SyntaxProblemError, match="is not defined"):
        parse("DEFINE a = 'x'; UNDEFINE a; PRINT '${a}';")


def test_text_and_comments_hide_semicolons() -> None:
    parsed = parse("SELECT ';' FROM a; -- and; more\n/* ; */ SELECT b FROM c;;")
    assert len(parsed) == 2


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("CREATE STREM x (a INT);", 1, 8, "Did you mean STREAM?"),
        ("SELECT a\nFROM b\nEMIT CHANGE;", 3, 6, "expected CHANGES or FINAL. Did you mean CHANGES?"),
        ("SELECT a FROM s WINDOW TUMBLNG (SIZE 1 HOUR);", 1, 24, "Did you mean TUMBLING?"),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 MONTH);", 1, 41, "expected MILLISECONDS"),
        ("SELECT 'a FROM b;", 1, 8, "has no closing quote"),
        ("SELECT a /* b FROM c;", 1, 10, "is not closed"),
        ("SELECT a FROM b WHERE ;", 1, 23, "Unexpected ;"),
        ("SELECT a, from FROM b;", 1, 11, "FROM is a reserved word"),
        ("CREATE STREAM x (a INT, a INT);", 1, 25, "two columns named A"),
        ("CREATE STREAM x (a INT) WITH (p=1, P=2);", 1, 36, "P is given twice"),
        ("CREATE STREAM x (a DECIMAL(50, 2));", 1, 20, "1 to 38"),
        ("CREATE STREAM x (a ARRAY);", 1, 25, "expected '<'"),
        ("INSERT INTO s (a, b) VALUES (1);", 1, 29, "2 columns are named, but 1 values are given"),
        ("SELECT 99999999999999999999 FROM s;", 1, 8, "is not a BIGINT"),
        ("SELECT a FROM s WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 2 HOURS);", 1, 57, "more than its size"),
        ("SELECT # FROM s;", 1, 8, "'#' has no meaning here"),
        ("SELECT a FROM s", 1, 16, ""),
    ],
)
def test_errors_say_where_and_what(text: str, line: int, column: int, said: str) -> None:
    if not said:
        assert isinstance(select(text), Query)  # the last statement may do without its semicolon
        return
    with pytest.raises(StatementError) as caught:
        parse(text)
    assert caught.value.at == Position(line, column)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["CREATE SINK CONNECTOR c WITH (a = 'b');", "ALTER SYSTEM 'a' = 'b';"])
def test_what_is_not_supported_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedError, match="is not supported"):
        parse(text)


def test_deep_nesting_is_refused_not_followed() -> None:
    with pytest.raises(SyntaxProblemError, match="nested too deeply"):
        parse(f"SELECT {'(' * 5000}1{')' * 5000} FROM s;")
    with pytest.raises(SyntaxProblemError, match="nested too deeply"):
        parse(f"SELECT {'NOT ' * 5000} a FROM s;")


def test_long_rows_are_no_nesting() -> None:
    assert isinstance(parse_expression(" AND ".join(["a = 1"] * 2000)), Logical)
