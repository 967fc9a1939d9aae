"""What is printed parses to the same tree; no text makes the parser fail in any other way than its own."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import (
    Arithmetic,
    ArithmeticOperator,
    ArrayConstructor,
    Between,
    BooleanLiteral,
    Case,
    Cast,
    ColumnReference,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldAccess,
    FunctionCall,
    InList,
    IntegerLiteral,
    IsNull,
    Like,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negation,
    Not,
    NullLiteral,
    StringLiteral,
    StructConstructor,
    Subscript,
    When,
)
from headrace.pipeline.statements.parser import parse, parse_expression
from headrace.pipeline.statements.printing import sql
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)

names = st.one_of(
    st.sampled_from(["A", "B1", "_C", "x", "mixed Case", "back`quote", 'q"uote']),
    st.sampled_from(["SELECT", "FROM", "KEY", "DAYS", "MAP", "NULL"]),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=6),
)
types: st.SearchStrategy[DataType] = st.recursive(
    st.one_of(st.sampled_from(ScalarType), st.builds(DecimalType, st.just(10), st.integers(0, 10))),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner),
        st.builds(MapType, inner, inner),
        st.lists(
            st.builds(StructField, names, inner), min_size=1, max_size=3, unique_by=lambda f: f.name
        ).map(lambda fields: StructType(tuple(fields))),
    ),
    max_leaves=4,
)
literals = st.one_of(
    st.just(NullLiteral()),
    st.builds(BooleanLiteral, st.booleans()),
    st.builds(IntegerLiteral, st.integers(-(2**63), 2**63 - 1)),
    st.builds(
        DecimalLiteral,
        st.integers(-(10**12), 10**12).map(lambda digits: Decimal(digits).scaleb(-3)),
    ),
    st.builds(DoubleLiteral, st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(StringLiteral, st.text(max_size=8).filter(lambda text: "${" not in text)),
)


def _extended(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    whens = st.lists(st.builds(When, inner, inner), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from(ArithmeticOperator), inner, inner),
        st.builds(Comparison, st.sampled_from(ComparisonOperator), inner, inner),
        st.builds(Logical, st.sampled_from(LogicalOperator), inner, inner),
        st.builds(Not, inner),
        st.builds(Negation, inner),
        st.builds(IsNull, inner, st.booleans()),
        st.builds(Between, inner, inner, inner, st.booleans()),
        st.builds(InList, inner, several, st.booleans()),
        st.builds(Like, inner, inner, st.sampled_from([None, "!", "'"]), st.booleans()),
        st.builds(Case, st.one_of(st.none(), inner), whens, st.one_of(st.none(), inner)),
        st.builds(Cast, inner, types),
        st.builds(FieldAccess, inner, names),
        st.builds(Subscript, inner, inner),
        st.builds(FunctionCall, names, several),
        st.builds(ArrayConstructor, several),
        st.lists(st.tuples(inner, inner), max_size=2).map(lambda entries: MapConstructor(tuple(entries))),
        st.lists(st.tuples(names, inner), max_size=2, unique_by=lambda field: field[0]).map(
            lambda fields: StructConstructor(tuple(fields))
        ),
    )


columns = st.builds(ColumnReference, names, st.one_of(st.none(), names))
expressions: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(literals, columns), _extended, max_leaves=8
)


@given(expressions)
def test_printed_expressions_parse_to_the_same_tree(expression: Expression) -> None:
    assert parse_expression(sql(expression)) == expression


STATEMENTS = """
CREATE OR REPLACE STREAM s (a INT KEY, `b c` ARRAY<STRUCT<x INT, y MAP<VARCHAR, DOUBLE>>>,
  h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)
  WITH (KAFKA_TOPIC = 't', PARTITIONS = 3, WRAP_SINGLE_VALUE = FALSE, RETENTION_MS = -1);
CREATE SOURCE TABLE IF NOT EXISTS t (a INT PRIMARY KEY) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'AVRO');
CREATE TABLE n WITH (PARTITIONS = 1) AS SELECT a, COUNT(*) AS c, WINDOWSTART FROM s
  WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 0 SECONDS)
  WHERE a IS NOT NULL GROUP BY a, b HAVING COUNT(*) > 1 EMIT FINAL;
CREATE STREAM j AS SELECT x.*, y.a b, z->*, * FROM s x
  FULL OUTER JOIN s2 y WITHIN 5 MINUTES ON x.a = y.a
  INNER JOIN t z ON x.a = z.a PARTITION BY x.a, y.b EMIT CHANGES;
INSERT INTO s WITH (QUERY_ID = 'q') SELECT * FROM s EMIT CHANGES;
INSERT INTO s VALUES (1, 'a', NULL, ARRAY[1], MAP('k' := -1.5), STRUCT(f := TRUE));
SELECT REDUCE(a, 0, (s, x) => s + x) FROM s WHERE a LIKE 'a!%' ESCAPE '!' EMIT CHANGES LIMIT 5;
SHOW STREAMS EXTENDED; LIST ALL TOPICS; SHOW CONNECTOR PLUGINS; SHOW SOURCE CONNECTORS; SHOW VARIABLES;
DESCRIBE s EXTENDED; DESCRIBE TABLES; DESCRIBE FUNCTION SUBSTRING; EXPLAIN CSAS_S_1;
EXPLAIN CREATE STREAM a AS SELECT * FROM b;
PRINT 'Topic' FROM BEGINNING INTERVAL 2 LIMIT 3; TERMINATE ALL; PAUSE q_1; RESUME q_1;
DROP STREAM IF EXISTS s DELETE TOPIC; DROP TYPE IF EXISTS a; CREATE TYPE IF NOT EXISTS a AS STRUCT<x a>;
CREATE OR REPLACE ROLLUP r AS SELECT DATE_TRUNC('hour', t) AS h, `kind`, COUNT(*), SUM(x) FROM events
  GROUP BY DATE_TRUNC('hour', t), `kind`;
CREATE ROLLUP IF NOT EXISTS `r 2` AS SELECT a, COUNT(*) FROM b GROUP BY a;
DROP ROLLUP IF EXISTS r; SHOW ROLLUPS;
ALTER STREAM s ADD COLUMN a INT, ADD b VARCHAR; DEFINE a = 'it''s'; UNDEFINE a;
SET 'a' = 'b'; UNSET 'a'; RUN SCRIPT '/f.sql';
ASSERT TOPIC t WITH (PARTITIONS = 1) TIMEOUT 3 SECONDS; ASSERT NOT EXISTS SCHEMA SUBJECT 's-value' ID 4;
"""


def test_printed_statements_parse_to_the_same_tree() -> None:
    for parsed in parse(STATEMENTS):
        assert parse(f"{sql(parsed.statement)};")[0].statement == parsed.statement


def refusal_of(text: str) -> StatementError | None:
    try:
        parse(text)
    except StatementError as error:
        return error
    return None


WORDS = sorted({word for word in STATEMENTS.replace(";", " ; ").replace("(", " ( ").split() if word})


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), max_size=30).map(" ".join))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    error = refusal_of(text)
    assert error is None or min(error.at) >= 1


@given(st.data())
def test_statements_with_a_piece_cut_out_are_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(STATEMENTS)))
    end = data.draw(st.integers(start, min(len(STATEMENTS), start + 40)))
    error = refusal_of(STATEMENTS[:start] + STATEMENTS[end:])
    assert error is None or str(error)
