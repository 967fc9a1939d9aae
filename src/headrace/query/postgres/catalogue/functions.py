"""Functions of PostgreSQL's catalogue as expressions of DuckDB.

Each entry of `FUNCTIONS` takes the SQL of its arguments and gives SQL. A function about objects that the
lake does not have (indexes, constraints, views, rules) gives NULL, as PostgreSQL does for an object that is
not there. Invariant: nothing here looks at a file or at the engine's settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.query.postgres.catalogue.relations import OWNER, PG_CATALOG_OID, PUBLIC_OID
from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.decoding import quoted

Build = Callable[[Sequence[str]], str]

_NULL_TEXT: Final = "CAST(NULL AS VARCHAR)"
_READING: Final = ("SELECT", "USAGE", "CONNECT", "MEMBER", "EXECUTE")


def _constant(sql: str) -> Build:
    return lambda _: sql


def _map(pairs: Sequence[tuple[int, str]], key: str) -> str:
    keys = ", ".join(str(number) for number, _ in pairs)
    values = ", ".join(quoted(text) for _, text in pairs)
    return f"MAP([{keys}], [{values}])[CAST({key} AS INTEGER)]"


_DISPLAY: Final = [(kind.oid, kind.display) for kind in types.ALL]


def format_type(arguments: Sequence[str]) -> str:
    """The name of a type as SQL writes it, with the precision of a decimal."""
    oid = arguments[0]
    named = f"WHEN {oid} = 0 THEN '-' ELSE COALESCE({_map(_DISPLAY, oid)}, '???') END"
    if len(arguments) == 1 or arguments[1].upper() == "NULL":
        return f"CASE WHEN {oid} IS NULL THEN NULL {named}"
    modifier = f"CAST({arguments[1]} AS INTEGER)"
    decimal = (
        f"'numeric(' || (({modifier} - 4) >> 16) || ',' || (({modifier} - 4) & 65535) || ')'"
        f" || CASE WHEN {oid} = {types.NUMERIC_TYPE.array_oid} THEN '[]' ELSE '' END"
    )
    decimals = f"{types.NUMERIC_TYPE.oid}, {types.NUMERIC_TYPE.array_oid}"
    is_limited = f"{oid} IN ({decimals}) AND {modifier} >= 4"
    return f"CASE WHEN {oid} IS NULL THEN NULL WHEN {is_limited} THEN {decimal} {named}"


def _privilege(arguments: Sequence[str]) -> str:
    asked = arguments[-1].upper()
    return "true" if any(reading in asked for reading in _READING) else "false"


def _quote_ident(arguments: Sequence[str]) -> str:
    text = arguments[0]
    return (
        f"CASE WHEN regexp_full_match({text}, '[a-z_][a-z0-9_$]*') THEN {text}"
        f" ELSE '\"' || replace({text}, '\"', '\"\"') || '\"' END"
    )


def _array_upper(arguments: Sequence[str]) -> str:
    return f"CASE WHEN len({arguments[0]}) > 0 THEN CAST(len({arguments[0]}) AS INTEGER) END"


def _array_lower(arguments: Sequence[str]) -> str:
    return f"CASE WHEN len({arguments[0]}) > 0 THEN 1 END"


FUNCTIONS: Final[dict[str, Build]] = {
    "array_lower": _array_lower,
    "array_upper": _array_upper,
    "col_description": _constant(_NULL_TEXT),
    "format_type": format_type,
    "getdatabaseencoding": _constant("'UTF8'"),
    "obj_description": _constant(_NULL_TEXT),
    "pg_char_to_encoding": _constant("6"),
    "pg_client_encoding": _constant("'UTF8'"),
    "pg_collation_for": _constant(_NULL_TEXT),
    "pg_database_size": _constant("CAST(NULL AS BIGINT)"),
    "pg_encoding_to_char": _constant("'UTF8'"),
    "pg_get_constraintdef": _constant(_NULL_TEXT),
    "pg_get_expr": _constant(_NULL_TEXT),
    "pg_get_function_arguments": _constant(_NULL_TEXT),
    "pg_get_function_identity_arguments": _constant(_NULL_TEXT),
    "pg_get_function_result": _constant(_NULL_TEXT),
    "pg_get_function_sqlbody": _constant(_NULL_TEXT),
    "pg_get_functiondef": _constant(_NULL_TEXT),
    "pg_get_indexdef": _constant(_NULL_TEXT),
    "pg_get_partition_constraintdef": _constant(_NULL_TEXT),
    "pg_get_partkeydef": _constant(_NULL_TEXT),
    "pg_get_ruledef": _constant(_NULL_TEXT),
    "pg_get_serial_sequence": _constant(_NULL_TEXT),
    "pg_get_statisticsobjdef_columns": _constant(_NULL_TEXT),
    "pg_get_triggerdef": _constant(_NULL_TEXT),
    "pg_get_userbyid": _constant(quoted(OWNER)),
    "pg_get_viewdef": _constant(_NULL_TEXT),
    "pg_has_role": _constant("true"),
    "pg_indexes_size": _constant("CAST(0 AS BIGINT)"),
    "pg_is_in_recovery": _constant("false"),
    "pg_is_other_temp_schema": _constant("false"),
    "pg_my_temp_schema": _constant("CAST(0 AS UINTEGER)"),
    "pg_relation_is_publishable": _constant("false"),
    "pg_relation_size": _constant("CAST(NULL AS BIGINT)"),
    "pg_stat_get_numscans": _constant("CAST(NULL AS BIGINT)"),
    "pg_table_size": _constant("CAST(NULL AS BIGINT)"),
    "pg_tablespace_location": _constant("''"),
    "pg_tablespace_size": _constant("CAST(NULL AS BIGINT)"),
    "pg_total_relation_size": _constant("CAST(NULL AS BIGINT)"),
    "quote_ident": _quote_ident,
    "shobj_description": _constant(_NULL_TEXT),
    "txid_current": _constant("CAST(1 AS BIGINT)"),
    **{
        f"pg_{kind}_is_visible": _constant("true")
        for kind in (
            "collation", "conversion", "function", "opclass", "operator", "opfamily", "statistics_obj",
            "table", "ts_config", "ts_dict", "ts_parser", "ts_template", "type",
        )
    },
    **{
        f"has_{kind}_privilege": _privilege
        for kind in (
            "any_column", "column", "database", "foreign_data_wrapper", "function", "language", "schema",
            "sequence", "server", "table", "tablespace", "type",
        )
    },
}  # fmt: skip

# Functions that DuckDB has under another name.
RENAMED: Final = {
    "json_build_array": "json_array",
    "json_build_object": "json_object",
    "jsonb_build_array": "json_array",
    "jsonb_build_object": "json_object",
}

# Functions that stand where a table would, with their rows as SQL.
TABLE_FUNCTIONS: Final = {
    "pg_get_keywords": (
        "SELECT * FROM (VALUES ('ilike', 'T', 'reserved'), ('limit', 'R', 'reserved'))"
        " AS keywords(word, catcode, catdesc)"
    ),
    "pg_get_publication_tables": "SELECT CAST(NULL AS UINTEGER) AS relid WHERE false",
    "pg_options_to_table": "SELECT '' AS option_name, '' AS option_value WHERE false",
    "pg_partition_ancestors": "SELECT CAST(NULL AS UINTEGER) AS relid WHERE false",
    "pg_partition_tree": "SELECT CAST(NULL AS UINTEGER) AS relid WHERE false",
}

# The casts to which a number is turned back into a name: (its relation, the column of the name).
NAMES_BY_OID: Final = {
    "REGCLASS": ("pg_class", "relname"),
    "REGNAMESPACE": ("pg_namespace", "nspname"),
    "REGPROC": ("pg_proc", "proname"),
    "REGPROCEDURE": ("pg_proc", "proname"),
    "REGROLE": ("pg_roles", "rolname"),
}
NAMESPACES: Final = {"pg_catalog": PG_CATALOG_OID, "public": PUBLIC_OID}
