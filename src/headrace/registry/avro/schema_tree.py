"""Avro schemas as trees: every use of a name refers to its definition, so a recursive schema is a cycle.

Made from the JSON of a schema that `reading.py` has found valid. Nodes are compared by identity, since
comparing cycles by content would not end. Names and aliases include their namespace, if they have one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_RECORDS: Final = frozenset({"record", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal:
    precision: int
    scale: int


@dataclass(slots=True, kw_only=True, eq=False)
class Field:
    name: str
    type: Node
    has_default: bool
    aliases: tuple[str, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One type. Attributes that its kind does not have are empty."""

    kind: str
    name: str = ""
    aliases: frozenset[str] = frozenset()
    # Filled after the node is registered by name: a field may refer to it.
    fields: list[Field] = field(default_factory=list)
    # The branches of a union, or the type of an array's items or a map's values.
    inner: tuple[Node, ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    decimal: Decimal | None = None

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


class TreeReader:
    """Types read by one reader are known to the schemas that it reads later."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def node(self, schema: Any, namespace: str) -> Node:  # noqa: PLR0911 - one for each shape
        if isinstance(schema, list):
            return Node(kind="union", inner=tuple(self.node(branch, namespace) for branch in schema))
        if isinstance(schema, str):
            return Node(kind=schema) if schema in PRIMITIVES else self._mentioned(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace)
        if kind in PRIMITIVES:
            return Node(kind=kind, decimal=_decimal(schema))
        if kind == "array":
            return Node(kind=kind, inner=(self.node(schema["items"], namespace),))
        if kind == "map":
            return Node(kind=kind, inner=(self.node(schema["values"], namespace),))
        if kind in _RECORDS or kind in {"enum", "fixed"}:
            return self._defined(schema, namespace)
        return self._mentioned(kind, namespace)

    def _mentioned(self, name: str, namespace: str) -> Node:
        full = _full(name, namespace)
        return self._named[full] if full in self._named else self._named[name]

    def _defined(self, schema: dict[str, Any], namespace: str) -> Node:
        full = _full(schema["name"], schema.get("namespace", namespace) or "")
        own = full.rpartition(".")[0]
        node = Node(
            kind="record" if schema["type"] in _RECORDS else schema["type"],
            name=full,
            aliases=frozenset(_full(alias, own) for alias in schema.get("aliases") or ()),
            symbols=tuple(schema.get("symbols") or ()),
            default_symbol=schema.get("default") if schema["type"] == "enum" else None,
            size=schema.get("size", 0),
            decimal=_decimal(schema) if schema["type"] == "fixed" else None,
        )
        self._named[full] = node
        for each in schema.get("fields") or ():
            node.fields.append(
                Field(
                    name=each["name"],
                    type=self.node(each["type"], own),
                    has_default="default" in each,
                    aliases=tuple(each.get("aliases") or ()),
                )
            )
        return node


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _decimal(schema: dict[str, Any]) -> Decimal | None:
    """None also for a decimal with invalid numbers, which Avro reads as plain bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or schema["type"] not in {"bytes", "fixed"}:
        return None
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return None
    return Decimal(precision=precision, scale=scale)
