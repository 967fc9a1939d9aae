"""Translates the expressions of a query: every node by a rule for its class, arguments before what uses them.

Invariants: a class of nodes without a rule is an error, so nothing reaches DuckDB that nobody has
considered; no recursion over expressions, so that a long chain of ANDs costs no stack. Queries inside
expressions are `queries.py`'s.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from headrace.query.druid import casting
from headrace.query.druid.calls import Argument, Call, Context, built
from headrace.query.druid.dialect import put, sql
from headrace.query.druid.errors import DruidSqlError
from headrace.query.druid.functions import FUNCTIONS, MISSING
from headrace.query.druid.functions.strings import concat
from headrace.query.druid.functions.times import (
    ceiled,
    extracted,
    floored,
    now,
    shifted,
    today,
    unit_period,
)
from headrace.query.druid.kinds import TIMES, Kind
from headrace.query.druid.periods import Period, instant_of
from headrace.query.druid.scopes import Scope, no_such_column, place_of

# Takes a query in an expression; gives the kind of its first column.
QueryRule = Callable[[exp.Expr, Scope], Kind]

_CONDITIONS: Final = (exp.And, exp.Or, exp.Not, exp.Is, exp.Exists)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
# What has no meaning of its own: it stays, with its translated parts.
_FRAMES: Final = (
    exp.Cube, exp.DataType, exp.DataTypeParam, exp.Distinct, exp.Group, exp.GroupingSets, exp.Having,
    exp.Fetch, exp.Identifier, exp.If, exp.IntervalSpan, exp.Limit, exp.LimitOptions, exp.Offset, exp.Order,
    exp.Ordered, exp.Rollup, exp.Star, exp.TableAlias, exp.Tuple, exp.Var, exp.Where, exp.WindowSpec,
)  # fmt: skip
_SYMBOLS: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "//", exp.Mod: "%",
}  # fmt: skip
_SIGNS: Final[dict[type[exp.Expr], str]] = {exp.Add: "1", exp.Sub: "-1"}
_NUMBERS: Final = (Kind.LONG, Kind.DOUBLE)
_WITH_UNIT: Final = frozenset({"TIMESTAMPADD", "TIMESTAMPDIFF"})


class Expressions:
    """The rules for one statement."""

    def __init__(self, statement: str, context: Context, query: QueryRule) -> None:
        self._statement = statement
        self._context = context
        self._query = query
        # By the identity of translated nodes, which are kept alive here.
        self._known: dict[int, Argument] = {}
        self._periods: dict[int, Period] = {}

    def translate(self, root: exp.Expr, scope: Scope) -> Kind:
        """Translate an expression in place, inside the tree that it is part of."""
        kind = Kind.UNKNOWN
        for node in reversed(self._nodes(root)):
            tree, kind = self._translated(node, scope)
            self._note(tree, kind, node)
            if tree is not node:
                # The tree took over the node's arguments, but not its place.
                put(tree, node)
        return kind

    def _nodes(self, root: exp.Expr) -> list[exp.Expr]:
        """Every node before its arguments; queries as a whole."""
        nodes: list[exp.Expr] = []
        pending = [root]
        while pending:
            node = pending.pop()
            nodes.append(node)
            if isinstance(node, exp.Query):
                continue
            children = list(node.iter_expressions())
            if isinstance(node, exp.Anonymous) and node.name.upper() in _WITH_UNIT:
                children = children[1:]
            elif isinstance(node, exp.Column):
                children = []
            pending.extend(children)
        return nodes

    def _note(self, tree: exp.Expr, kind: Kind, node: exp.Expr) -> None:
        original = node if isinstance(node, exp.Literal) else None
        self._known[id(tree)] = Argument(tree=tree, kind=kind, original=original)

    def _argument(self, tree: exp.Expr) -> Argument:
        found = self._known.get(id(tree))
        return found if found is not None else Argument(tree=tree, kind=Kind.UNKNOWN)

    def _arguments(self, node: exp.Expr, *names: str) -> list[Argument]:
        return [self._argument(node.args[name]) for name in names if node.args.get(name) is not None]

    def _translated(self, node: exp.Expr, scope: Scope) -> tuple[exp.Expr, Kind]:  # noqa: PLR0911, PLR0912
        match node:
            case exp.Column():
                return node, self._column(node, scope)
            case exp.Literal():
                return _literal(node)
            case exp.Boolean():
                return node, Kind.BOOLEAN
            case exp.Null():
                return node, Kind.NULL
            case exp.Anonymous():
                return self._call(node, scope)
            case exp.Query():
                return node, self._query(node, scope)
            case exp.Paren() | exp.Alias() | exp.Neg() | exp.Filter() | exp.Window():
                return node, self._argument(node.this).kind
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._arithmetic(node)
            case exp.DPipe():
                return concat(self._as_call("||", node, "this", "expression")), Kind.STRING
            case exp.Between():
                self._harmonise(node, "low")
                self._harmonise(node, "high")
                return node, Kind.BOOLEAN
            case exp.In():
                self._harmonise_list(node)
                return node, Kind.BOOLEAN
            case exp.Like() | exp.Escape():
                self._as_text(node)
                return node, Kind.BOOLEAN
            case exp.Case():
                return node, self._case(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Interval():
                return self._interval(node)
            case exp.Floor() | exp.Ceil():
                return self._rounded(node)
            case exp.Extract():
                return self._extracted(node)
            case exp.Substring():
                call = self._as_call("SUBSTRING", node, "this", "start", "length")
                return FUNCTIONS["SUBSTRING"].translated(call)
            case exp.Trim():
                return self._trimmed(node)
            case exp.CurrentTimestamp():
                return now(self._context)
            case exp.CurrentDate():
                return today(self._context)
            case exp.Array():
                return node, Kind.ARRAY
            case _ if isinstance(node, _COMPARISONS):
                self._harmonise(node, "expression")
                return node, Kind.BOOLEAN
            case _ if isinstance(node, _CONDITIONS):
                return node, Kind.BOOLEAN
            case _ if isinstance(node, _FRAMES):
                return node, Kind.UNKNOWN
            case _:
                raise self._unsupported(node)

    def _column(self, node: exp.Column, scope: Scope) -> Kind:
        if isinstance(node.this, exp.Star):
            return Kind.UNKNOWN
        for part in ("db", "catalog"):
            if node.args.get(part) is not None and node.text(part).casefold() != "druid":
                raise no_such_column(node, self._statement)
            node.set(part, None)
        if not node.table:
            kind = scope.kind_of(node.name)
        else:
            source = scope.source(node.table)
            if source is None:
                raise DruidSqlError(
                    f"Table '{node.table[:60]}' not found", place=place_of(node, self._statement)
                )
            kind = Kind.UNKNOWN if source.columns is None else source.columns.get(node.name.casefold())
        if kind is None:
            raise no_such_column(node, self._statement)
        return kind

    def _call(self, node: exp.Anonymous, scope: Scope) -> tuple[exp.Expr, Kind]:
        name = node.name.upper()
        function = FUNCTIONS.get(name)
        if function is None:
            raise self._no_function(node)
        trees: list[exp.Expr] = list(node.expressions)
        distinct = bool(trees) and isinstance(trees[0], exp.Distinct)
        if distinct:
            if trees[0].args.get("on"):
                raise self._unsupported(node)
            trees = [*trees[0].expressions, *trees[1:]]
        if any(isinstance(tree, exp.Star) for tree in trees) and (name, len(trees)) != ("COUNT", 1):
            raise DruidSqlError(f"{name} does not take *", place=place_of(node, self._statement))
        call = Call(
            name=name,
            arguments=[self._argument(tree) for tree in trees],
            context=self._context,
            place=place_of(node, self._statement),
            time=scope.time_for,
            distinct=distinct,
        )
        if function.window and not isinstance(node.parent, exp.Window):
            raise call.error(f"{name} needs an OVER clause")
        return function.translated(call)

    def _as_call(self, name: str, node: exp.Expr, *parts: str) -> Call:
        """A construct with a grammar of its own as a call."""
        return Call(
            name=name,
            arguments=self._arguments(node, *parts),
            context=self._context,
            place=place_of(node, self._statement),
            time=lambda _: None,
        )

    def _arithmetic(self, node: exp.Binary) -> tuple[exp.Expr, Kind]:
        one, other = self._arguments(node, "this", "expression")
        kinds = {one.kind, other.kind}
        if kinds & TIMES:
            return self._time_arithmetic(node, one, other)
        if Kind.INTERVAL in kinds:
            return node, Kind.INTERVAL
        result = Kind.LONG if kinds == {Kind.LONG} else Kind.DOUBLE if Kind.DOUBLE in kinds else Kind.UNKNOWN
        one, other = self._as_number(one), self._as_number(other)
        # Of integers the quotient is an integer, otherwise floating point: as DuckDB's // has it.
        symbol = _SYMBOLS[type(node)]
        if symbol in "+-*" and one.tree is node.this and other.tree is node.expression:
            return node, result
        return built(f"({{0}} {symbol} {{1}})", one.tree, other.tree), result

    def _as_number(self, argument: Argument) -> Argument:
        if argument.kind is not Kind.STRING:
            return argument
        return Argument(tree=casting.double(argument, self._context), kind=Kind.DOUBLE)

    def _time_arithmetic(self, node: exp.Expr, one: Argument, other: Argument) -> tuple[exp.Expr, Kind]:
        if isinstance(node, exp.Add) and one.kind is Kind.INTERVAL:
            one, other = other, one
        sign = _SIGNS.get(type(node))
        if sign is None or other.kind is not Kind.INTERVAL:
            raise DruidSqlError(
                "Only an interval can be added to a time or subtracted from one",
                place=place_of(node, self._statement),
                remedy="Use TIMESTAMPDIFF, TIMESTAMPADD or TIME_SHIFT.",
            )
        time = casting.utc(one, self._context)
        period = self._periods.get(id(other.tree))
        if period is not None:
            return shifted(time, period, sql(sign), self._context.zone), Kind.TIMESTAMP
        clock = self._context.zone
        return built(
            clock.instant(f"({clock.local('{0}')} + {sign} * {{1}})"), time, other.tree
        ), Kind.TIMESTAMP

    def _interval(self, node: exp.Interval) -> tuple[exp.Expr, Kind]:
        """INTERVAL '1' DAY, or INTERVAL '1 02:30' DAY TO MINUTE."""
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Literal) or unit is None:
            raise self._unsupported(node)
        text = str(node.this.this).strip()
        place = place_of(node, self._statement)
        negative, digits = text.startswith("-"), text.lstrip("+-")
        try:
            if isinstance(unit, exp.IntervalSpan):
                period = _span(digits, unit.this.name.upper(), unit.expression.name.upper())
            else:
                single = unit_period(unit.name.removesuffix("S"), place)
                period = _times(single, digits)
        except ValueError as error:
            raise DruidSqlError(f"'{text[:40]}' is no interval of that unit", place=place) from error
        if negative:
            period = Period(
                months=-period.months,
                weeks=-period.weeks,
                days=-period.days,
                microseconds=-period.microseconds,
            )
        tree = sql(period.sql())
        self._periods[id(tree)] = period
        return tree, Kind.INTERVAL

    def _harmonise(self, node: exp.Expr, part: str) -> None:
        """Make both sides of a comparison comparable, as Druid's implicit casts do."""
        one, other = self._arguments(node, "this", part)
        for name, argument, against in (("this", one, other), (part, other, one)):
            changed = self._comparable(argument, against)
            if changed is not argument.tree:
                node.set(name, changed)
                self._known[id(changed)] = Argument(tree=changed, kind=against.kind)

    def _harmonise_list(self, node: exp.In) -> None:
        value = self._argument(node.this)
        listed = [self._argument(each) for each in node.expressions]
        changed = [self._comparable(each, value) for each in listed]
        if any(new is not old.tree for new, old in zip(changed, listed, strict=True)):
            node.set("expressions", changed)
        elif value.kind is Kind.STRING and value.original is None and listed and listed[0].kind in _NUMBERS:
            node.set("this", casting.double(value, self._context))

    def _comparable(self, argument: Argument, against: Argument) -> exp.Expr:
        if argument.kind is Kind.STRING and against.kind in (Kind.TIMESTAMP, Kind.INSTANT):
            time = argument.tree
            if argument.original is not None:
                time = self._literal_time(argument.original)
            else:
                time = casting.parsed_time(argument, self._context)
            return built("timezone('UTC', {0})", time) if against.kind is Kind.INSTANT else time
        if argument.kind is Kind.STRING and against.kind is Kind.DATE and argument.original is None:
            return built("CAST({0} AS DATE)", casting.parsed_time(argument, self._context))
        if argument.kind is Kind.TIMESTAMP and against.kind is Kind.INSTANT:
            return built("timezone('UTC', {0})", argument.tree)
        if argument.kind is Kind.STRING and argument.original is None and against.kind in _NUMBERS:
            return casting.double(argument, self._context)
        return argument.tree

    def _literal_time(self, literal: exp.Literal) -> exp.Expr:
        try:
            return casting.timestamp(instant_of(str(literal.this), self._context.zone))
        except (ValueError, OverflowError) as error:
            raise DruidSqlError(
                f"'{str(literal.this)[:40]}' is no time", remedy="Write one such as '2000-01-02 03:04:05'."
            ) from error

    def _as_text(self, node: exp.Expr) -> None:
        value = self._argument(node.this)
        if value.kind not in (Kind.STRING, Kind.BOOLEAN, Kind.UNKNOWN):
            node.set("this", casting.text(value, self._context))

    def _case(self, node: exp.Case) -> Kind:
        results = [self._argument(each.args["true"]).kind for each in node.args["ifs"]]
        results += [each.kind for each in self._arguments(node, "default")]
        kinds = set(results) - {Kind.NULL}
        return kinds.pop() if len(kinds) == 1 else Kind.DOUBLE if kinds == set(_NUMBERS) else Kind.UNKNOWN

    def _cast(self, node: exp.Cast) -> tuple[exp.Expr, Kind]:
        target = node.args["to"]
        name = target.this.name if isinstance(target.this, exp.DType) else str(target)
        value = self._argument(node.this)
        if name in ("TIMESTAMP", "DATE") and value.original is not None and value.original.is_string:
            time = Argument(tree=self._literal_time(value.original), kind=Kind.TIMESTAMP)
            found = casting.cast(time, name, self._context)
        else:
            found = casting.cast(value, name, self._context)
        if found is None or (target.expressions and name == "ARRAY"):
            raise DruidSqlError(
                f"There is no cast to {name[:30]}",
                place=place_of(node, self._statement),
                remedy="Cast to VARCHAR, BIGINT, DOUBLE, FLOAT, BOOLEAN, TIMESTAMP or DATE.",
            )
        return found

    def _rounded(self, node: exp.Expr) -> tuple[exp.Expr, Kind]:
        value = self._argument(node.this)
        unit = node.args.get("to")
        floor = isinstance(node, exp.Floor)
        if unit is None:
            if node.args.get("decimals") is not None:
                raise DruidSqlError(
                    f"{'FLOOR' if floor else 'CEIL'} takes 1 argument", place=place_of(node, self._statement)
                )
            return built("floor({0})" if floor else "ceil({0})", value.tree), value.kind
        place = place_of(node, self._statement)
        rule = floored if floor else ceiled
        time = casting.utc(value, self._context)
        return rule(time, unit_period(unit.name, place), self._context.zone, None, place), Kind.TIMESTAMP

    def _extracted(self, node: exp.Extract) -> tuple[exp.Expr, Kind]:
        (value,) = self._arguments(node, "expression")
        time = casting.utc(value, self._context)
        return extracted(time, node.name, self._context.zone, place_of(node, self._statement)), Kind.LONG

    def _trimmed(self, node: exp.Trim) -> tuple[exp.Expr, Kind]:
        where = str(node.args.get("position") or "BOTH").upper()
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(where, "BTRIM")
        return FUNCTIONS[name].translated(self._as_call(name, node, "this", "expression"))

    def _no_function(self, node: exp.Anonymous) -> DruidSqlError:
        name = node.name.upper()[:60]
        place = place_of(node, self._statement)
        for beginning, reason in MISSING.items():
            if name.startswith(beginning):
                return DruidSqlError(f"{name} is not supported: {reason}", place=place, unsupported=True)
        close = difflib.get_close_matches(name, FUNCTIONS, n=1)
        remedy = f"Did you mean {close[0]}?" if close else "docs/druid-sql.md lists the functions."
        return DruidSqlError(f"There is no function {name}", place=place, remedy=remedy)

    def _unsupported(self, node: exp.Expr) -> DruidSqlError:
        return unsupported(node, self._statement)


