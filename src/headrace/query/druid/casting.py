"""Casts between kinds, as Druid does them: what cannot be cast is null.

Each takes a translated expression and what is known of its kind, and gives an expression.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Argument, Context, built
from headrace.query.druid.dialect import Sql, sql
from headrace.query.druid.kinds import TIMES, Kind
from headrace.query.druid.periods import instant_of

_LONGS: Final = frozenset({"BIGINT", "INT", "INTEGER", "SMALLINT", "TINYINT", "LONG"})
_DOUBLES: Final = frozenset({"DOUBLE", "DECIMAL", "REAL", "NUMERIC"})
_TEXTS: Final = frozenset({"VARCHAR", "CHAR", "TEXT", "STRING"})
# A text with a time of day and then a zone. `2000-01-02` ends in no zone.
_HAS_ZONE: Final = r"[T ]\d.*(Z|z|[+-]\d\d(:?\d\d)?)$"
_SHORT_FORMATS: Final = "['%Y-%m-%dT%H', '%Y-%m', '%Y']"


def timestamp(time: datetime) -> Sql:
    return sql(f"TIMESTAMP '{time.isoformat(sep=' ')}'")


def utc(argument: Argument, context: Context) -> exp.Expr:
    """A time as a timestamp without a zone, the wall clock of UTC."""
    match argument.kind:
        case Kind.TIMESTAMP:
            return argument.tree
        case Kind.INSTANT:
            return built("timezone('UTC', {0})", argument.tree)
        case Kind.DATE:
            return built("CAST({0} AS TIMESTAMP)", argument.tree)
        case Kind.STRING:
            return parsed_time(argument, context)
        case Kind.LONG:
            return built("make_timestamp_ms({0})", argument.tree)
        case _:
            return built("CAST({0} AS TIMESTAMP)", argument.tree)


def parsed_time(argument: Argument, context: Context) -> exp.Expr:
    """A text of SQL's form or ISO 8601 as a time."""
    if argument.original is not None:
        try:
            return timestamp(instant_of(str(argument.original.this), context.zone))
        except (ValueError, OverflowError):
            return sql("CAST(NULL AS TIMESTAMP)")
    without = context.zone.instant(
        f"coalesce(TRY_CAST({{0}} AS TIMESTAMP), try_strptime({{0}}, {_SHORT_FORMATS}))"
    )
    return built(
        f"CASE WHEN regexp_matches({{0}}, '{_HAS_ZONE}') "
        f"THEN timezone('UTC', TRY_CAST({{0}} AS TIMESTAMPTZ)) ELSE {without} END",
        argument.tree,
    )


def text(argument: Argument, context: Context) -> exp.Expr:
    """A value as text; times as SQL writes them."""
    match argument.kind:
        case Kind.STRING:
            return argument.tree
        case Kind.TIMESTAMP | Kind.INSTANT:
            local = context.zone.local("{0}")
            return built(f"strftime({local}, '%Y-%m-%d %H:%M:%S')", utc(argument, context))
        case Kind.DATE:
            return built("strftime({0}, '%Y-%m-%d')", argument.tree)
        case _:
            return built("CAST({0} AS VARCHAR)", argument.tree)


def long(argument: Argument, context: Context) -> exp.Expr:
    """Floating-point numbers are cut, not rounded; times are milliseconds."""
    if argument.kind in TIMES:
        return built("epoch_ms({0})", utc(argument, context))
    match argument.kind:
        case Kind.LONG | Kind.BOOLEAN | Kind.NULL:
            return built("TRY_CAST({0} AS BIGINT)", argument.tree)
        case Kind.DOUBLE:
            return built("TRY_CAST(trunc({0}) AS BIGINT)", argument.tree)
        case _:
            number = "CAST({0} AS VARCHAR)"
            return built(
                f"coalesce(CASE WHEN contains({number}, '.') THEN "
                f"TRY_CAST(trunc(TRY_CAST({number} AS DOUBLE)) AS BIGINT) END, TRY_CAST({number} AS BIGINT))",
                argument.tree,
            )


def double(argument: Argument, context: Context) -> exp.Expr:
    tree = long(argument, context) if argument.kind in TIMES else argument.tree
    return built("TRY_CAST({0} AS DOUBLE)", tree)


def date(argument: Argument, context: Context) -> exp.Expr:
    if argument.kind is Kind.DATE:
        return argument.tree
    return built(f"CAST({context.zone.local('{0}')} AS DATE)", utc(argument, context))


def cast(  # noqa: PLR0911
    argument: Argument, name: str, context: Context
) -> tuple[exp.Expr, Kind] | None:
    """A cast to an SQL type by its name; None if there is no such type."""
    if name in _TEXTS:
        return text(argument, context), Kind.STRING
    if name in _LONGS:
        return long(argument, context), Kind.LONG
    if name in _DOUBLES:
        return double(argument, context), Kind.DOUBLE
    match name:
        case "FLOAT":
            return built("CAST({0} AS FLOAT)", double(argument, context)), Kind.DOUBLE
        case "BOOLEAN":
            return built("TRY_CAST({0} AS BOOLEAN)", argument.tree), Kind.BOOLEAN
        case "TIMESTAMP":
            return utc(argument, context), Kind.TIMESTAMP
        case "DATE":
            return date(argument, context), Kind.DATE
        case _:
            return None
