"""Expressions of a statement as Spark's SQL, each with the kind of its value.

One method for each kind of node that is translated, in a table; any other is refused, and so is a node with
a part that its method does not know. Invariant: brackets are around everything that has an operator, so that
precedence is sqlglot's reading and nothing else. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from headrace.query.spark import casting
from headrace.query.spark.functions import (
    AGGREGATES,
    FUNCTIONS,
    WINDOW_FUNCTIONS,
    joined,
    part_of_time,
    same_case,
)
from headrace.query.spark.kinds import (
    NUMBERS,
    ORDERED,
    Kind,
    Value,
    cast,
    compared,
    differs,
    name,
    text_literal,
    unified,
)
from headrace.query.spark.reading import written

_LARGEST: Final = 2**63 - 1
_COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
}  # fmt: skip
_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Mul: "*", exp.Sub: "-"}
_UNITS: Final = frozenset({"second", "minute", "hour", "day", "week", "month", "year"})
# What may be an escape in a pattern that has none.
_ESCAPES: Final = ("!", "~", "\x01", "\x02", "\x03")
_BOUNDS: Final = frozenset({"UNBOUNDED", "CURRENT ROW"})

Columns = Mapping[str, Kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The columns of each source, by its name; those of the answer, for ORDER BY; and the query around."""

    sources: Mapping[str, Columns]
    named: Columns = field(default_factory=dict)
    outer: Scope | None = None

    def kind(self, source: str, column: str) -> Kind | None:
        found = self.sources.get(source, {}).get(column) if source else self.named.get(column)
        return found if found is not None or self.outer is None else self.outer.kind(source, column)


Query = Callable[[exp.Expr, Scope], tuple[str, list[Kind]]]


def only(node: exp.Expr, *known: str) -> None:
    """Refuses a node that has other parts than these."""
    for part, content in node.args.items():
        if content and part not in known:
            raise differs(f"`{written(node)}`", f"its {part.strip('_').replace('_', ' ')} is not translated")


