"""The rows of the catalogue's relations for the tables that the lake has now, and each relation as SQL.

Owns the oids of tables. Invariants: a table's oid depends on its name alone (and on a collision, which the
order of names decides), so that a client can ask for it in one question and use it in the next; all tables
are in the schema `public`, belong to the role `headrace` and have no keys, indexes or defaults. Never asks
the engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from headrace.query.postgres.catalogue.columns import INFORMATION_SCHEMA, PG_CATALOG, RELATIONS
from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.decoding import quoted
from headrace.query.snapshots import Column

DATABASE: Final = "headrace"
OWNER: Final = "headrace"
PUBLIC: Final = "public"

PG_CATALOG_OID: Final = 11
PUBLIC_OID: Final = 2200
_INFORMATION_SCHEMA_OID: Final = 13_000
_DATABASE_OID: Final = 5
_OWNER_OID: Final = 10
# Below are the oids of PostgreSQL's own objects.
_FIRST_OID: Final = 16_384
_OID_BITS: Final = 0x3FFF_FFFF
# Those that clients cast to regclass.
SYSTEM_CLASSES: Final = {
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_authid": 1260,
    "pg_database": 1262,
    "pg_constraint": 2606,
    "pg_description": 2609,
    "pg_namespace": 2615,
    "pg_rewrite": 2618,
    "pg_trigger": 2620,
    "pg_extension": 3079,
}
_PRECISIONS: Final = {21: 16, 23: 32, 20: 64, 700: 24, 701: 53}
_TIMES: Final = frozenset({1083, 1114, 1184, 1186})

_Row = dict[str, object]


@dataclass(frozen=True)
class Catalogue:
    """The catalogue at one moment. `settings` are the session's, for `pg_settings`."""

    tables: Mapping[str, Sequence[Column]]
    settings: Mapping[str, str]

    @cached_property
    def oids(self) -> dict[str, int]:
        """The oid of each table."""
        taken: dict[int, str] = {}
        for name in sorted(self.tables):
            oid = _FIRST_OID + (zlib.crc32(name.encode()) & _OID_BITS)
            while oid in taken:
                oid += 1
            taken[oid] = name
        return {name: oid for oid, name in taken.items()}

    @cached_property
    def spellings(self) -> dict[str, str]:
        """The names of tables as the lake spells them, by their case-folded names."""
        return {name.casefold(): name for name in self.tables}

    def class_oid(self, name: str) -> int | None:
        """The oid of a relation by its name, as a cast to regclass reads it."""
        spelled = self.spellings.get(name.casefold())
        return self.oids[spelled] if spelled is not None else SYSTEM_CLASSES.get(name)

    def as_sql(self, schema: str, relation: str) -> str:
        """The relation as a query that reads nothing. Only columns that differ between rows are values."""
        columns = RELATIONS[schema, relation]
        make_rows = _ROWS.get((schema, relation))
        rows = list(make_rows(self)) if make_rows is not None else []
        if not rows:
            empty = ", ".join(f"CAST(NULL AS {column.duckdb}) AS {column.name}" for column in columns)
            return f"SELECT {empty} WHERE false"
        given = [column.name for column in columns if column.name in rows[0]]
        values = ", ".join(f"({', '.join(_sql(row[name]) for name in given)})" for row in rows)
        shown = ", ".join(
            f"CAST({f'given.{column.name}' if column.name in given else column.default} AS {column.duckdb})"
            f" AS {column.name}"
            for column in columns
        )
        return f"SELECT {shown} FROM (VALUES {values}) AS given({', '.join(given)})"


def _sql(value: object) -> str:
    if value is None:
        return "NULL"
    return quoted(value) if isinstance(value, str) else str(value).lower()


def _namespaces(_: Catalogue) -> Iterator[_Row]:
    yield {"oid": PG_CATALOG_OID, "nspname": PG_CATALOG}
    yield {"oid": PUBLIC_OID, "nspname": PUBLIC}
    yield {"oid": _INFORMATION_SCHEMA_OID, "nspname": INFORMATION_SCHEMA}


def _classes(catalogue: Catalogue) -> Iterator[_Row]:
    for name, oid in catalogue.oids.items():
        yield {
            "oid": oid,
            "relname": name,
            "relnamespace": PUBLIC_OID,
            "relnatts": len(catalogue.tables[name]),
        }


