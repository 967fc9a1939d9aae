"""Puts the catalogue into a statement: relations by name, functions, casts to names of objects, the session.

`rewritten` changes the tree and collects in `relations` what the statement needs as common table
expressions: their names have a blank in them, so they are never a name that a user's statement means. A
lake's table is found under its own name, with or without the schema `public` and the database. Never runs
anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import expressions as exp
from sqlglot import parse_one

from headrace.query.postgres.catalogue.columns import INFORMATION_SCHEMA, PG_CATALOG, RELATIONS
from headrace.query.postgres.catalogue.functions import (
    FUNCTIONS,
    NAMES_BY_OID,
    NAMESPACES,
    RENAMED,
    TABLE_FUNCTIONS,
)
from headrace.query.postgres.catalogue.relations import DATABASE, PUBLIC, SYSTEM_CLASSES, Catalogue
from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.decoding import quoted
from headrace.query.postgres.protocol.errors import UNDEFINED_OBJECT, UNDEFINED_TABLE, PostgresError
from headrace.query.statement_tables.plan import TABLE_SCHEMA
from headrace.query.topic_tables.plan import TOPIC_SCHEMA

_USERS: Final = frozenset({"user", "current_role"})
_EXPANSION: Final = "_pg_expandarray"


class CatalogueRewriting:
    """One statement's use of the catalogue."""

    def __init__(self, catalogue: Catalogue, *, user: str, process: int, version: str) -> None:
        self._catalogue = catalogue
        self._user = user
        self._process = process
        self._version = version
        self._own: set[str] = set()
        self.relations: dict[str, str] = {}

    def rewritten(self, tree: exp.Expr) -> exp.Expr:
        """The tree with the catalogue's names replaced. Raises PostgresError for a name that is unknown."""
        self._own = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
        rules: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
            exp.Anonymous: self._function,
            exp.Cast: self._cast,
            exp.Column: self._column,
            exp.CurrentCatalog: self._database,
            exp.CurrentDatabase: self._database,
            exp.CurrentSchema: lambda _: exp.Literal.string(PUBLIC),
            exp.CurrentSchemas: self._schemas,
            exp.CurrentUser: lambda _: exp.Literal.string(self._user),
            exp.CurrentVersion: lambda _: exp.Literal.string(self._version),
            exp.Dot: self._dot,
            exp.SessionUser: lambda _: exp.Literal.string(self._user),
            exp.Table: self._table,
        }
        for node in reversed(list(tree.walk(bfs=True))):
            rule = rules.get(type(node))
            replaced = node if rule is None else rule(node)
            if replaced is not node:
                if node is tree:
                    tree = replaced
                else:
                    node.replace(replaced)
        return tree

    def _needed(self, schema: str, relation: str) -> str:
        name = f"{schema} {relation}"
        if name not in self.relations:
            self.relations[name] = self._catalogue.as_sql(schema, relation)
        return name

    def _table(self, table: exp.Table) -> exp.Expr:
        if isinstance(table.this, exp.Anonymous | exp.Func):
            return self._table_function(table)
        database, schema, name = table.catalog.lower(), table.db.lower(), table.name
        if not schema and name.casefold() in self._own:
            return table
        is_ours = name.casefold() in self._catalogue.spellings
        if schema in ("", PG_CATALOG, INFORMATION_SCHEMA) and not (is_ours and not schema):
            relation = (schema or PG_CATALOG, name.lower())
            if relation in RELATIONS:
                alias = table.args.get("alias")
                found = _plain_table(self._needed(*relation))
                found.set("alias", alias.copy() if alias else exp.TableAlias(this=_name(name.lower())))
                for key in ("joins", "laterals", "sample"):
                    if table.args.get(key):
                        found.set(key, table.args[key])
                return found
            if schema:
                raise _no_table(f"{schema}.{name}")
        if schema in (TOPIC_SCHEMA, TABLE_SCHEMA) and not database:
            return table
        if schema and (schema != PUBLIC or database not in ("", DATABASE)):
            raise _no_table(".".join(filter(None, (database, schema, name))))
        if schema:
            table.set("db", None)
            table.set("catalog", None)
        return table

    def _table_function(self, table: exp.Table) -> exp.Expr:
        name = table.this.name.lower() if isinstance(table.this, exp.Anonymous) else ""
        table.set("db", None)
        rows = TABLE_FUNCTIONS.get(name)
        if rows is None:
            return table
        self.relations[f"{PG_CATALOG} {name}"] = rows
        found = _plain_table(f"{PG_CATALOG} {name}")
        found.set("alias", table.args.get("alias") or exp.TableAlias(this=_name(name)))
        return found

    def _column(self, column: exp.Column) -> exp.Expr:
        """`pg_catalog.pg_class.oid` and `public.events.x`: the table's name is enough."""
        if not column.table and not column.this.args.get("quoted") and column.name.lower() in _USERS:
            return exp.Literal.string(self._user)
        if column.args.get("db"):
            column.set("db", None)
            column.set("catalog", None)
        return column

    def _dot(self, dot: exp.Dot) -> exp.Expr:
        """`pg_catalog.function(…)`, and the fields of `_pg_expandarray`."""
        if isinstance(dot.this, exp.Identifier) and dot.this.name.lower() in (PG_CATALOG, INFORMATION_SCHEMA):
            copied: exp.Expr = dot.expression.copy()
            return copied
        return dot

    def _function(self, function: exp.Anonymous) -> exp.Expr:  # noqa: PLR0911 - one rule a branch
        # Quoted or not: `"pg_catalog"."pg_get_expr"(…)` is the same function.
        name = function.name.lower()
        arguments = function.expressions
        if name == "pg_backend_pid":
            return exp.Literal.number(self._process)
        if name in ("version", "current_user", "session_user", "current_schema", "current_database"):
            return exp.Literal.string(self._session_value(name))
        if name == "current_setting":
            return self._setting(arguments)
        if name == "set_config" and len(arguments) == 3:
            copied: exp.Expr = arguments[1].copy()
            return copied
        if name in ("to_regclass", "to_regtype", "to_regnamespace"):
            return self._named_oid(name.removeprefix("to_").upper(), arguments[0], strict=False)
        if name == _EXPANSION:
            expanded = f"unnest(list_transform({arguments[0].sql('duckdb')}, (x, n) -> {{'x': x, 'n': n}}))"
            return parse_one(expanded, read="duckdb")
        if name == "generate_subscripts":
            return parse_one(f"unnest(range(1, len({arguments[0].sql('duckdb')}) + 1))", read="duckdb")
        if name in RENAMED:
            return exp.Anonymous(this=RENAMED[name], expressions=[each.copy() for each in arguments])
        build = FUNCTIONS.get(name)
        if build is None or (name == "quote_ident" and not arguments):
            return function
        return exp.Paren(
            this=parse_one(build([argument.sql("duckdb") for argument in arguments]), read="duckdb")
        )

    def _session_value(self, name: str) -> str:
        if name == "version":
            return self._version
        return {"current_schema": PUBLIC, "current_database": DATABASE}.get(name, self._user)

    def _setting(self, arguments: list[exp.Expr]) -> exp.Expr:
        name = arguments[0].name.lower() if arguments and isinstance(arguments[0], exp.Literal) else ""
        value = self._catalogue.settings.get(name)
        if value is not None:
            return exp.Literal.string(value)
        if arguments and not name:
            known = self._catalogue.settings
            names, values = ", ".join(map(quoted, known)), ", ".join(map(quoted, known.values()))
            asked = f"lower({arguments[0].sql('duckdb')})"
            return parse_one(f"MAP([{names}], [{values}])[{asked}]", read="duckdb")
        if len(arguments) > 1:
            return exp.Null()
        raise PostgresError(UNDEFINED_OBJECT, f'unrecognized configuration parameter "{name}"')

    def _database(self, _: exp.Expr) -> exp.Expr:
        return exp.Literal.string(DATABASE)

    def _schemas(self, node: exp.CurrentSchemas) -> exp.Expr:
        names = (
            [PUBLIC] if node.this is not None and node.this.sql().lower() == "false" else [PG_CATALOG, PUBLIC]
        )
        return parse_one(f"[{', '.join(map(quoted, names))}]", read="duckdb")

    def _cast(self, cast: exp.Cast) -> exp.Expr:
        kind = _object_kind(cast.to)
        if kind in ("", "OID"):
            return cast
        if isinstance(cast.this, exp.Literal) and cast.this.is_string:
            return self._named_oid(kind, cast.this, strict=True)
        if kind == "REGCLASS" and _is_text(cast.this):
            return self._class_by_name(cast.this)
        if isinstance(cast.parent, exp.Cast) and _object_kind(cast.parent.to):
            copied: exp.Expr = cast.this.copy()
            return copied
        return self._name_of(kind, cast.this)

    def _name_of(self, kind: str, value: exp.Expr) -> exp.Expr:
        """The name of the object that has this oid, or the number itself as text."""
        oid = value.sql("duckdb")
        if kind == "REGTYPE":
            return parse_one(FUNCTIONS["format_type"]([oid]), read="duckdb")
        if kind not in NAMES_BY_OID:
            return parse_one(f"CAST({oid} AS VARCHAR)", read="duckdb")
        relation, column = NAMES_BY_OID[kind]
        source = self._needed(PG_CATALOG, relation)
        return parse_one(
            f'COALESCE((SELECT any_value(named.{column}) FROM "{source}" AS named'
            f" WHERE named.oid = CAST({oid} AS UINTEGER)), CAST({oid} AS VARCHAR))",
            read="duckdb",
        )

    def _class_by_name(self, value: exp.Expr) -> exp.Expr:
        """The oid of the relation whose name a text has when the question is answered."""
        known = SYSTEM_CLASSES | self._catalogue.oids
        names, oids = ", ".join(map(quoted, known)), ", ".join(map(str, known.values()))
        plain = f"list_last(string_split(replace(CAST({value.sql('duckdb')} AS VARCHAR), '\"', ''), '.'))"
        return parse_one(f"CAST(MAP([{names}], [{oids}])[{plain}] AS UINTEGER)", read="duckdb")

    def _named_oid(self, kind: str, value: exp.Expr, *, strict: bool) -> exp.Expr:
        """The oid of the object with this name."""
        text = value.name if isinstance(value, exp.Literal) else ""
        plain = text.rpartition(".")[2].strip('"')
        if kind in ("REGPROC", "REGPROCEDURE"):
            # Functions have no oids here: columns of the type regproc have their names.
            return exp.Literal.string(plain)
        if plain.isdigit():
            oid: int | None = int(plain)
        elif kind == "REGTYPE":
            known = types.BY_NAME.get(plain) or next(
                (each for each in types.ALL if each.display == plain.lower()), None
            )
            oid = known.oid if known is not None else None
        elif kind == "REGNAMESPACE":
            oid = NAMESPACES.get(plain)
        elif kind == "REGROLE":
            oid = 10
        else:
            oid = self._catalogue.class_oid(plain) if kind == "REGCLASS" else None
        if oid is None and strict:
            raise (
                _no_table(text)
                if kind == "REGCLASS"
                else PostgresError(UNDEFINED_OBJECT, f'"{text}" does not exist')
            )
        return parse_one(f"CAST({'NULL' if oid is None else oid} AS UINTEGER)", read="duckdb")


def _object_kind(kind: exp.Expr) -> str:
    """OID, REGCLASS and the like, in capitals; empty for every other type."""
    if isinstance(kind, exp.ObjectIdentifier):
        return str(kind.this).upper()
    named = kind.args.get("kind") if isinstance(kind, exp.DataType) else None
    name = (named.name if isinstance(named, exp.Expr) else str(named or "")).upper()
    return name if name.startswith("REG") or name == "OID" else ""


def _is_text(expression: exp.Expr) -> bool:
    """Whether this can only be a text: a cast to text, or a parameter, which is text before such a cast."""
    if isinstance(expression, exp.Column):
        return expression.name.startswith("headrace parameter ")
    return isinstance(expression, exp.Cast) and expression.to.this in (exp.DType.TEXT, exp.DType.VARCHAR)


def _plain_table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _name(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _no_table(name: str) -> PostgresError:
    return PostgresError(
        UNDEFINED_TABLE, f'relation "{name}" does not exist', hint="\\dt lists the tables of the lake."
    )
