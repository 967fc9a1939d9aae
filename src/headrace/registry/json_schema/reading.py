"""Reads JSON schemas of drafts 4 to 2020-12; without `$schema`, of draft 7, as in Confluent's registry.

A `$ref` leads to a place in the same document, to a schema in it with that `$id` or anchor, or to a reference
with that name. Nothing is fetched: any other `$ref` is invalid, except to a published meta-schema, which
accepts everything here. Unknown keywords are allowed. Invariant: of equal texts, up to white space, the
canonical forms are equal. The normalised form also sorts attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.registry.json_reading import compact, read_json
from headrace.registry.json_schema.documents import Documents
from headrace.registry.json_schema.keywords import (
    ARRAY_KEYWORDS,
    CHECKS,
    NUMBER_KEYWORDS,
    OBJECT_KEYWORDS,
    STRING_KEYWORDS,
    TYPES,
)
from headrace.registry.json_schema.model import (
    ALL,
    ANY,
    ARRAY,
    BOOLEAN,
    COMBINED,
    CONDITIONAL,
    CONST,
    EMPTY,
    ENUM,
    FALSE,
    NOT,
    NULL,
    NUMBER,
    OBJECT,
    ONE,
    REFERENCE,
    STRING,
    TRUE,
    Node,
)
from headrace.registry.schema import JSON, Reference, Referenced, Schema, invalid_schema

_ALL_OF_SIBLINGS: Final = ("2019-09", "2020-12")
_PREFIX_ITEMS: Final = ("2020-12",)
_NO_CHECK: Final[tuple[Callable[[Any], bool], str]] = (lambda _: True, "")


def read_json_schema(
    text: str,
    references: Sequence[Reference] = (),
    referenced: Sequence[Referenced] = (),
    *,
    normalized: bool = False,
) -> Schema[Node]:
    """Raises invalid_schema with the reason."""
    content = read_json(text, JSON)
    named = {each.name: read_json(each.text, JSON) for each in referenced}
    try:
        root = _Reader(content, named).read()
    except _SchemaError as error:
        raise invalid_schema(JSON, str(error)) from error
    except RecursionError as error:
        raise invalid_schema(JSON, "it is nested too deeply") from error
    canonical = compact(content, sort_keys=normalized)
    return Schema(
        schema_type=JSON, text=canonical, references=tuple(references), identity=canonical, content=root
    )


class _SchemaError(Exception):
    """Not a valid schema; the message says where and why."""


class _Reader:
    def __init__(self, content: Any, named: dict[str, Any]) -> None:
        self._content = content
        self._documents = Documents(content, named)
        dialect = str(content.get("$schema", "")) if isinstance(content, dict) else ""
        self._siblings_count = any(each in dialect for each in _ALL_OF_SIBLINGS)
        self._has_prefix_items = any(each in dialect for each in _PREFIX_ITEMS)
        # By identity of the object that was read; references may lead to one that others contain.
        self._nodes: dict[int, Node] = {}
        self._open_references: list[tuple[Node, dict[str, Any]]] = []

    def read(self) -> Node:
        root = self._node(self._content, "#")
        self._read_definitions()
        # Reading what a reference leads to may find more references.
        done = 0
        while done < len(self._open_references):
            node, holder = self._open_references[done]
            done += 1
            reference = holder["$ref"]
            try:
                found = self._documents.find(reference, holder)
            except KeyError as error:
                raise _SchemaError(f'the $ref "{reference}" leads nowhere') from error
            node.target = self._node(found, reference)
        for node, holder in self._open_references:
            _shorten(node, holder["$ref"])
        return root

    def _read_definitions(self) -> None:
        """What nobody refers to must be valid too."""
        if isinstance(self._content, dict):
            for name in ("definitions", "$defs"):
                for key, each in self._content.get(name, {}).items():
                    self._node(each, f"#/{name}/{key}")

    def _node(self, content: Any, place: str) -> Node:
        if isinstance(content, bool):
            return Node(kind=TRUE if content else FALSE)
        if not isinstance(content, dict):
            raise _SchemaError(
                f"at {place}, a schema is an object, true or false, not {compact(content)[:100]}"
            )
        known = self._nodes.get(id(content))
        if known is None:
            known = self._read_object(content, place)
        return known

    def _read_object(self, content: dict[str, Any], place: str) -> Node:
        for name, value in content.items():
            is_right, what = CHECKS.get(name, _NO_CHECK)
            if not is_right(value):
                raise _SchemaError(f"at {place}, {name} must be {what}, not {compact(value)[:100]}")
        if "$ref" in content and not self._siblings_count:
            node = self._reference(content)
            self._nodes[id(content)] = node
            return node
        # Known before its parts are read, for it may contain itself only by a reference, which is read later.
        parts = [part for extract in self._extractors() for part in extract(content, place)]
        if not parts:
            node = Node(kind=EMPTY)
        elif len(parts) == 1:
            node = parts[0]
        else:
            node = Node(kind=COMBINED, criterion=ALL, parts=parts)
        node.keywords = content
        node.has_default = "default" in content
        self._nodes[id(content)] = node
        return node

    def _reference(self, content: dict[str, Any]) -> Node:
        node = Node(kind=REFERENCE, keywords=content, has_default="default" in content)
        self._open_references.append((node, content))
        return node

    def _extractors(self) -> list[Callable[[dict[str, Any], str], list[Node]]]:
        return [
            self._referring,
            self._enum,
            self._combined,
            self._not,
            self._const,
            self._typed,
            self._conditional,
        ]

    def _referring(self, content: dict[str, Any], _: str) -> list[Node]:
        return [self._reference(content)] if "$ref" in content else []

    def _enum(self, content: dict[str, Any], _: str) -> list[Node]:
        if "enum" not in content:
            return []
        return [Node(kind=ENUM, values=frozenset(_same_value(each) for each in content["enum"]))]

    def _const(self, content: dict[str, Any], _: str) -> list[Node]:
        if "const" not in content:
            return []
        return [Node(kind=CONST, values=frozenset({_same_value(content["const"])}))]

    def _combined(self, content: dict[str, Any], place: str) -> list[Node]:
        return [
            Node(
                kind=COMBINED,
                criterion=criterion,
                parts=self._list(content[criterion], f"{place}/{criterion}"),
            )
            for criterion in (ALL, ANY, ONE)
            if criterion in content
        ]

    def _not(self, content: dict[str, Any], place: str) -> list[Node]:
        if "not" not in content:
            return []
        return [Node(kind=NOT, negated=self._node(content["not"], f"{place}/not"))]

    def _conditional(self, content: dict[str, Any], place: str) -> list[Node]:
        there = [name for name in ("if", "then", "else") if name in content]
        for name in there:
            self._node(content[name], f"{place}/{name}")
        return [Node(kind=CONDITIONAL, keywords=content)] if there else []

    def _typed(self, content: dict[str, Any], place: str) -> list[Node]:
        types = content.get("type")
        if types is None:
            kinds = {
                ARRAY: ARRAY_KEYWORDS,
                OBJECT: OBJECT_KEYWORDS,
                NUMBER: NUMBER_KEYWORDS,
                STRING: STRING_KEYWORDS,
            }
            return [
                self._of_type(kind, content, place) for kind, names in kinds.items() if names & content.keys()
            ]
        if isinstance(types, str):
            return [self._of_type(types, content, place)]
        parts = [self._of_type(each, content, place) for each in types]
        return [Node(kind=COMBINED, criterion=ANY, parts=parts)]

    def _of_type(self, name: str, content: dict[str, Any], place: str) -> Node:
        assert name in TYPES
        if name == "object":
            return self._object(content, place)
        if name == "array":
            return self._array(content, place)
        kinds = {"string": STRING, "boolean": BOOLEAN, "null": NULL}
        return Node(kind=kinds.get(name, NUMBER), keywords=content, is_integer=name == "integer")

    def _object(self, content: dict[str, Any], place: str) -> Node:
        needed: dict[str, frozenset[str]] = {}
        applied: dict[str, Node] = {}
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            for name, each in content.get(keyword, {}).items():
                if isinstance(each, list):
                    needed[name] = frozenset(each)
                else:
                    applied[name] = self._node(each, f"{place}/{keyword}/{name}")
        if "propertyNames" in content:
            self._node(content["propertyNames"], f"{place}/propertyNames")
        required = content.get("required", [])
        return Node(
            kind=OBJECT,
            keywords=content,
            properties=self._named(content, "properties", place),
            required=frozenset(required if isinstance(required, list) else ()),
            patterns=list(self._named(content, "patternProperties", place).items()),
            needed_with=needed,
            applied_with=applied,
            additional=self._restriction(content, "additionalProperties", place),
            unevaluated=self._optional(content, "unevaluatedProperties", place),
        )

    def _array(self, content: dict[str, Any], place: str) -> Node:
        items = content.get("items")
        # Up to draft 2019-09 an array of schemas is for the first items; then `items` is for the others.
        first, others = ("prefixItems", "items") if self._has_prefix_items else ("items", "additionalItems")
        has_first = isinstance(content.get(first), list)
        if "contains" in content:
            self._node(content["contains"], f"{place}/contains")
        every = self._node(items, f"{place}/items") if _is_schema(items) and not has_first else None
        additional = None
        if has_first or not self._has_prefix_items:
            additional = self._restriction(content, others, place)
        return Node(
            kind=ARRAY,
            keywords=content,
            items=self._list(content[first], f"{place}/{first}") if has_first else [],
            every_item=every,
            additional=additional,
            unevaluated=self._optional(content, "unevaluatedItems", place),
        )

    def _list(self, contents: list[Any], place: str) -> list[Node]:
        return [self._node(each, f"{place}/{number}") for number, each in enumerate(contents)]

    def _named(self, content: dict[str, Any], keyword: str, place: str) -> dict[str, Node]:
        there = content.get(keyword, {})
        return {name: self._node(each, f"{place}/{keyword}/{name}") for name, each in there.items()}

    def _optional(self, content: dict[str, Any], keyword: str, place: str) -> Node | None:
        return self._node(content[keyword], f"{place}/{keyword}") if keyword in content else None

    def _restriction(self, content: dict[str, Any], keyword: str, place: str) -> Node | None:
        """None if the keyword is missing or true."""
        node = self._optional(content, keyword, place)
        return None if node is None or node.kind == TRUE else node


def _shorten(node: Node, reference: str) -> None:
    """Makes a reference to a reference lead to where that one leads."""
    passed: dict[Node, None] = {}
    while node.target is not None:
        if node in passed:
            raise _SchemaError(f'the $ref "{reference}" leads back to itself')
        passed[node] = None
        node = node.target
    for each in passed:
        each.target = node


def _is_schema(content: Any) -> bool:
    return isinstance(content, bool | dict)


def _same_value(value: Any) -> str:
    """Equal for values that JSON Schema takes for equal, such as 1 and 1.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return compact(value, sort_keys=True)
