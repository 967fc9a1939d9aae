"""Questions rewritten to read a rollup instead of its table, query node by query node.

A node is rewritten if a single table stands behind its FROM, it groups or counts rows, and everything in it
can be said of the groups of a rollup (`expressions.py`). Other nodes of the statement, and other tables, stay
as they are: they see the same version. Two things are checked with DuckDB and not left to reasoning: that a
node has columns of the same types as before, and their names, which become aliases. Belongs to one
connection; never runs a question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from headrace.query.rollups.columns import NotAnswerableError, resolved, table_named, visible
from headrace.query.rollups.expressions import PREFIX, Expressions
from headrace.query.rollups.offers import RollupOffer
from headrace.query.rollups.trees import NOW_NAMES, Tree, Trees, is_column, parts

# The parts of a node that have expressions, in the order in which they are looked at.
_EXPRESSIONS: Final = ("select_list", "where_clause", "group_expressions", "having", "qualify", "modifiers")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A statement that reads rollups. `used` has those of each table, by its case-folded name."""

    sql: str
    used: Mapping[str, tuple[RollupOffer, ...]]


class Rewriting:
    """`columns` are those of each table that has offers, by case-folded names, like `offers` themselves.

    `view_of` gives the name of a relation, quoted, with the groups of a rollup and all later rows.
    """

    def __init__(
        self,
        trees: Trees,
        *,
        columns: Mapping[str, Sequence[str]],
        offers: Mapping[str, Sequence[RollupOffer]],
        view_of: Callable[[str, RollupOffer], str],
        is_close: bool = False,
    ) -> None:
        self._trees = trees
        self._columns = columns
        self._offers = offers
        self._view_of = view_of
        self._is_close = is_close
        self._used: dict[str, dict[str, RollupOffer]] = {}

    def rewritten(self, statements: Tree) -> Rewritten | None:
        """None if no rollup answers any of it."""
        if any(PREFIX in str(part.get("alias", "")) for part in parts(statements)):
            return None
        defined = {
            str(entry["key"]).casefold()
            for part in parts(statements)
            if isinstance(part.get("cte_map"), dict)
            for entry in part["cte_map"]["map"]
        }
        if defined & self._offers.keys():
            # Which of the two a name means depends on where it stands.
            return None
        made = self._walked(statements)
        if not self._used or not self._is_named_alike(statements, made):
            return None
        used = {table: tuple(offers.values()) for table, offers in self._used.items()}
        return Rewritten(sql=self._trees.text(made), used=used)

    def _is_named_alike(self, before: Tree, made: Tree) -> bool:
        """Whether the answer has the same columns; gives them their names if need be.

        A query in brackets without a name of its own is called by its text.
        """
        old, new = before["statements"][0]["node"], made["statements"][0]["node"]
        if new.get("type") == "SELECT_NODE" and new["from_table"] != old["from_table"]:
            return True
        try:
            named, renamed = self._trees.bound(old), self._trees.bound(new)
        except duckdb.Error:
            return False
        if named == renamed:
            return True
        if named[1] != renamed[1] or new.get("type") != "SELECT_NODE":
            return False
        items = new["select_list"]
        if len(items) != len(named[0]):
            return False
        new["select_list"] = [{**item, "alias": name} for item, name in zip(items, named[0], strict=True)]
        return True

    def _walked(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self._walked(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        if tree.get("type") == "SELECT_NODE" and "select_list" in tree:
            made = self._node(tree)
            if made is not None:
                return {**made, "cte_map": self._walked(tree["cte_map"])}
        return {key: self._walked(each) for key, each in tree.items()}

    def _node(self, node: Tree) -> Tree | None:
        table = table_named(node["from_table"])
        for offer in self._offers.get(table, ()):
            try:
                made = self._over(node, table, offer)
            except NotAnswerableError as error:
                _log.debug("rollup %s does not answer: %s", offer.definition.name, error)
                continue
            except duckdb.Error as error:
                # The plain way says what is wrong, if something is.
                _log.debug("rollup %s does not answer: %s", offer.definition.name, error)
                continue
            self._used.setdefault(table, {})[offer.definition.id] = offer
            return made
        return None

    def _over(self, node: Tree, table: str, offer: RollupOffer) -> Tree:
        if node.get("sample"):
            raise NotAnswerableError("it is a sample")
        if node.get("having") and node["aggregate_handling"] != "STANDARD_HANDLING":
            # DuckDB groups by the columns that HAVING names, too: by all times, or by all buckets.
            raise NotAnswerableError("it groups by ALL, and has a HAVING")
        scope = visible(node["from_table"], self._columns[table])
        aliases = {str(item.get("alias") or "").casefold() for item in node["select_list"]} - {""}
        for item in node["select_list"]:
            alias = str(item.get("alias") or "").casefold()
            is_itself = is_column(item) and str(item["column_names"][-1]).casefold() == alias
            if alias in NOW_NAMES or (alias in scope.names and not is_itself):
                raise NotAnswerableError(f"{alias} names a column and something else")
        view = self._view_of(table, offer)
        source = self._trees.source(view)
        expressions = Expressions(self._trees, offer.definition, source, is_close=self._is_close)
        made = dict(node)
        for key in _EXPRESSIONS:
            made[key] = expressions.over_rollup(resolved(node[key], scope, aliases))
        if not self._is_grouped(node, expressions):
            raise NotAnswerableError("it does not group rows")
        made["from_table"] = source
        names, types = self._trees.bound(node)
        if len(names) != len(made["select_list"]):
            raise NotAnswerableError("its columns cannot be told apart")
        made["select_list"] = [
            {**item, "alias": name} for item, name in zip(made["select_list"], names, strict=True)
        ]
        if self._trees.bound(made)[1] != types:
            raise NotAnswerableError("its columns would have other types")
        return made

    @staticmethod
    def _is_grouped(node: Tree, expressions: Expressions) -> bool:
        if expressions.aggregates or node["group_expressions"] or node["group_sets"]:
            return True
        if node["aggregate_handling"] != "STANDARD_HANDLING":
            return True
        is_distinct = any(each["type"] == "DISTINCT_MODIFIER" for each in node["modifiers"])
        return is_distinct and not any(part.get("class") == "WINDOW" for part in parts(node))