def unsupported(node: Any, statement: str) -> DruidSqlError:
    return DruidSqlError(
        f"{type(node).__name__.upper()} is not supported here",
        place=place_of(node, statement),
        unsupported=True,
    )


def _literal(node: exp.Literal) -> tuple[exp.Expr, Kind]:
    if node.is_string:
        return node, Kind.STRING
    text = str(node.this)
    if text.isdigit():
        return node, Kind.LONG
    # Decimals are floating point in Druid.
    return node if "e" in text.lower() else exp.Literal.number(f"{text}e0"), Kind.DOUBLE


def _times(period: Period, count: str) -> Period:
    if not period.is_calendar:
        return Period(microseconds=round(float(count) * period.microseconds))
    number = int(count)
    return Period(months=period.months * number, weeks=period.weeks * number, days=period.days * number)


def _span(text: str, first: str, last: str) -> Period:
    if first == "YEAR" and last == "MONTH":
        years, _, months = text.partition("-")
        return Period(months=12 * int(years) + int(months or 0))
    order = ("DAY", "HOUR", "MINUTE", "SECOND")
    units = order[order.index(first) : order.index(last) + 1]
    numbers = text.replace(":", " ").split()
    if len(numbers) != len(units):
        raise ValueError(text)
    found = dict(zip(units, numbers, strict=True))
    seconds = (int(found.get("HOUR", 0)) * 60 + int(found.get("MINUTE", 0))) * 60 + float(
        found.get("SECOND", 0)
    )
    return Period(days=int(found.get("DAY", 0)), microseconds=round(seconds * 1_000_000))
