"""Columns for JSON without schemas, found in the data.

Spark merges the types of all values; `columns_in` makes columns of them. Numbers are BIGINT if all are whole
and fit, otherwise DOUBLE. Types that have nothing in common become STRING, with JSON for what is not a text.
Nulls, empty objects and empty arrays say nothing about the type, so a field with nothing else has no column
yet. Columns found in several batches are merged with `evolution.NEW_JSON_TABLE`, and new fields are added to
an existing table as for every schema.

A field with the name of a column that says where a row comes from is left out. Objects whose names are data,
such as ids, would give a column for each: beyond 1,000 fields this is refused. Objects and arrays below 6
others are texts.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError
from headrace.lake.column_names import column_name
from headrace.lake.evolution import NEW_JSON_TABLE, merged
from headrace.lake.layout import COORDINATE_COLUMNS
from headrace.lake.types import Array, Field, Simple, Struct, Type

_MOST_FIELDS: Final = 1_000
_MOST_SCHEMAS: Final = 10_000
# Deeper objects and arrays are texts. Spark's analysis of nested lambdas takes minutes for 50 levels.
_DEEPEST: Final = 6
_RESERVED: Final = frozenset(name.casefold() for name, _ in COORDINATE_COLUMNS)
_TOKENS: Final = re.compile(r"`(?:[^`]|``)*`|[A-Za-z_0-9]+(?:\(\d+,\s*\d+\))?(?: [A-Z]+)*|[<>:,]")


def infer(frame: DataFrame, raw: str = "value") -> Struct:
    """The columns for the JSON objects in the binary column `raw`. Runs a Spark job.

    Raises lake_unsupported.
    """
    value = F.try_parse_json(F.make_valid_utf8(F.col(raw).cast("string")))
    schema = F.schema_of_variant("value")
    objects = frame.select(value.alias("value")).where(schema.startswith("OBJECT"))
    try:
        found = objects.select(F.schema_of_variant_agg("value")).collect()
    except (PySparkException, Py4JJavaError):
        # Spark cannot merge types that are nested some hundred times; printing them is no problem.
        found = objects.select(schema).distinct().limit(_MOST_SCHEMAS).collect()
    return merged((columns_in(str(row[0])) for row in found), rules=NEW_JSON_TABLE)


def columns_in(schema: str) -> Struct:
    """The columns for a type as Spark prints it: `OBJECT<a: BIGINT, b: ARRAY<STRING>>`."""
    reading = _Reading(_TOKENS.findall(schema))
    found = reading.type()
    if not isinstance(found, Struct):
        return Struct(fields=())
    fields = tuple(each for each in found.fields if each.name.casefold() not in _RESERVED)
    return Struct(fields=fields)


class _Reading:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]
        self._fields = 0

    def type(self, depth: int = 0) -> Type | None:
        """None if nothing is known about it."""
        name = self._tokens.pop()
        if depth == _DEEPEST and name in ("OBJECT", "ARRAY"):
            self._skip()
            return Simple.STRING
        match name:
            case "OBJECT":
                return self._object(depth + 1)
            case "ARRAY":
                self._tokens.pop()
                element = self.type(depth + 1)
                self._tokens.pop()
                return None if element is None else Array(element=element)
            case _:
                return _single(name)

    def _skip(self) -> None:
        """Up to the bracket that closes the next one."""
        opened = 0
        while True:
            token = self._tokens.pop()
            opened += {"<": 1, ">": -1}.get(token, 0)
            if opened == 0:
                return

    def _object(self, depth: int) -> Struct | None:
        found = []
        token = self._tokens.pop()
        while token != ">":
            token = self._tokens.pop()
            if token in (",", ">"):
                continue
            name = token[1:-1].replace("``", "`") if token.startswith("`") else token
            self._tokens.pop()
            kind = self.type(depth)
            if kind is not None:
                found.append(Struct(fields=(Field(name=column_name(name), type=kind),)))
        self._fields += len(found)
        if self._fields > _MOST_FIELDS:
            raise HeadraceError(
                "lake_unsupported",
                f"The JSON values have more than {_MOST_FIELDS} different fields, too many for columns.",
                remedy="Name the columns in a schema, or keep the other fields in one JSON column.",
            )
        # Names that differ only in case are one column.
        return merged(found, rules=NEW_JSON_TABLE) if found else None


def _single(name: str) -> Simple | None:
    match name:
        case "VOID":
            return None
        case "BOOLEAN" | "BIGINT" | "DOUBLE":
            return Simple(name)
        case _:
            return Simple.DOUBLE if name.startswith("DECIMAL") else Simple.STRING
