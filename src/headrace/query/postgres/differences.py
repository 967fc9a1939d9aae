"""Where PostgreSQL and DuckDB read the same SQL differently: one rewriting for each difference.

Each rule takes a node of the tree and gives the node that means in DuckDB what it means in PostgreSQL, or
refuses the statement. What needs no rule is left to sqlglot's own translation, such as the order of nulls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sqlglot import expressions as exp
from sqlglot import parse_one

from headrace.query.postgres import json_differences
from headrace.query.postgres.divisions import INTEGERS, Number, Numbers
from headrace.query.postgres.parameter_types import type_of, type_of_cast
from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.decoding import quoted, text_literal
from headrace.query.postgres.protocol.errors import FEATURE_NOT_SUPPORTED, TOO_COMPLEX, PostgresError

_DUCKDB_INTEGERS: Final = "('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT')"
_MOST_OPEN_DIVISIONS: Final = 3
# What is left of a format of to_char when every code that is the same in strftime is taken away.
_SAME_CODES: Final = re.compile(r"%-?[YymdHIMSfjbapGV]|\"[^\"%]*\"")
_LIMITED: Final = (exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.NCHAR, exp.DType.NVARCHAR)
_ZONES_IGNORED: Final = (exp.DType.DATE, exp.DType.TIME)
_TEXTS: Final = frozenset({types.TEXT.oid, types.BY_NAME["varchar"].oid, types.BY_NAME["name"].oid})
# A parenthesis that is neither taken literally nor the beginning of `(?…)`.
_GROUP: Final = r"(^|[^\\])\(([^?]|$)"
_PATTERNS: Final = {"~": (False, False), "~*": (False, True), "!~": (True, False), "!~*": (True, True)}


def rewrite_differences(tree: exp.Expr, numbers: Numbers) -> exp.Expr:
    """The tree for DuckDB. Raises PostgresError for what it cannot say."""
    divisions = {id(node): _division(node, numbers) for node in tree.find_all(exp.Div)}

    def rewritten(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Div):
            return _divided(node, divisions.get(id(node), False))
        if isinstance(node, exp.Substring) and _is_pattern(node, numbers):
            return _matched(node.this, node.args["start"])
        if isinstance(node, exp.Cast) and node.to.this is exp.DType.TIME:
            _cast_to_time(node, numbers)
        rule = _RULES.get(type(node))
        return node if rule is None else rule(node)

    # From the leaves up, so that a rule finds its operands rewritten; and in place, so that ids stay.
    for node in reversed(list(tree.walk(bfs=True))):
        replaced = rewritten(node)
        if replaced is not node:
            if node is tree:
                tree = replaced
            else:
                node.replace(replaced)
    return tree


def _division(node: exp.Div, numbers: Numbers) -> bool | None:
    """True for integers, False for other numbers, None where only the values can tell."""
    left, right = numbers.kind(node.left), numbers.kind(node.right)
    if left in INTEGERS and right in INTEGERS:
        return True
    return None if Number.UNKNOWN in (left, right) and Number.OTHER not in (left, right) else False


def _divided(node: exp.Div, of_integers: bool | None) -> exp.Expr:
    if of_integers is None:
        left, right = node.left.sql("duckdb"), node.right.sql("duckdb")
        if left.count("typeof(") + right.count("typeof(") >= 2 * _MOST_OPEN_DIVISIONS:
            raise PostgresError(
                TOO_COMPLEX,
                "it is not known which of these divisions are of integers",
                hint="Cast the operands, for example to double precision or bigint.",
            )
        chosen = parse_one(
            f"CASE WHEN typeof({left}) IN {_DUCKDB_INTEGERS} AND typeof({right}) IN {_DUCKDB_INTEGERS}"
            f" THEN ({left}) // ({right}) ELSE ({left}) / ({right}) END",
            read="duckdb",
        )
        return exp.Paren(this=chosen)
    if of_integers:
        return exp.Paren(this=exp.IntDiv(this=node.left.copy(), expression=node.right.copy()))
    node.set("typed", False)
    return node


def _cast_to_time(node: exp.Cast, numbers: Numbers) -> None:
    """DuckDB has no cast from a timestamp with time zone to a time."""
    if type_of(node.this, numbers) == types.TIMESTAMPTZ.oid:
        node.set("this", exp.cast(node.this, "TIMESTAMP", dialect="duckdb"))


def _is_pattern(node: exp.Substring, numbers: Numbers) -> bool:
    """Whether this is `substring(text FROM pattern)`: a place is a number, a pattern a text."""
    start = node.args.get("start")
    if start is None or node.args.get("length") is not None:
        return False
    if isinstance(start, exp.Literal):
        return bool(start.is_string)
    if isinstance(start, exp.Cast):
        return type_of_cast(start.to) in _TEXTS
    return numbers.column_oid(start) in _TEXTS


def _matched(text: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """What the first group of the pattern matches, or all of it if it has none; NULL if it does not match."""
    value, regex = text.sql("duckdb"), pattern.sql("duckdb")
    has_group = f"regexp_matches({regex}, {quoted(_GROUP)})"
    whole, group = f"regexp_extract({value}, {regex})", f"regexp_extract({value}, {regex}, 1)"
    found = f"CASE WHEN {has_group} THEN {group} ELSE {whole} END"
    return exp.Paren(
        this=parse_one(f"CASE WHEN regexp_matches({value}, {regex}) THEN {found} END", read="duckdb")
    )


def _like(node: exp.Expr) -> exp.Expr:
    """A backslash in a pattern takes the special meaning from what follows; in DuckDB only if one says so."""
    if isinstance(node.parent, exp.Escape):
        return node
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and "\\" not in pattern.name:
        return node
    if isinstance(pattern, exp.Any):
        raise PostgresError(FEATURE_NOT_SUPPORTED, "LIKE ANY is not supported", hint="Use OR, or ~.")
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _cast(node: exp.Cast) -> exp.Expr:  # noqa: PLR0911 - one rule a branch
    kind, operand = node.to, node.this
    if isinstance(kind, exp.ObjectIdentifier):
        return _retyped(node, "UINTEGER") if kind.name == "OID" else node
    if kind.this is exp.DType.DECIMAL and not kind.expressions:
        return _retyped(node, types.NUMERIC)
    if kind.this is exp.DType.USERDEFINED:
        return _user_defined(node)
    if kind.this is exp.DType.NAME or kind.this is exp.DType.JSONB:
        return _retyped(node, "VARCHAR" if kind.this is exp.DType.NAME else "JSON")
    if kind.this in _LIMITED and kind.expressions:
        # DuckDB does not cut texts; PostgreSQL does, in a cast.
        text = exp.Cast(this=operand.copy(), to=exp.DataType.build("VARCHAR", dialect="duckdb"))
        return exp.Anonymous(this="left", expressions=[text, exp.Literal.number(kind.expressions[0].name)])
    is_text = isinstance(operand, exp.Literal) and operand.is_string
    if is_text and kind.this in _ZONES_IGNORED and not kind.expressions:
        cast = text_literal(operand.name, types.BY_OID[type_of_cast(kind)])
        return parse_one(cast, read="duckdb")
    if is_text and kind.this in (exp.DType.ARRAY, exp.DType.VARBINARY):
        known = types.BY_OID.get(type_of_cast(kind))
        if known is None:
            raise PostgresError(FEATURE_NOT_SUPPORTED, "the array literal has a type that is not supported")
        return parse_one(text_literal(operand.name, known), read="duckdb")
    return node


def _user_defined(node: exp.Cast) -> exp.Expr:
    kind = node.to.args.get("kind")
    name = kind.name if isinstance(kind, exp.Expr) else str(kind)
    known = types.BY_NAME.get(name.lower()) or _BY_DISPLAY.get(name.lower())
    if known is None:
        raise PostgresError("42704", f'type "{name}" does not exist')
    return _retyped(node, known.duckdb)


_BY_DISPLAY: Final = {kind.display: kind for kind in types.ALL}


def _retyped(node: exp.Cast, duckdb: str) -> exp.Expr:
    node.set("to", exp.DataType.build(duckdb, dialect="duckdb"))
    return node


def _any(node: exp.Any) -> exp.Expr:
    """`= ANY ('{a,b}')`: the text of an array whose type is that of the other side."""
    operand = node.this
    while isinstance(operand, exp.Paren):
        operand = operand.this
    if isinstance(operand, exp.Literal) and operand.is_string:
        array = text_literal(operand.name, types.BY_NAME["_text"])
        node.set("this", exp.Paren(this=parse_one(array, read="duckdb")))
    return node


def _time_format(node: exp.Expr) -> exp.Expr:
    shape = node.args.get("format")
    if not isinstance(shape, exp.Literal):
        raise PostgresError(FEATURE_NOT_SUPPORTED, "the format of a time must be a literal")
    if re.search(r"[A-Za-z%\"]", _SAME_CODES.sub("", shape.name)):
        raise PostgresError(
            FEATURE_NOT_SUPPORTED,
            f"this format of a time is not supported; what is known of it: {shape.name}",
            hint="Known are YYYY, YY, MM, DD, DDD, HH24, HH12, MI, SS, US, AM, IYYY, IW and quoted text.",
        )
    node.set("format", exp.Literal.string(shape.name.replace('"', "")))
    return node


def _refused(what: str) -> PostgresError:
    return PostgresError(FEATURE_NOT_SUPPORTED, f"{what} is not supported")


def _bit_string(_: exp.Expr) -> exp.Expr:
    raise _refused("a bit string")


def _unicode_string(_: exp.Expr) -> exp.Expr:
    raise _refused("U&'…'")


def _similar(_: exp.Expr) -> exp.Expr:
    raise PostgresError(FEATURE_NOT_SUPPORTED, "SIMILAR TO is not supported", hint="Use ~ or LIKE.")


def _operator(node: exp.Operator) -> exp.Expr:
    """`OPERATOR(pg_catalog.~)`, which psql writes."""
    name = str(node.args["operator"]).rpartition(".")[2].strip()
    left, right = node.this.copy(), node.expression.copy()
    if name in _PATTERNS:
        negated, folded = _PATTERNS[name]
        matches: exp.Expr = (exp.RegexpILike if folded else exp.RegexpLike)(this=left, expression=right)
        return exp.Not(this=matches) if negated else matches
    kind: type[exp.Binary] | None = {
        "=": exp.EQ,
        "<>": exp.NEQ,
        "+": exp.Add,
        "-": exp.Sub,
        "~~": exp.Like,
    }.get(name)
    if kind is None:
        raise _refused(f"the operator {name}")
    return kind(this=left, expression=right)


def _collate(node: exp.Collate) -> exp.Expr:
    name = node.expression.name.lower()
    if name in ("default", "c", "posix"):
        copied: exp.Expr = node.this.copy()
        return copied
    raise _refused(f"the collation {name}")


_RULES: Final[dict[type[exp.Expr], Callable[..., exp.Expr]]] = {
    exp.Anonymous: json_differences.function,
    exp.Any: _any,
    exp.BitString: _bit_string,
    exp.Cast: _cast,
    exp.Collate: _collate,
    exp.HexString: _bit_string,
    exp.ILike: _like,
    exp.JSONBExtract: json_differences.path_operator,
    exp.JSONBExtractScalar: json_differences.path_operator,
    exp.Like: _like,
    exp.Operator: _operator,
    exp.SimilarTo: _similar,
    exp.StrToDate: _time_format,
    exp.StrToTime: _time_format,
    exp.TimeToStr: _time_format,
    exp.UnicodeString: _unicode_string,
}
