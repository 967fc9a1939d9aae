"""The canonical form of Avro schemas: what Avro's Java library, and so Confluent's registry, prints.

Attributes come in Java's order, names are short inside their own namespace, `{"type":"string"}` is
`"string"`, and what Java does not keep (attributes that mean nothing where they stand, `"order":"ascending"`)
is left out. The normalised form also sorts what has no order: aliases and additional properties. With
`inlined`, types of references are written out where they are first used. Never checks a schema: `reading.py`
has found it valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.registry.avro.schema_tree import PRIMITIVES

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_SCHEMA_ATTRIBUTES: Final = frozenset(
    {"type", "name", "namespace", "doc", "fields", "items", "values", "size", "symbols", "aliases"}
)
_FIELD_ATTRIBUTES: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})


def canonical(
    schema: Any,
    *,
    known: Iterable[str] = (),
    normalized: bool = False,
    inlined: Mapping[str, Any] | None = None,
) -> Any:
    """`known` are the full names of types that references define; `inlined` has their canonical forms."""
    return _Writer(known, normalized=normalized, inlined=inlined or {}).schema(schema, "")


def definitions(schema: Any) -> dict[str, Any]:
    """The types that a canonical schema defines, by full name."""
    found: dict[str, Any] = {}
    ahead = [(schema, "")]
    while ahead:
        node, namespace = ahead.pop()
        if isinstance(node, list):
            ahead += [(branch, namespace) for branch in node]
        elif isinstance(node, dict):
            if node["type"] in _NAMED:
                full = _full(node["name"], node.get("namespace", namespace))
                found[full] = node
                namespace = full.rpartition(".")[0]
                ahead += [(field["type"], namespace) for field in node.get("fields", ())]
            ahead += [(node[name], namespace) for name in ("items", "values") if name in node]
    return found


class _Writer:
    def __init__(self, known: Iterable[str], *, normalized: bool, inlined: Mapping[str, Any]) -> None:
        self._known = set(known)
        self._normalized = normalized
        self._inlined = inlined

    def schema(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return [self.schema(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self._mentioned(schema, namespace)
        kind = schema["type"]
        if kind in _NAMED:
            return self._defined(schema, namespace)
        more = self._properties(schema, _SCHEMA_ATTRIBUTES)
        if kind in {"array", "map"}:
            inner = "items" if kind == "array" else "values"
            return {"type": kind, inner: self.schema(schema[inner], namespace), **more}
        if kind not in PRIMITIVES:
            return self._mentioned(kind, namespace)
        return {"type": kind, **more} if more else kind

    def _mentioned(self, name: str, namespace: str) -> Any:
        full = _full(name, namespace)
        if full not in self._known and name in self._known:
            full = name
        if full in self._inlined and full not in self._known:
            return self._defined(self._inlined[full], namespace, full)
        return _short(full, namespace)

    def _defined(self, schema: Mapping[str, Any], namespace: str, full: str = "") -> dict[str, Any]:
        full = full or _full(schema["name"], schema.get("namespace", namespace) or "")
        self._known.add(full)
        kind, (own, _, name) = schema["type"], full.rpartition(".")
        result: dict[str, Any] = {"type": kind, "name": name}
        if own != namespace:
            result["namespace"] = own
        if isinstance(schema.get("doc"), str) and (schema["doc"] or not self._normalized):
            result["doc"] = schema["doc"]
        reserved = _SCHEMA_ATTRIBUTES
        if kind == "enum":
            reserved = reserved | {"default"}
            result["symbols"] = schema["symbols"]
            if schema.get("default") is not None:
                result["default"] = schema["default"]
        elif kind == "fixed":
            result["size"] = schema["size"]
        else:
            result["fields"] = [self._field(field, own) for field in schema["fields"]]
        result |= self._properties(schema, reserved)
        aliases = [_short(_full(alias, own), own) for alias in schema.get("aliases") or ()]
        return result | self._aliases(aliases)

    def _field(self, field: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        result = {"name": field["name"], "type": self.schema(field["type"], namespace)}
        if isinstance(field.get("doc"), str):
            result["doc"] = field["doc"]
        if "default" in field:
            result["default"] = field["default"]
        if str(field.get("order", "ascending")).lower() != "ascending":
            result["order"] = str(field["order"]).lower()
        result |= self._aliases(list(field.get("aliases") or ()))
        return result | self._properties(field, _FIELD_ATTRIBUTES)

    def _aliases(self, aliases: list[str]) -> dict[str, Any]:
        different = list(dict.fromkeys(aliases))
        return {"aliases": sorted(different) if self._normalized else different} if aliases else {}

    def _properties(self, schema: Mapping[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
        # Java drops properties without a value.
        there = {name: value for name, value in schema.items() if name not in reserved and value is not None}
        return dict(sorted(there.items())) if self._normalized else there


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _short(full: str, namespace: str) -> str:
    own, _, name = full.rpartition(".")
    return name if own == namespace else full
