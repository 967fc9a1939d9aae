"""Expressions over a table as expressions over a rollup of it.

What has the same value for all rows of a group is computed from the group: dimensions, functions of a time
that do not change within a bucket, comparisons with moments at which a bucket begins. Aggregates are made
from the partial ones; those that do not mind how often a value occurs (min, max, count(DISTINCT …)) are taken
over dimensions. Everything else is not answerable. Expects columns as `columns.py` resolves them.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.lake.rollups.definition import DAY_US, ROWS, Bucket, Kind, RollupDefinition
from headrace.lake.types import Decimal
from headrace.query.rollups.columns import TABLE_COLUMN, NotAnswerableError
from headrace.query.rollups.granules import (
    PARTS,
    TRUNCATED,
    Granule,
    begins_bucket,
    formatted,
    is_constant_in,
)
from headrace.query.rollups.trees import (
    NOW_NAMES,
    Tree,
    Trees,
    arguments,
    cast_type,
    is_all_columns,
    is_function,
    is_null,
    is_zero,
    parts,
    text_constant,
)

# Columns of the rollup have names that no statement has.
PREFIX: Final = "@rollup "

_TIMES: Final = frozenset({"timestamp", "timestamptz", "timestamp with time zone", "datetime"})
_WHOLE: Final = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
_MOMENTS: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "NULL", '"NULL"'})
_CLASSES: Final = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"}
    | {"OPERATOR", "PARAMETER", "TYPE", "WINDOW"}
)
_CONSTANT_CLASSES: Final = frozenset(
    {"CASE", "CAST", "CONSTANT", "FUNCTION", "OPERATOR", "PARAMETER", "TYPE"}
)
# Over dimensions they give what they give over the rows.
_OF_VALUES: Final = frozenset({"approx_count_distinct", "bool_and", "bool_or"})
_INTERVAL: Final = ", ".join(
    f"CAST({part.replace('v', 'CAST(v AS INTERVAL)')} AS BIGINT)"
    for part in (
        "date_part('year', v) * 12 + date_part('month', v)",
        "date_part('day', v)",
        "date_part('hour', v) * 3600000000 + date_part('minute', v) * 60000000 + date_part('us', v)",
    )
)
_FLIPPED: Final = {
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
}
# Whether the first moment that is not on the same side is the bound itself, or the next one.
_AT_BOUND: Final = frozenset({"COMPARE_GREATERTHANOREQUALTO", "COMPARE_LESSTHAN"})


class Expressions:
    """Of one query over one rollup, which the view `source` reads."""

    def __init__(
        self, trees: Trees, definition: RollupDefinition, source: Tree, *, is_close: bool = False
    ) -> None:
        self._trees = trees
        self._definition = definition
        self._source = source
        self._is_close = is_close
        # Whether an aggregate was found.
        self.aggregates = 0
        # Groups carry the partition that their rows come from.
        kept = zip(definition.partition_columns, definition.partition_stored, strict=True)
        self._dimensions = {column: stored.name for column, stored in kept}
        self._dimensions |= {
            each.column: stored.name
            for each, stored in zip(definition.dimensions, definition.dimension_columns, strict=True)
            if each.bucket is None
        }
        self._time, self._bucket, self._beginning = "", Bucket(width_us=DAY_US), ""
        for each, stored in zip(definition.dimensions, definition.dimension_columns, strict=True):
            if each.bucket is not None and each.column not in self._dimensions:
                self._time, self._bucket, self._beginning = each.column, each.bucket, stored.name

    def over_rollup(self, tree: Any) -> Any:  # noqa: PLR0911 - one for each kind
        """Raises NotAnswerableError."""
        if isinstance(tree, list):
            return [self.over_rollup(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        kind = tree.get("class")
        if is_all_columns(tree.get("expression")):
            return tree
        if kind is None:
            return {key: self.over_rollup(each) for key, each in tree.items()}
        if kind == TABLE_COLUMN:
            return self._dimension(tree)
        if kind not in _CLASSES:
            raise NotAnswerableError(f"it has an expression of the kind {kind}")
        if kind == "FUNCTION":
            name = str(tree["function_name"]).lower()
            if name in self._trees.aggregates:
                return self._named(self._aggregate(name, tree), tree)
            if name not in self._trees.scalars:
                raise NotAnswerableError(f"the function {name} is not the same for all rows of a group")
        made = self._of_time(tree)
        if made is not None:
            return made
        return {key: self.over_rollup(each) for key, each in tree.items()}

    # Dimensions and times.

    def _dimension(self, tree: Tree) -> Tree:
        name = self._dimensions.get(tree["name"])
        if name is None:
            raise NotAnswerableError(f"{tree['name']} is no dimension of rollup {self._definition.name}")
        return self._named(self._column(name), tree)

    def _of_time(self, tree: Tree) -> Tree | None:  # noqa: PLR0911 - one for each kind
        """A function of the time that is the same for all times of a bucket; None if it is something else."""
        if not self._time:
            return None
        kind = tree["class"]
        if kind == "COMPARISON":
            left, right = tree["left"], tree["right"]
            if self._is_time(left) and self._has_bound(tree["type"], right):
                return {**tree, "left": self._begun(left)}
            if self._is_time(right) and self._has_bound(_FLIPPED.get(tree["type"], ""), left):
                return {**tree, "right": self._begun(right)}
        elif kind == "BETWEEN" and self._is_time(tree["input"]):
            if self._has_bound("COMPARE_GREATERTHANOREQUALTO", tree["lower"]) and self._has_bound(
                "COMPARE_LESSTHANOREQUALTO", tree["upper"]
            ):
                return {**tree, "input": self._begun(tree["input"])}
        elif kind == "OPERATOR" and tree["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            if self._is_time(tree["children"][0]):
                return {**tree, "children": [self._begun(tree["children"][0])]}
        elif cast_type(tree) == "date" and self._is_time(tree["child"]):
            if is_constant_in(self._bucket, TRUNCATED["day"]):
                return {**tree, "child": self._begun(tree["child"])}
        elif kind == "FUNCTION":
            return self._function_of_time(tree)
        return None

    def _function_of_time(self, tree: Tree) -> Tree | None:
        given = arguments(tree)
        places = [number for number, each in enumerate(given) if self._is_time(each)]
        if len(places) != 1:
            return None
        granule = self._granule(tree, given, places[0])
        if granule is None or not is_constant_in(self._bucket, granule):
            return None
        made = [dict(each) for each in tree["arguments"]]
        made[places[0]]["expression"] = self._begun(given[places[0]])
        return {**tree, "arguments": made}

    def _granule(self, tree: Tree, given: list[Tree], place: int) -> Granule | None:
        name = str(tree["function_name"]).lower()
        if name in PARTS and len(given) == 1:
            return PARTS[name]
        constant = text_constant(given[0]) if given else None
        if is_function(tree, "date_trunc", "datetrunc") and len(given) == 2 and place == 1 and constant:
            return TRUNCATED.get(constant.lower())
        if is_function(tree, "date_part", "datepart") and len(given) == 2 and place == 1 and constant:
            return PARTS.get(constant.lower())
        if is_function(tree, "strftime") and len(given) == 2 and place == 0:
            pattern = text_constant(given[1])
            return None if pattern is None else formatted(pattern)
        if is_function(tree, "time_bucket") and place == 1 and len(given) in (2, 3):
            return self._bucket_of(given[0], given[2] if len(given) == 3 else None)
        return None

    def _bucket_of(self, width: Tree, origin: Tree | None) -> Granule | None:
        """Of `time_bucket`, whose buckets begin at the midnight of a Monday, or of the first of a year."""
        if not self._is_constant(width):
            return None
        months, days, micros = self._trees.computed(width, _INTERVAL)
        if origin is not None:
            at = self._moment(origin)
            if self._bucket.unit or at is None or not begins_bucket(self._bucket, at):
                return None
        if not isinstance(months, int) or not isinstance(days, int) or not isinstance(micros, int):
            return None
        if months:
            # Whatever day they begin at, they consist of whole days, or of what the origin begins.
            is_plain = months > 0 and not days and not micros
            return Granule(unit="month") if is_plain and (origin is None or not self._bucket.unit) else None
        total = days * DAY_US + micros
        return Granule(width_us=total) if total > 0 and not self._bucket.unit else None

    def _is_time(self, tree: Tree) -> bool:
        """Whether it is the time of the bucket, perhaps with or without a zone: all zones are UTC here."""
        if tree.get("class") == TABLE_COLUMN:
            return bool(self._time) and tree["name"] == self._time
        if cast_type(tree) in _TIMES:
            return self._is_time(tree["child"])
        if is_function(tree, "timezone"):
            given = arguments(tree)
            return len(given) == 2 and text_constant(given[0]) == "UTC" and self._is_time(given[1])
        return False

    def _begun(self, tree: Tree) -> Tree:
        """The same for the beginning of the bucket."""
        if tree.get("class") == TABLE_COLUMN:
            return self._column(self._beginning)
        if tree["class"] == "CAST":
            return {**tree, "child": self._begun(tree["child"])}
        zone, inner = tree["arguments"]
        return {**tree, "arguments": [zone, {**inner, "expression": self._begun(inner["expression"])}]}

    def _has_bound(self, comparison: str, bound: Tree) -> bool:
        """Whether all times of a bucket are on the same side of it."""
        if comparison not in _FLIPPED or not self._is_constant(bound):
            return False
        at = self._moment(bound)
        if at is None:
            return False
        return begins_bucket(self._bucket, at if comparison in _AT_BOUND else at + 1)

    def _moment(self, constant: Tree) -> int | None:
        """In microseconds since 1970; None if it is none, or finer than that."""
        if not self._is_constant(constant):
            return None
        wanted = "typeof(v), epoch_us(TRY_CAST(v AS TIMESTAMPTZ)), epoch_us(TRY_CAST(v AS TIMESTAMP))"
        kind, micros, local = self._trees.computed(constant, wanted)
        return micros if isinstance(micros, int) and kind in _MOMENTS and micros == local else None

    def _is_constant(self, tree: Tree) -> bool:
        for part in parts(tree):
            kind = part.get("class")
            if kind == "COLUMN_REF" and part["column_names"][-1].lower() in NOW_NAMES:
                continue
            if kind is not None and kind not in _CONSTANT_CLASSES:
                return False
            if kind == "FUNCTION" and str(part["function_name"]).lower() not in self._trees.scalars:
                return False
        return True

    # Aggregates.

    def _aggregate(self, name: str, tree: Tree) -> Tree:  # noqa: PLR0911 - one for each function
        self.aggregates += 1
        if tree["order_bys"]["orders"] or tree.get("export_state"):
            raise NotAnswerableError(f"{name} depends on an order")
        given = arguments(tree)
        kept = tree["filter"]
        if kept is not None:
            kept = self.over_rollup(kept)
        if name == "count_star" or (name == "count" and not tree["distinct"] and _is_never_null(given)):
            return self._count(self._column(ROWS), kept)
        if len(given) != 1:
            raise NotAnswerableError(f"{name} has {len(given)} arguments")
        (argument,) = given
        match name:
            case "count" if tree["distinct"]:
                return self._of_values(tree, argument, kept)
            case "count":
                return self._count(self._counted(argument), kept)
            case "min" | "max":
                measure = self._measured(name, argument)
                if measure is None:
                    return self._of_values(tree, argument, kept)
                return self._filtered(f"{name}(_0)", measure, kept)
            case "sum" if not tree["distinct"]:
                return self._sum(argument, kept)
            case "avg" | "mean" if not tree["distinct"]:
                return self._average(argument, kept)
            case _ if name in _OF_VALUES and not tree["distinct"]:
                return self._of_values(tree, argument, kept)
        raise NotAnswerableError(f"{name} cannot be made from parts")

    def _count(self, number: Tree, kept: Tree | None) -> Tree:
        return self._filtered("coalesce(CAST(sum(_0) {filter} AS BIGINT), 0)", number, kept)

    def _counted(self, argument: Tree) -> Tree:
        """How many values a group has."""
        measure = self._measured("count", argument)
        if measure is not None:
            return measure
        over = self._begun(argument) if self._is_time(argument) else self.over_rollup(argument)
        return self._trees.made("CASE WHEN _0 IS NULL THEN 0 ELSE _1 END", over, self._column(ROWS))

    def _sum(self, argument: Tree, kept: Tree | None) -> Tree:
        measure = self._measured("sum", argument)
        if measure is not None:
            column = self._columns_in(argument)[0]
            if isinstance(self._definition.type_of(column), Decimal):
                return self._filtered("sum(_0)", measure, kept)
            return self._filtered("CAST(sum(_0) {filter} AS HUGEINT)", measure, kept)
        over = self.over_rollup(argument)
        if self._trees.type_of(over, self._source) not in _WHOLE:
            raise NotAnswerableError("sums of dimensions are made of whole numbers only")
        return self._filtered("sum(CAST(_0 AS HUGEINT) * _1)", over, kept, self._column(ROWS))

    def _average(self, argument: Tree, kept: Tree | None) -> Tree:
        """DuckDB computes averages with 64 digits of mantissa or 53, as its plan is, so only close ones."""
        if not self._is_close:
            raise NotAnswerableError("the last digit of an average could be another")
        if argument.get("class") != TABLE_COLUMN:
            raise NotAnswerableError("averages are made of columns only")
        total, number = self._measured("sum", argument), self._measured("count", argument)
        if total is None or number is None:
            raise NotAnswerableError(f"rollup {self._definition.name} has no average of {argument['name']}")
        whole = not isinstance(self._definition.type_of(argument["name"]), Decimal)
        summed = "CAST(sum(_0) {filter} AS HUGEINT)" if whole else "sum(_0) {filter}"
        return self._filtered(
            f"CAST({summed} AS DOUBLE) / CAST(sum(_1) {{filter}} AS DOUBLE)", total, kept, number
        )

    def _of_values(self, tree: Tree, argument: Tree, kept: Tree | None) -> Tree:
        over = self.over_rollup(argument)
        made = [{**tree["arguments"][0], "expression": over}]
        return {**tree, "arguments": made, "filter": kept}

    def _measured(self, kind: Kind | str, argument: Tree) -> Tree | None:
        """What the rollup keeps of a column, perhaps under conditions on dimensions; None if nothing."""
        if argument.get("class") == TABLE_COLUMN:
            name = self._definition.measure(_kind(kind), argument["name"])
            return None if name is None else self._column(name)
        if argument.get("class") != "CASE" or len(set(self._columns_in(argument))) != 1:
            return None
        checks = []
        for check in argument["case_checks"]:
            result = self._result(kind, check["then_expr"])
            if result is None:
                return None
            checks.append({**check, "when_expr": self.over_rollup(check["when_expr"]), "then_expr": result})
        otherwise = argument["else_expr"]
        if otherwise is not None and (otherwise := self._result(kind, otherwise)) is None:
            return None
        return {**argument, "case_checks": checks, "else_expr": otherwise}

    def _result(self, kind: Kind | str, tree: Tree) -> Tree | None:
        if tree.get("class") == TABLE_COLUMN:
            return self._measured(kind, tree)
        return tree if is_null(tree) or (kind == "sum" and is_zero(tree)) else None

    def _columns_in(self, argument: Tree) -> list[str]:
        """The column of a measure, or those that a CASE has for results."""
        if argument.get("class") == TABLE_COLUMN:
            return [argument["name"]]
        found = [check["then_expr"] for check in argument["case_checks"]]
        if argument["else_expr"] is not None:
            found.append(argument["else_expr"])
        return [each["name"] for each in found if each.get("class") == TABLE_COLUMN]

    def _filtered(self, template: str, first: Tree, kept: Tree | None, second: Tree | None = None) -> Tree:
        given = [first, second if second is not None else first]
        if "{filter}" not in template:
            template += " {filter}"
        if kept is None:
            return self._trees.made(template.format(filter=""), *given)
        return self._trees.made(template.format(filter="FILTER (WHERE _2)"), *given, kept)

    def _column(self, name: str) -> Tree:
        return self._trees.made(f'"{PREFIX}{name}"')

    @staticmethod
    def _named(made: Tree, tree: Tree) -> Tree:
        return {**made, "alias": tree.get("alias", "")}


def _is_never_null(given: list[Tree]) -> bool:
    if not given:
        return True
    return len(given) == 1 and given[0].get("class") == "CONSTANT" and not is_null(given[0])


def _kind(name: str) -> Kind:
    assert name in ("count", "sum", "min", "max")
    return name  # type: ignore[return-value]
