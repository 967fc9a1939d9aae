"""Reads Avro schemas: whether a text is valid, its canonical form, and whether two schemas are the same.

Invariants: Avro's Java library accepts every schema that passes (fastavro accepts a few that Java rejects;
those are checked here). Texts have the same identity if their canonical forms (`canonical.py`) differ at most
in the order of additional properties. Types of other schemas are known only through the references given.
Never checks whether two schemas are compatible (`resolution.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from headrace.registry.avro.canonical import canonical, definitions
from headrace.registry.avro.schema_tree import Node, TreeReader
from headrace.registry.json_reading import compact, read_json
from headrace.registry.schema import AVRO, Reference, Referenced, Schema, invalid_schema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def read_avro(
    text: str,
    references: Sequence[Reference] = (),
    referenced: Sequence[Referenced] = (),
    *,
    normalized: bool = False,
) -> Schema[Node]:
    """`referenced` are the schemas behind the references, each after those that it needs itself.

    Raises invalid_schema with the reason.
    """
    try:
        names: dict[str, Any] = {}
        reader = TreeReader()
        inlined: dict[str, Any] = {}
        for each in referenced:
            other = read_json(each.text, AVRO)
            parse_schema(other, named_schemas=names, _write_hint=False, _force=True)
            reader.node(other, "")
            inlined |= definitions(canonical(other, known=inlined))
        schema = read_json(text, AVRO)
        _check(schema)
        parse_schema(schema, named_schemas=names, _write_hint=False, _force=True)
        form = canonical(schema, known=inlined, normalized=normalized)
        root = reader.node(schema, "")
        whole = compact(canonical(schema, inlined=inlined)) if referenced else ""
    except UnknownType as error:
        raise _invalid(f"the type {error} is not known") from error
    except KeyError as error:
        raise _invalid(f"the attribute {error} is missing") from error
    except RecursionError as error:
        raise _invalid("it is nested too deeply") from error
    except (SchemaParseException, _SchemaError, TypeError, ValueError, AttributeError) as error:
        # On input that is no schema at all, fastavro fails with Python's own errors.
        raise _invalid(str(error)) from error
    return Schema(
        schema_type=AVRO,
        text=compact(form),
        references=tuple(references),
        identity=_identity(form),
        content=root,
        inlined=whole,
        inlined_identity=_identity(json.loads(whole)) if whole else "",
    )


def _identity(form: Any) -> str:
    return json.dumps(form, sort_keys=True)


class _SchemaError(Exception):
    """Something that fastavro accepts and Avro does not."""


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


def _invalid(reason: str) -> Exception:
    return invalid_schema(AVRO, reason)
