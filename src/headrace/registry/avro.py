"""Reads Avro schemas: whether a text is valid, its compact form, and whether two schemas are the same.

Invariants: Avro's Java library accepts every schema that passes (fastavro accepts a few that Java rejects;
those are checked here). Texts that differ only in white space, in the order of attributes, or in `"string"`
against `{"type": "string"}` have the same identity. Never resolves names across schemas, never checks
whether two are compatible (`resolution.py`).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from headrace.core.errors import HeadraceError
from headrace.registry.schema_tree import Node, tree

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSchema:
    """A valid schema: its text without white space, and an identity shared by all spellings of it."""

    text: str
    identity: str
    tree: Node = dataclasses.field(compare=False, repr=False)


def read_avro(text: str) -> AvroSchema:
    """Raises invalid_schema with the reason."""
    try:
        schema = json.loads(text, parse_constant=_refuse_constant)
        _check(schema)
        parse_schema(schema, named_schemas={}, _write_hint=False, _force=True)
        compact = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        compact.encode("utf-8")
        root = tree(schema)
    except json.JSONDecodeError as error:
        raise _invalid(f"it is not JSON: {error}") from error
    except UnknownType as error:
        raise _invalid(f"the type {error} is not known") from error
    except KeyError as error:
        raise _invalid(f"the attribute {error} is missing") from error
    except RecursionError as error:
        raise _invalid("it is nested too deeply") from error
    except (SchemaParseException, _SchemaError, TypeError, ValueError, AttributeError) as error:
        # On input that is no schema at all, fastavro fails with Python's own errors.
        raise _invalid(str(error)) from error
    return AvroSchema(text=compact, identity=json.dumps(_essence(schema), sort_keys=True), tree=root)


class _SchemaError(Exception):
    """Something that fastavro accepts and Avro does not."""


def _refuse_constant(name: str) -> Any:
    raise _SchemaError(f"{name} is not JSON")


def _check(schema: Any) -> None:
    if isinstance(schema, str):
        return
    if isinstance(schema, list):
        _check_union(schema)
    elif isinstance(schema, dict):
        _check_object(schema)
    else:
        raise _SchemaError(f"a schema is a string, an object or an array, not {json.dumps(schema)}")


def _check_union(branches: list[Any]) -> None:
    kinds: list[str] = []
    for branch in branches:
        if isinstance(branch, list):
            raise _SchemaError("a union contains another union directly")
        _check(branch)
        kinds.append(_kind(branch))
    _check_different(kinds, "a union has the branch {} twice")


def _kind(branch: Any) -> str:
    """What distinguishes a branch of a union: its name, or else its type."""
    if isinstance(branch, str):
        return branch
    kind = str(branch["type"])
    if kind not in _NAMED:
        return kind
    name = str(branch["name"])
    namespace = branch.get("namespace")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _check_object(schema: dict[str, Any]) -> None:
    kind = schema["type"]
    if kind in _NAMED:
        _check_name(schema["name"], _FULL_NAME)
        if schema.get("namespace"):
            _check_name(schema["namespace"], _FULL_NAME)
        _check_aliases(schema, _FULL_NAME)
    if kind in {"record", "error"}:
        fields = schema["fields"]
        if not isinstance(fields, list):
            raise _SchemaError("the fields of a record must be an array")
        for field in fields:
            if not isinstance(field, dict):
                raise _SchemaError(f"a field is an object, not {json.dumps(field)}")
            _check_name(field["name"], _NAME)
            _check_aliases(field, _NAME)
            _check(field["type"])
        _check_different((field["name"] for field in fields), "a record has the field {} twice")
    elif kind == "array":
        _check(schema["items"])
    elif kind == "map":
        _check(schema["values"])
    elif kind == "fixed":
        size = schema["size"]
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise _SchemaError(f"the size of a fixed is a number, not {json.dumps(size)}")
    elif kind == "enum" and schema.get("default") is not None and schema["default"] not in schema["symbols"]:
        raise _SchemaError(f"the default {json.dumps(schema['default'])} is not a symbol of the enum")


def _check_aliases(schema: dict[str, Any], pattern: re.Pattern[str]) -> None:
    aliases = schema.get("aliases", [])
    if not isinstance(aliases, list):
        raise _SchemaError(f"aliases are an array, not {json.dumps(aliases)}")
    for alias in aliases:
        _check_name(alias, pattern)


def _check_name(name: Any, pattern: re.Pattern[str]) -> None:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise _SchemaError(f"{json.dumps(name)} is not a name")


def _check_different(names: Iterable[str], complaint: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _SchemaError(complaint.format(json.dumps(name)))
        seen.add(name)


def _essence(schema: Any) -> Any:
    """The schema with `"string"` for `{"type": "string"}`, but not in default values."""
    if isinstance(schema, list):
        return [_essence(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if set(schema) == {"type"} and isinstance(schema["type"], str):
        return schema["type"]
    result = dict(schema)
    for name in ("items", "values"):
        if name in result:
            result[name] = _essence(result[name])
    if isinstance(result.get("fields"), list):
        result["fields"] = [{**field, "type": _essence(field["type"])} for field in result["fields"]]
    return result


def _invalid(reason: str) -> HeadraceError:
    return HeadraceError(
        "invalid_schema",
        f"The schema is not valid Avro: {reason}.",
        remedy="Correct the schema and register it again.",
    )
