"""JSON schemas as graphs: every schema is a node, every `$ref` leads to one, a recursive schema is a cycle.

A node has one kind. A schema that says several things, such as a type and `anyOf`, is a node of kind COMBINED
that requires all of them, as in the library that Confluent's registry uses. Nodes are compared by identity,
since comparing cycles by content would not end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

TRUE: Final = "true"
FALSE: Final = "false"
EMPTY: Final = "empty"
REFERENCE: Final = "reference"
ENUM: Final = "enum"
CONST: Final = "const"
COMBINED: Final = "combined"
NOT: Final = "not"
STRING: Final = "string"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
NULL: Final = "null"
OBJECT: Final = "object"
ARRAY: Final = "array"
CONDITIONAL: Final = "conditional"

ALL: Final = "allOf"
ANY: Final = "anyOf"
ONE: Final = "oneOf"


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One schema. Attributes that its kind does not have are empty."""

    kind: str
    # The schema as it was written, for keywords with simple values.
    keywords: dict[str, Any] = field(default_factory=dict)
    has_default: bool = False
    # Where a reference leads; filled when all nodes are there.
    target: Node | None = None
    # Of COMBINED.
    criterion: str = ""
    parts: list[Node] = field(default_factory=list)
    # Of NOT.
    negated: Node | None = None
    # Of ENUM and CONST, as canonical JSON.
    values: frozenset[str] = frozenset()
    is_integer: bool = False
    # Of OBJECT. Additional properties are all allowed (None), or those that fit a schema.
    properties: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    patterns: list[tuple[str, Node]] = field(default_factory=list)
    needed_with: dict[str, frozenset[str]] = field(default_factory=dict)
    applied_with: dict[str, Node] = field(default_factory=dict)
    # Of OBJECT and ARRAY.
    additional: Node | None = None
    unevaluated: Node | None = None
    # Of ARRAY: a schema for each of the first items, or one for all.
    items: list[Node] = field(default_factory=list)
    every_item: Node | None = None

    @property
    def is_open(self) -> bool:
        """Whether anything may be added to what an object or an array names."""
        if self.additional is not None or self.patterns:
            return False
        return self.unevaluated is None or self.unevaluated.accepts_all

    @property
    def accepts_all(self) -> bool:
        return self.kind in {TRUE, EMPTY}


def resolved(node: Node) -> Node:
    """The schema itself, if the node is a reference."""
    while node.target is not None:
        node = node.target
    return node
