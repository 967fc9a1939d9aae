"""The columns that a query node sees, as expressions over the columns of one table.

The table stands behind FROM, or a query there that only names its columns again (as Druid's translation
does). Everything else is not answerable here. After `resolved`, a column of the table is an object of the
class `TABLE_COLUMN`, which no statement has; what is left of `COLUMN_REF` names an item of the select list,
or one of the words for the present moment. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.query.rollups.trees import NOW_NAMES, Tree, is_all_columns, is_column, is_function, parts

TABLE_COLUMN: Final = "TABLE_COLUMN"
# What gives each row a column of the table again.
_NAMING: Final = ("COLUMN_REF", "CAST", "CONSTANT", "TYPE")
# That of tables; in others are topics, tables of statements and the catalogue.
_OWN_SCHEMA: Final = "main"
_NOTHING: Final = (None, "", False)


class NotAnswerableError(Exception):
    """Why no rollup answers it, for whoever looks for the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """`names` are case-folded; `qualifiers` may stand before them."""

    table: str
    names: Mapping[str, Tree]
    qualifiers: frozenset[str]


def table_named(source: Any) -> str:
    """The case-folded name of the table that stands behind FROM, perhaps in brackets; empty if none does.

    In another schema, a name means something else: a topic, a table of statements or of the catalogue.
    """
    if not isinstance(source, dict):
        return ""
    if source.get("type") == "BASE_TABLE":
        *qualifiers, name = source["qualified_name"]["path"]
        return str(name).casefold() if not qualifiers or qualifiers == [_OWN_SCHEMA] else ""
    inner = _projection(source)
    return table_named(inner["from_table"]) if inner is not None else ""


def visible(source: Tree, columns: Collection[str]) -> Visible:
    """Of a table with these columns. Raises NotAnswerableError."""
    if source.get("sample") or source.get("at_clause") or source.get("column_name_alias"):
        raise NotAnswerableError("the table is sampled, or its columns are named anew")
    if source["type"] == "BASE_TABLE":
        name = str(source["qualified_name"]["path"][-1])
        return Visible(
            table=name.casefold(),
            names={each.casefold(): {"class": TABLE_COLUMN, "name": each} for each in columns},
            qualifiers=frozenset({str(source.get("alias") or name).casefold()}),
        )
    inner = _projection(source)
    if inner is None:
        raise NotAnswerableError("FROM has more than a table")
    below = visible(inner["from_table"], columns)
    names: dict[str, Tree] = {}
    for item in inner["select_list"]:
        made = _over_table(item, below)
        name = item.get("alias") or (item["column_names"][-1] if is_column(item) else "")
        if not name or name.casefold() in names:
            raise NotAnswerableError("a column behind FROM has no name of its own")
        names[name.casefold()] = made
    alias = str(source.get("alias") or "").casefold()
    return Visible(table=below.table, names=names, qualifiers=frozenset({alias} - {""}))


def resolved(tree: Any, scope: Visible, aliases: Collection[str]) -> Any:
    """The tree with columns of the table. Raises NotAnswerableError for names of anything else."""
    if isinstance(tree, list):
        return [resolved(each, scope, aliases) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if is_all_columns(tree.get("expression")) and "null_order" in tree:
        # ORDER BY ALL: the columns are the same.
        return tree
    if not is_column(tree):
        if tree.get("class") in ("SUBQUERY", "STAR", "LAMBDA", "POSITIONAL_REFERENCE", "DEFAULT"):
            raise NotAnswerableError("it has an expression that needs the rows of the table")
        return {key: resolved(each, scope, aliases) for key, each in tree.items()}
    *qualifiers, name = [str(each).casefold() for each in tree["column_names"]]
    if name in scope.names and (not qualifiers or set(qualifiers) <= scope.qualifiers):
        return {**_copied(scope.names[name]), "alias": tree.get("alias", "")}
    if not qualifiers and (name in aliases or name in NOW_NAMES):
        return tree
    raise NotAnswerableError(f"{name} is no column of the table")


def _projection(source: Tree) -> Tree | None:
    """The query in brackets behind FROM if it only names columns of what is behind its own FROM."""
    if source.get("type") != "SUBQUERY":
        return None
    node = source["subquery"]["node"]
    is_plain = (
        node.get("type") == "SELECT_NODE"
        and all(node.get(key) in _NOTHING for key in ("where_clause", "having", "sample", "qualify"))
        and not node["modifiers"]
        and not node["group_expressions"]
        and not node["group_sets"]
        and not node["cte_map"]["map"]
        and node["aggregate_handling"] == "STANDARD_HANDLING"
    )
    return node if is_plain else None


def _over_table(item: Tree, below: Visible) -> Tree:
    for part in parts(item):
        is_same = part.get("class") in (None, *_NAMING) or is_function(part, "timezone")
        if not is_same:
            # An aggregate, for example, would make it another relation.
            raise NotAnswerableError("a column behind FROM is computed")
    found: Tree = resolved(item, below, ())
    return found


def _copied(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_copied(each) for each in tree]
    return {key: _copied(each) for key, each in tree.items()} if isinstance(tree, dict) else tree