def _attributes(catalogue: Catalogue) -> Iterator[_Row]:
    for name, oid in catalogue.oids.items():
        for number, column in enumerate(catalogue.tables[name], start=1):
            kind = types.type_of(column.type)
            yield {
                "attrelid": oid,
                "attname": column.name,
                "atttypid": kind.oid,
                "attlen": kind.size,
                "attnum": number,
                "attndims": int(kind.element != 0),
                "atttypmod": types.modifier_of(column.type),
            }


def _types(_: Catalogue) -> Iterator[_Row]:
    for kind in types.ALL:
        yield {
            "oid": kind.oid,
            "typname": kind.name,
            "typlen": kind.size,
            "typcategory": kind.category,
            "typelem": kind.element,
            "typarray": kind.array_oid,
            "typinput": "array_in" if kind.element else f"{kind.name}in",
        }


def _roles(_: Catalogue) -> Iterator[_Row]:
    yield {"oid": _OWNER_OID, "rolname": OWNER}


def _users(_: Catalogue) -> Iterator[_Row]:
    yield {"usename": OWNER, "usesysid": _OWNER_OID}


def _databases(_: Catalogue) -> Iterator[_Row]:
    yield {"oid": _DATABASE_OID, "datname": DATABASE}


def _access_methods(_: Catalogue) -> Iterator[_Row]:
    yield {"oid": 2, "amname": "heap"}


def _tablespaces(_: Catalogue) -> Iterator[_Row]:
    yield {"oid": 1663, "spcname": "pg_default"}


def _languages(_: Catalogue) -> Iterator[_Row]:
    yield {"oid": 14, "lanname": "sql"}


def _settings(catalogue: Catalogue) -> Iterator[_Row]:
    for name, value in sorted(catalogue.settings.items()):
        yield {"name": name, "setting": value}


def _plain_tables(catalogue: Catalogue) -> Iterator[_Row]:
    return ({"tablename": name} for name in catalogue.oids)


def _schema_tables(catalogue: Catalogue) -> Iterator[_Row]:
    return ({"table_catalog": DATABASE, "table_name": name} for name in catalogue.oids)


def _schemata(_: Catalogue) -> Iterator[_Row]:
    for name in (PG_CATALOG, PUBLIC, INFORMATION_SCHEMA):
        yield {"catalog_name": DATABASE, "schema_name": name}


def _schema_columns(catalogue: Catalogue) -> Iterator[_Row]:
    for name in catalogue.oids:
        for number, column in enumerate(catalogue.tables[name], start=1):
            kind = types.type_of(column.type)
            modifier = types.modifier_of(column.type) - 4
            is_decimal = modifier >= 0
            yield {
                "table_catalog": DATABASE,
                "table_name": name,
                "column_name": column.name,
                "ordinal_position": number,
                "data_type": "ARRAY" if kind.element else kind.display,
                "numeric_precision": modifier >> 16 if is_decimal else _PRECISIONS.get(kind.oid),
                "numeric_precision_radix": 10 if is_decimal else 2 if kind.oid in _PRECISIONS else None,
                "numeric_scale": modifier & 0xFFFF if is_decimal else 0 if kind.oid in (20, 21, 23) else None,
                "datetime_precision": 6 if kind.oid in _TIMES else 0 if kind is types.DATE else None,
                "udt_catalog": DATABASE,
                "udt_name": kind.name,
                "dtd_identifier": str(number),
            }


_ROWS: Final[dict[tuple[str, str], Callable[[Catalogue], Iterator[_Row]]]] = {
    (PG_CATALOG, "pg_am"): _access_methods,
    (PG_CATALOG, "pg_attribute"): _attributes,
    (PG_CATALOG, "pg_authid"): _roles,
    (PG_CATALOG, "pg_class"): _classes,
    (PG_CATALOG, "pg_database"): _databases,
    (PG_CATALOG, "pg_language"): _languages,
    (PG_CATALOG, "pg_namespace"): _namespaces,
    (PG_CATALOG, "pg_roles"): _roles,
    (PG_CATALOG, "pg_settings"): _settings,
    (PG_CATALOG, "pg_tables"): _plain_tables,
    (PG_CATALOG, "pg_tablespace"): _tablespaces,
    (PG_CATALOG, "pg_type"): _types,
    (PG_CATALOG, "pg_user"): _users,
    (INFORMATION_SCHEMA, "columns"): _schema_columns,
    (INFORMATION_SCHEMA, "information_schema_catalog_name"): lambda _: iter([{"catalog_name": DATABASE}]),
    (INFORMATION_SCHEMA, "schemata"): _schemata,
    (INFORMATION_SCHEMA, "table_privileges"): _schema_tables,
    (INFORMATION_SCHEMA, "tables"): _schema_tables,
}
