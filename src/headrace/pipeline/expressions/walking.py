"""Traverses and rewrites trees of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from headrace.pipeline.statements.expressions import ColumnReference, Expression, Node

_N = TypeVar("_N", bound=Node)


def parts(node: Node) -> Iterator[Node]:
    """The direct children of a node, in the order in which they are written."""
    for each in fields(node):
        yield from _nodes(getattr(node, each.name))


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)


def walk(node: Node) -> Iterator[Node]:
    """The node and all its descendants, parents first."""
    yield node
    for part in parts(node):
        yield from walk(part)


def changed(node: _N, change: Callable[[Node], Node | None]) -> _N:
    """The tree with every node replaced for which `change` returns a replacement.

    Parents come first; replacements are not searched again.
    """
    return _changed(node, change)  # type: ignore[no-any-return]


def _changed(value: Any, change: Callable[[Node], Node | None]) -> Any:
    if isinstance(value, tuple):
        return tuple(_changed(each, change) for each in value)
    if not isinstance(value, Node):
        return value
    put = change(value)
    if put is not None:
        return put
    new = {}
    for each in fields(value):
        before = getattr(value, each.name)
        after = _changed(before, change)
        if after is not before and after != before:
            new[each.name] = after
    return replace(value, **new) if new else value


def columns_in(node: Expression) -> tuple[ColumnReference, ...]:
    return tuple(each for each in walk(node) if isinstance(each, ColumnReference))
