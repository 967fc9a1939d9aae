"""What a function of Druid SQL is to the translation: a row with its name, its arguments and its DuckDB SQL.

The rows are in `functions/`, one file per family. A row's SQL is a template, or a rule that builds it from
the call. docs/druid-sql.md is generated from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from headrace.query.druid.dialect import Sql, sql
from headrace.query.druid.errors import DruidSqlError, Place
from headrace.query.druid.kinds import Kind
from headrace.query.druid.zones import UTC_ZONE, Zone, zone_of

# What needs no parentheses inside another expression.
_ATOMS: Final = (
    Sql, exp.Column, exp.Literal, exp.Paren, exp.Boolean, exp.Null, exp.Star, exp.Subquery, exp.Array,
    exp.Cast,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a request says about how its statement is meant. `exact_distinct`: COUNT(DISTINCT) counts."""

    zone: Zone = UTC_ZONE
    exact_distinct: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A translated argument. `original` is the literal that it was, if it was one."""

    tree: exp.Expr
    kind: Kind
    original: exp.Literal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call in a statement. `time` gives the `__time` that belongs to an argument."""

    name: str
    arguments: Sequence[Argument]
    context: Context
    place: Place | None
    time: Callable[[exp.Expr], exp.Expr | None]
    distinct: bool = False

    def __len__(self) -> int:
        return len(self.arguments)

    def kind(self, index: int) -> Kind:
        return self.arguments[index].kind

    def tree(self, index: int) -> exp.Expr:
        return self.arguments[index].tree

    def literal(self, index: int, what: str) -> str:
        """The text of a literal. Raises DruidSqlError if the argument is none."""
        original = self.arguments[index].original
        if original is None or not original.is_string:
            raise self.error(f"{what} of {self.name} must be a literal in single quotes")
        return str(original.this)

    def optional_literal(self, index: int, what: str) -> str | None:
        """None if the argument is missing or NULL."""
        if index >= len(self) or isinstance(self.tree(index), exp.Null):
            return None
        return self.literal(index, what)

    def number(self, index: int, what: str) -> int:
        original = self.arguments[index].original
        if original is None or original.is_string or not str(original.this).isdigit():
            raise self.error(f"{what} of {self.name} must be a literal number")
        return int(original.this)

    def zone(self, index: int) -> Zone:
        """The zone that an argument names, or the one of the context."""
        name = self.optional_literal(index, "The time zone")
        if name is None:
            return self.context.zone
        try:
            return zone_of(name)
        except DruidSqlError as error:
            raise self.error(error.message) from error

    def build(self, template: str, *indexes: int) -> Sql:
        """The template over all arguments, or over those at `indexes`."""
        chosen = indexes or range(len(self))
        return built(template, *(self.tree(index) for index in chosen))

    def error(self, message: str, *, unsupported: bool = False) -> DruidSqlError:
        return DruidSqlError(message, place=self.place, unsupported=unsupported)


def built(template: str, *trees: exp.Expr) -> Sql:
    return sql(template, *(tree if isinstance(tree, _ATOMS) else exp.Paren(this=tree) for tree in trees))


Rule = Callable[[Call], exp.Expr]
# A kind, the index of the argument whose kind it is, or a rule.
Result = Kind | int | Callable[[Call], Kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """`syntax` as in Druid's documentation; `note` says how it differs from Druid's, if it does."""

    name: str
    syntax: str
    least: int
    most: int
    meaning: str | Mapping[int, str] | Rule
    result: Result
    aggregate: bool = False
    window: bool = False
    takes_distinct: bool = False
    note: str = ""

    def translated(self, call: Call) -> tuple[exp.Expr, Kind]:
        self._check(call)
        meaning = self.meaning if not isinstance(self.meaning, Mapping) else self.meaning[len(call)]
        tree = call.build(meaning) if isinstance(meaning, str) else meaning(call)
        if isinstance(self.result, Kind):
            return tree, self.result
        return tree, call.kind(self.result) if isinstance(self.result, int) else self.result(call)

    def _check(self, call: Call) -> None:
        if not self.least <= len(call) <= self.most:
            wanted = (
                f"{self.least}" if self.least == self.most
                else f"at least {self.least}" if self.most >= MANY
                else f"{self.least} to {self.most}"
            )  # fmt: skip
            arguments = "argument" if wanted == "1" else "arguments"
            raise call.error(f"{self.name} takes {wanted} {arguments}, not {len(call)}: {self.syntax}")
        if call.distinct and not self.takes_distinct:
            raise call.error(f"{self.name} does not take DISTINCT")


MANY: Final = 1_000


@dataclass(slots=True, kw_only=True)
class Family:
    """A group of functions under a heading, filled by its file."""

    title: str
    functions: list[Function] = field(default_factory=list)

    def add(
        self,
        syntax: str,
        meaning: str | Mapping[int, str] | Rule,
        result: Result,
        *aliases: str,
        **details: Any,
    ) -> None:
        """One row. The numbers of arguments follow from the syntax: `NAME(a, b[, c])`, `NAME(a[, ...])`."""
        name, _, inside = syntax.rstrip(")").partition("(")
        required, _, optional = inside.partition("[")
        least = len([part for part in required.split(",") if part.strip()])
        more = len([part for part in optional.replace("[", "").split(",") if part.strip(" ]")])
        most = MANY if "..." in optional else least + more
        for each in (name, *aliases):
            self.functions.append(
                Function(
                    name=each,
                    syntax=syntax.replace(name, each, 1),
                    least=least,
                    most=most,
                    meaning=meaning,
                    result=result,
                    **details,
                )
            )