class Expressions:
    """`query` translates a query inside an expression: its SQL and the kinds of its columns."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def value(self, node: exp.Expr, scope: Scope) -> Value:
        """Raises HeadraceError."""
        kind = type(node)
        if kind in _COMPARISONS:
            return self._compared(node, scope)
        if kind in _ARITHMETIC:
            return self._arithmetic(node, scope)
        translate = _NODES.get(kind)
        if translate is None:
            raise differs(f"`{written(node)}`", "it is not translated")
        return translate(self, node, scope)

    def condition(self, node: exp.Expr, scope: Scope) -> str:
        value = self.value(node, scope)
        if value.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise differs(f"`{written(node)}`", "it is used as a condition and is no truth value")
        return value.sql

    def ordered(self, node: exp.Expr, scope: Scope) -> str:
        only(node, "this", "desc", "nulls_first")
        value = self.value(node.this, scope)
        if value.kind not in ORDERED:
            raise differs(f"ORDER BY `{written(node.this)}`", f"the value is {value.kind.value}")
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return f"{value.sql} {direction} NULLS {nulls}"

    def _both(self, node: exp.Expr, scope: Scope) -> tuple[Value, Value]:
        only(node, "this", "expression", "typed", "safe")
        return self.value(node.this, scope), self.value(node.args["expression"], scope)

    def _compared(self, node: exp.Expr, scope: Scope) -> Value:
        left, right = compared(self._both(node, scope), f"`{written(node)}`")
        return Value(sql=f"({left.sql} {_COMPARISONS[type(node)]} {right.sql})", kind=Kind.BOOLEAN)

    def _different(self, node: exp.Expr, scope: Scope) -> Value:
        left, right = compared(self._both(node, scope), f"`{written(node)}`")
        return Value(sql=f"(NOT ({left.sql} <=> {right.sql}))", kind=Kind.BOOLEAN)

    def _arithmetic(self, node: exp.Expr, scope: Scope) -> Value:
        left, right = self._both(node, scope)
        sign = _ARITHMETIC[type(node)]
        if {left.kind, right.kind} <= {*NUMBERS}:
            (left, right), kind = unified([left, right], written(node))
            return Value(sql=f"({left.sql} {sign} {right.sql})", kind=kind)
        if sign in "+-" and right.kind is Kind.INTERVAL and left.kind in casting.WITH_TIME:
            moved = left if left.kind is not Kind.DATE else cast(left, Kind.TIMESTAMP)
            return Value(sql=f"({moved.sql} {sign} {right.sql})", kind=moved.kind)
        if left.kind is Kind.DATE and right.kind is Kind.INTEGER and sign in "+-":
            days = right.sql if sign == "+" else f"-({right.sql})"
            return Value(sql=f"date_add({left.sql}, CAST({days} AS INT))", kind=Kind.DATE)
        if left.kind is Kind.DATE and right.kind is Kind.DATE and sign == "-":
            return Value(sql=f"CAST(datediff({left.sql}, {right.sql}) AS BIGINT)", kind=Kind.INTEGER)
        raise differs(f"`{written(node)}`", f"{left.kind.value} {sign} {right.kind.value} is not translated")

    def _divided(self, node: exp.Expr, scope: Scope) -> Value:
        """As IEEE 754 says, also by zero, where Spark has an error."""
        left, right = self._numbers(node, scope)
        above, below = cast(left, Kind.DOUBLE).sql, cast(right, Kind.DOUBLE).sql
        quotient = f"try_divide({above}, {below})"
        if right.number:
            return Value(sql=quotient, kind=Kind.DOUBLE)
        sql = (
            f"CASE WHEN {below} <> 0D THEN {quotient} WHEN {below} IS NULL OR {above} IS NULL THEN NULL "
            f"WHEN {above} = 0D OR isnan({above}) THEN double('NaN') "
            f"WHEN (CAST({below} AS STRING) = '-0.0') = ({above} < 0D) THEN double('Infinity') "
            "ELSE double('-Infinity') END"
        )
        return Value(sql=sql, kind=Kind.DOUBLE)

    def _divided_whole(self, node: exp.Expr, scope: Scope) -> Value:
        left, right = self._numbers(node, scope)
        if (left.kind, right.kind) != (Kind.INTEGER, Kind.INTEGER):
            raise differs(f"`{written(node)}`", "only integers are divided by // alike")
        return Value(sql=f"({left.sql} DIV {right.sql})", kind=Kind.INTEGER)

    def _remainder(self, node: exp.Expr, scope: Scope) -> Value:
        left, right = self._numbers(node, scope)
        if (left.kind, right.kind) != (Kind.INTEGER, Kind.INTEGER):
            raise differs(f"`{written(node)}`", "only integers have the same remainders")
        return Value(sql=f"({left.sql} % {right.sql})", kind=Kind.INTEGER)

    def _numbers(self, node: exp.Expr, scope: Scope) -> tuple[Value, Value]:
        left, right = self._both(node, scope)
        if not {left.kind, right.kind} <= set(NUMBERS):
            raise differs(
                f"`{written(node)}`", f"{left.kind.value} and {right.kind.value} are not translated"
            )
        return left, right

    def _negated(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this")
        value = self.value(node.this, scope)
        if value.kind not in NUMBERS:
            raise differs(f"`{written(node)}`", f"the value is {value.kind.value}")
        number = -value.number if value.number is not None else None
        return Value(sql=f"(-{value.sql})", kind=value.kind, number=number)

    def _in_brackets(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this")
        return self.value(node.this, scope)

    def _connected(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expression")
        # A chain of a thousand conditions is as deep as it is long.
        operator = "AND" if isinstance(node, exp.And) else "OR"
        parts = [self.condition(each, scope) for each in _chain(node)]
        return Value(sql=f"({f' {operator} '.join(parts)})", kind=Kind.BOOLEAN)

    def _not(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this")
        return Value(sql=f"(NOT {self.condition(node.this, scope)})", kind=Kind.BOOLEAN)

    def _is(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expression")
        wanted = node.args["expression"]
        if isinstance(wanted, exp.Null):
            return Value(sql=f"({self.value(node.this, scope).sql} IS NULL)", kind=Kind.BOOLEAN)
        if isinstance(wanted, exp.Boolean):
            truth = "TRUE" if wanted.this else "FALSE"
            return Value(sql=f"({self.condition(node.this, scope)} IS {truth})", kind=Kind.BOOLEAN)
        raise differs(f"`{written(node)}`", "only IS NULL, IS TRUE and IS FALSE are translated")

    def _between(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "low", "high")
        values = [self.value(node.args[part], scope) for part in ("this", "low", "high")]
        value, low, high = compared(values, f"`{written(node)}`")
        return Value(sql=f"({value.sql} BETWEEN {low.sql} AND {high.sql})", kind=Kind.BOOLEAN)

    def _in(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expressions", "query")
        value = self.value(node.this, scope)
        query = node.args.get("query")
        if query is not None:
            text, kinds = self._query(query.unnest(), scope)
            if kinds != [value.kind] or value.kind not in ORDERED or value.kind is Kind.DOUBLE:
                raise differs(f"`{written(node)}`", "the engines compare such values differently; use CAST")
            return Value(sql=f"({value.sql} IN ({text}))", kind=Kind.BOOLEAN)
        values = [value, *(self.value(each, scope) for each in node.expressions)]
        value, *listed = compared(values, f"`{written(node)}`")
        return Value(sql=f"({value.sql} IN ({', '.join(each.sql for each in listed)}))", kind=Kind.BOOLEAN)

    def _exists(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this")
        text, _ = self._query(node.this.unnest(), scope)
        return Value(sql=f"EXISTS ({text})", kind=Kind.BOOLEAN)

    def _scalar(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "alias")
        text, kinds = self._query(node.this, scope)
        if len(kinds) != 1:
            raise differs(f"`{written(node)}`", "it has several columns")
        return Value(sql=f"({text})", kind=kinds[0])

    def _like(self, node: exp.Expr, scope: Scope, escape: str | None = None) -> Value:
        only(node, "this", "expression", "negate")
        value, pattern = self.value(node.this, scope), self.value(node.args["expression"], scope)
        if value.kind not in (Kind.TEXT, Kind.NULL) or pattern.text is None:
            raise differs(f"`{written(node)}`", "only texts are compared, with patterns that are literals")
        text = value.sql
        if isinstance(node, exp.ILike):
            if not pattern.text.isascii():
                raise differs(f"`{written(node)}`", "the engines differ in the case of letters beyond ASCII")
            text = same_case(value)
        # DuckDB has no escape unless one is given; Spark has the backslash.
        escape = escape or next((each for each in _ESCAPES if each not in pattern.text), None)
        if escape is None:
            raise differs(f"`{written(node)}`", "its pattern has no letter left to escape with")
        word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
        matched = f"({text} {word} {pattern.sql} ESCAPE {text_literal(escape)})"
        return Value(sql=f"(NOT {matched})" if node.args.get("negate") else matched, kind=Kind.BOOLEAN)

    def _escaped(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expression")
        escape = self.value(node.args["expression"], scope).text
        if escape is None or len(escape) != 1 or not isinstance(node.this, (exp.Like, exp.ILike)):
            raise differs(f"`{written(node)}`", "its escape is no single letter")
        return self._like(node.this, scope, escape)

    def _case(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "ifs", "default")
        subject = node.args.get("this")
        branches, conditions = [], []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.condition(branch.this, scope))
            else:
                conditions.append(
                    self._compared(exp.EQ(this=subject.copy(), expression=branch.this.copy()), scope).sql
                )
            branches.append(self.value(branch.args["true"], scope))
        default = node.args.get("default")
        if default is not None:
            branches.append(self.value(default, scope))
        values, kind = unified(branches, f"`{written(node)}`")
        cases = " ".join(
            f"WHEN {condition} THEN {value.sql}" for condition, value in zip(conditions, values, strict=False)
        )
        otherwise = f" ELSE {values[-1].sql}" if default is not None else ""
        return Value(sql=f"CASE {cases}{otherwise} END", kind=kind)

    def _if(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "true", "false")
        case = exp.Case(ifs=[exp.If(this=node.this.copy(), true=node.args["true"].copy())])
        if node.args.get("false") is not None:
            case.set("default", node.args["false"].copy())
        return self._case(case, scope)

    def _joined(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expression", "typed", "safe")
        values = [self.value(each, scope) for each in _chain(node)]
        kinds = {value.kind for value in values}
        if not kinds <= {Kind.TEXT, Kind.NULL}:
            raise differs(f"`{written(node)}`", "only texts are joined by ||; use CAST")
        if Kind.NULL in kinds:
            return Value(sql="NULL", kind=Kind.NULL)
        return Value(sql=joined(values, "concat({0})"), kind=Kind.TEXT)

    def _coalesced(self, node: exp.Expr, scope: Scope) -> Value:
        """Of the columns that USING names."""
        only(node, "this", "expressions")
        values = [self.value(each, scope) for each in (node.this, *node.expressions)]
        return FUNCTIONS["coalesce"]("coalesce", values)

    def _power(self, node: exp.Expr, scope: Scope) -> Value:
        left, right = self._numbers(node, scope)
        return Value(
            sql=f"power({cast(left, Kind.DOUBLE).sql}, {cast(right, Kind.DOUBLE).sql})", kind=Kind.DOUBLE
        )

    def _cast(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "to")
        return casting.converted(self.value(node.this, scope), node.args["to"], written(node))

    def _extract(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expression")
        return part_of_time(node.this.name.casefold(), self.value(node.args["expression"], scope))

    def _interval(self, node: exp.Expr, _: Scope) -> Value:
        only(node, "this", "unit")
        unit = node.args["unit"].name.casefold().removesuffix("s") if node.args.get("unit") else ""
        literal = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
        number = literal.name if isinstance(literal, exp.Literal) else ""
        if unit not in _UNITS or not number.isdigit():
            raise differs(f"`{written(node)}`", "only whole numbers of seconds to years are translated")
        return Value(sql=f"INTERVAL '{int(number)}' {unit.upper()}", kind=Kind.INTERVAL)

    def _literal(self, node: exp.Expr, _: Scope) -> Value:
        text = str(node.this)
        if node.args.get("is_string"):
            return Value(sql=text_literal(text), kind=Kind.TEXT, text=text)
        if text.isdigit():
            if int(text) > _LARGEST:
                raise differs(text, "Spark has no integers so large")
            return Value(sql=text, kind=Kind.INTEGER, number=int(text))
        plain = text.replace("_", "")
        if "e" in plain.lower():
            return Value(sql=f"{plain}D", kind=Kind.DOUBLE)
        if not plain.replace(".", "", 1).isdigit() or len(plain) > 39:
            raise differs(text[:60], "the number is not translated")
        whole, _dot, fraction = plain.partition(".")
        return Value(sql=f"{whole or '0'}.{fraction or '0'}", kind=Kind.DECIMAL)

    def _boolean(self, node: exp.Expr, _: Scope) -> Value:
        return Value(sql="TRUE" if node.this else "FALSE", kind=Kind.BOOLEAN)

    def _null(self, _node: exp.Expr, _: Scope) -> Value:
        return Value(sql="NULL", kind=Kind.NULL)

    def _column(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "table")
        source = str(node.args["table"].name) if node.args.get("table") else ""
        kind = scope.kind(source, node.name)
        if kind is None:
            raise differs(f"`{written(node)}`", "it is no column of a table of the statement")
        named = name(node.name)
        return Value(sql=f"{name(source)}.{named}" if source else named, kind=kind)

    def _current_date(self, _node: exp.Expr, _: Scope) -> Value:
        return Value(sql="current_date()", kind=Kind.DATE)

    def _current_timestamp(self, node: exp.Expr, _: Scope) -> Value:
        only(node)
        return Value(sql="current_timestamp()", kind=Kind.ZONED)

    def _call(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expressions")
        called = str(node.this)
        if called.casefold() in AGGREGATES:
            return self._aggregate(node, scope)
        translate = FUNCTIONS.get(called.casefold())
        if translate is None:
            raise differs(f"{called}()", "the function is not translated")
        return translate(called, [self.value(each, scope) for each in node.expressions])

    def _aggregate(self, node: exp.Expr, scope: Scope) -> Value:
        called, given = str(node.this), node.expressions
        if len(given) == 1 and isinstance(given[0], exp.Distinct):
            only(given[0], "expressions")
            values = [self.value(each, scope) for each in given[0].expressions]
            if len(values) != 1 or values[0].kind not in ORDERED:
                raise differs(f"`{written(node)}`", "only one column that can be compared is counted once")
            if values[0].kind is Kind.DOUBLE and called.casefold() not in ("count", "min", "max"):
                raise differs(f"`{written(node)}`", "sums of different floating-point numbers differ")
            plain = AGGREGATES[called.casefold()](called, values)
            opening = plain.sql.index("(") + 1
            return Value(sql=f"{plain.sql[:opening]}DISTINCT {plain.sql[opening:]}", kind=plain.kind)
        stars = [isinstance(each, exp.Star) for each in given]
        if any(stars):
            if stars != [True] or called.casefold() != "count":
                raise differs(f"`{written(node)}`", "it is not translated")
            return Value(sql="count(*)", kind=Kind.INTEGER)
        return AGGREGATES[called.casefold()](called, [self.value(each, scope) for each in given])

    def _filtered(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "expression")
        if not is_aggregate_call(node.this):
            raise differs(f"`{written(node)}`", "FILTER belongs to an aggregate")
        value = self._call(node.this, scope)
        condition = self.condition(node.args["expression"].this, scope)
        return Value(sql=f"{value.sql} FILTER (WHERE {condition})", kind=value.kind)

    def _window(self, node: exp.Expr, scope: Scope) -> Value:
        only(node, "this", "partition_by", "order", "spec", "over")
        call = node.this
        called = str(call.this).casefold() if isinstance(call, exp.Anonymous) else ""
        translate = WINDOW_FUNCTIONS.get(called)
        if translate is None:
            raise differs(f"`{written(node)}`", "this function is not translated over a window")
        given = call.expressions
        star = len(given) == 1 and isinstance(given[0], exp.Star) and called == "count"
        value = translate(called, [] if star else [self.value(each, scope) for each in given])
        parts = [self.value(each, scope).sql for each in node.args.get("partition_by") or ()]
        over = [f"PARTITION BY {', '.join(parts)}"] if parts else []
        order = node.args.get("order")
        if order is not None:
            only(order, "expressions")
            over.append("ORDER BY " + ", ".join(self.ordered(each, scope) for each in order.expressions))
        elif called not in AGGREGATES:
            raise differs(f"`{written(node)}`", "it needs an ORDER BY")
        spec = node.args.get("spec")
        if spec is not None:
            over.append(_frame(spec, written(node)))
        return Value(sql=f"{value.sql} OVER ({' '.join(over)})", kind=value.kind)


def _frame(spec: exp.Expr, text: str) -> str:
    only(spec, "kind", "start", "start_side", "end", "end_side")
    kind = str(spec.args.get("kind") or "").upper()
    bounds = []
    for bound, side in (("start", "start_side"), ("end", "end_side")):
        content = spec.args.get(bound) or "CURRENT ROW"
        direction = str(spec.args.get(side) or "")
        if isinstance(content, exp.Literal) and str(content.this).isdigit() and kind == "ROWS":
            bounds.append(f"{content.this} {direction}")
        elif isinstance(content, str) and content.upper() in _BOUNDS:
            bounds.append(f"{content.upper()} {direction}".strip())
        else:
            raise differs(f"`{text}`", "its frame is not translated")
    if kind not in ("ROWS", "RANGE"):
        raise differs(f"`{text}`", "its frame is not translated")
    return f"{kind} BETWEEN {bounds[0]} AND {bounds[1]}"


def is_aggregate_call(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).casefold() in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    """Of its own query: not over a window, nor in a query inside."""
    pending: list[exp.Expr] = [node]
    while pending:
        part = pending.pop()
        if is_aggregate_call(part):
            return True
        if isinstance(part, exp.Window):
            call = part.this
            pending.extend(each for each in part.iter_expressions() if each is not call)
            pending.extend(call.iter_expressions())
        elif not isinstance(part, exp.Query):
            pending.extend(part.iter_expressions())
    return False


def _chain(node: exp.Expr) -> Iterator[exp.Expr]:
    """What the same operator connects, in its order, if brackets make no difference: AND, OR and ||."""
    kind = type(node)
    pending = [node]
    while pending:
        part = pending.pop()
        if type(part) is kind:
            pending.extend((part.args["expression"], part.this))
        else:
            yield part


_NODES: Final[dict[type[exp.Expr], Callable[[Expressions, Any, Scope], Value]]] = {
    exp.And: Expressions._connected,
    exp.Anonymous: Expressions._call,
    exp.Between: Expressions._between,
    exp.Boolean: Expressions._boolean,
    exp.Case: Expressions._case,
    exp.Cast: Expressions._cast,
    exp.Coalesce: Expressions._coalesced,
    exp.Column: Expressions._column,
    exp.CurrentDate: Expressions._current_date,
    exp.CurrentTimestamp: Expressions._current_timestamp,
    exp.DPipe: Expressions._joined,
    exp.Div: Expressions._divided,
    exp.Escape: Expressions._escaped,
    exp.Exists: Expressions._exists,
    exp.Extract: Expressions._extract,
    exp.Filter: Expressions._filtered,
    exp.ILike: Expressions._like,
    exp.If: Expressions._if,
    exp.In: Expressions._in,
    exp.IntDiv: Expressions._divided_whole,
    exp.Interval: Expressions._interval,
    exp.Is: Expressions._is,
    exp.Like: Expressions._like,
    exp.Literal: Expressions._literal,
    exp.Mod: Expressions._remainder,
    exp.Neg: Expressions._negated,
    exp.Not: Expressions._not,
    exp.Null: Expressions._null,
    exp.NullSafeNEQ: Expressions._different,
    exp.Or: Expressions._connected,
    exp.Paren: Expressions._in_brackets,
    exp.Pow: Expressions._power,
    exp.Subquery: Expressions._scalar,
    exp.Window: Expressions._window,
}
