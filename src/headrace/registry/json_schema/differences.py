"""Compares JSON schemas: in which ways what one accepts may not be accepted by the other.

The rules and the names of differences are those of Confluent's registry under its strict policy, which users
know. They compare keyword by keyword and are careful: of a change whose effect they do not see, they say that
it is not compatible. Compatible differences are not reported.

A pair of schemas is compared once. One that is met again while it is being compared, which recursive schemas
lead to, is taken for compatible, and all is compared again until that assumption has held. Invariant: the
work is bounded, whatever the schemas are (`TooLargeError`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import re2

from headrace.registry.json_schema.matching import can_match_all
from headrace.registry.json_schema.model import (
    ALL,
    ANY,
    ARRAY,
    COMBINED,
    CONST,
    EMPTY,
    ENUM,
    FALSE,
    NOT,
    NUMBER,
    OBJECT,
    ONE,
    STRING,
    TRUE,
    Node,
    resolved,
)

_MOST_COMPARISONS: Final = 50_000
_DEEPEST: Final = 100
_MOST_REPORTED: Final = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """A change that is not compatible, and the place of it."""

    kind: str
    path: tuple[str, ...] = ()

    def below(self, *parts: str) -> Difference:
        return Difference(self.kind, (*parts, *self.path))


class TooLargeError(Exception):
    """The schemas are too large, or nested too deeply, to be compared."""


_Found = tuple[Difference, ...]
_Pair = tuple[Node, Node]


def differences(original: Node, update: Node) -> _Found:
    """Why something that `original` accepts may not be accepted by `update`. Raises TooLargeError."""
    assumed: dict[_Pair, _Found] = {}
    budget = [_MOST_COMPARISONS]
    while True:
        comparison = _Comparison(assumed, budget)
        found = comparison.compare(original, update)
        wrong = {pair: each for pair, each in comparison.known.items() if each}
        if not comparison.has_assumed or wrong.keys() == assumed.keys():
            return found
        assumed = wrong


class _Comparison:
    """One pass. `assumed` are pairs that an earlier pass has found incompatible."""

    def __init__(self, assumed: dict[_Pair, _Found], budget: list[int]) -> None:
        self.known: dict[_Pair, _Found] = {}
        self.has_assumed = False
        self._assumed = assumed
        self._budget = budget
        self._under_way: set[_Pair] = set()

    def compare(self, original: Node | None, update: Node | None) -> _Found:
        if update is None:
            return ()
        if original is None:
            return (Difference("SCHEMA_ADDED"),)
        pair = (resolved(original), resolved(update))
        known = self.known.get(pair)
        if known is not None:
            return known
        if pair in self._under_way:
            if pair in self._assumed:
                return self._assumed[pair]
            self.has_assumed = True
            return ()
        self._budget[0] -= 1
        if self._budget[0] < 0 or len(self._under_way) >= _DEEPEST:
            raise TooLargeError
        self._under_way.add(pair)
        try:
            found = self._compare(*pair)[:_MOST_REPORTED]
        finally:
            self._under_way.discard(pair)
        self.known[pair] = found
        return found

    def _compare(self, original: Node, update: Node) -> _Found:
        if self._fits_a_part(original, update):
            return ()
        if original.kind != update.kind:
            both_bytes = all(node.keywords.get("connect.type") == "bytes" for node in (original, update))
            is_fine = original.kind == FALSE or update.accepts_all or both_bytes
            return () if is_fine else (Difference("TYPE_CHANGED"),)
        rules: dict[str, Callable[[Node, Node], _Found]] = {
            STRING: _strings,
            NUMBER: _numbers,
            CONST: _constants,
            ENUM: _enumerations,
            COMBINED: self._combined,
            NOT: self._negations,
            OBJECT: self._objects,
            ARRAY: self._arrays,
        }
        rule = rules.get(original.kind)
        return rule(original, update) if rule is not None else ()

    def _fits_a_part(self, original: Node, update: Node) -> bool:
        """Whether a schema against a union, or a conjunction against one, is settled by one part."""
        if (original.kind == COMBINED) == (update.kind == COMBINED):
            return False
        if update.kind == COMBINED:
            if len(update.parts) > 1 and update.criterion == ALL:
                return False
            return any(not self.compare(original, part) for part in update.parts)
        if len(original.parts) > 1 and original.criterion != ALL:
            return False
        return any(not self.compare(part, update) for part in original.parts)

    def _combined(self, original: Node, update: Node) -> _Found:
        olds, news = _distinct(original.parts), _distinct(update.parts)
        is_single = len(original.parts) == 1, len(update.parts) == 1
        if original.criterion != update.criterion and not (
            update.criterion == ANY
            or all(is_single)
            or (is_single[0] and update.criterion == ONE)
            or (is_single[1] and original.criterion == ALL)
        ):
            return (Difference("COMBINED_TYPE_CHANGED"),)
        found: list[Difference] = []
        if len(olds) < len(news) and update.criterion == ALL:
            found.append(Difference("PRODUCT_TYPE_EXTENDED"))
        if len(olds) > len(news) and original.criterion in {ANY, ONE}:
            found.append(Difference("SUM_TYPE_NARROWED"))
        edges = [[not self.compare(old, new) for new in news] for old in olds]
        if not can_match_all(edges):
            found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED"))
        return tuple(found)

    def _negations(self, original: Node, update: Node) -> _Found:
        found = self.compare(update.negated, original.negated)
        return (Difference("NOT_TYPE_EXTENDED", ("not",)),) if found else ()

    def _objects(self, original: Node, update: Node) -> _Found:
        return (
            *_required(original, update),
            *self._properties(original, update),
            *self._dependencies(original, update),
            *self._additional(original, update, "additionalProperties", "ADDITIONAL_PROPERTIES"),
            *self._unevaluated(original, update, "unevaluatedProperties", "UNEVALUATED_PROPERTIES"),
            *_limits(
                original, update, ("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")
            ),
        )

    def _properties(self, original: Node, update: Node) -> _Found:
        found: list[Difference] = []
        for name in sorted({*original.properties, *update.properties}):
            old, new = original.properties.get(name), update.properties.get(name)
            if old is None:
                here = self._added(original, update, name)
            elif new is None:
                here = self._removed(update, old, _partial(update, name), "PROPERTY")
            else:
                here = self.compare(old, new)
            found += [each.below("properties", name) for each in here]
        return tuple(found)

    def _added(self, original: Node, update: Node, name: str) -> _Found:
        new = update.properties[name]
        is_required, has_default = name in update.required, new.has_default
        if original.is_open:
            if resolved(new).accepts_all:
                return ()
            kind = "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
            if is_required:
                with_default = "_WITH_DEFAULT" if has_default else ""
                kind = f"REQUIRED_PROPERTY{with_default}_ADDED_TO_OPEN_CONTENT_MODEL"
            return (Difference(kind),)
        found: list[Difference] = []
        partial = _partial(original, name)
        if partial is not None:
            not_covered = self.compare(partial, new)
            if not_covered:
                found += not_covered
                found.append(Difference("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"))
        if is_required and not has_default:
            found.append(Difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"))
        return tuple(found)

    def _removed(self, update: Node, old: Node, partial: Node | None, what: str) -> _Found:
        if update.is_open:
            return ()
        if partial is not None:
            not_covered = self.compare(old, partial)
            if not not_covered:
                return ()
            return (*not_covered, Difference(f"{what}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"))
        if resolved(old).kind == FALSE:
            return ()
        return (Difference(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL"),)

    def _dependencies(self, original: Node, update: Node) -> _Found:
        found: list[Difference] = []
        for name, needed in sorted(update.needed_with.items()):
            before = original.needed_with.get(name)
            if before is None:
                found.append(Difference("DEPENDENCY_ARRAY_ADDED", (name,)))
            elif not needed <= before:
                kind = "EXTENDED" if before < needed else "CHANGED"
                found.append(Difference(f"DEPENDENCY_ARRAY_{kind}", (name,)))
        for name, node in sorted(update.applied_with.items()):
            if name not in original.applied_with:
                found.append(Difference("DEPENDENCY_SCHEMA_ADDED", (name,)))
            else:
                found += [each.below(name) for each in self.compare(original.applied_with[name], node)]
        return tuple(each.below("dependencies") for each in found)

    def _additional(self, original: Node, update: Node, keyword: str, name: str) -> _Found:
        old, new = original.additional, update.additional
        old_is_closed, new_is_closed = _is_false(old), _is_false(new)
        here: _Found = ()
        if old_is_closed != new_is_closed:
            here = (Difference(f"{name}_REMOVED"),) if new_is_closed else ()
        elif old is None and new is not None:
            here = (Difference(f"{name}_NARROWED"),)
        elif old is not None and new is not None and not old_is_closed:
            here = self.compare(old, new)
        return tuple(each.below(keyword) for each in here)

    def _unevaluated(self, original: Node, update: Node, keyword: str, name: str) -> _Found:
        old, new = original.unevaluated, update.unevaluated
        here: _Found = ()
        if new is None or _is_false(old) or resolved(new).accepts_all:
            pass
        elif _is_false(new):
            here = (Difference(f"{name}_REMOVED"),)
        elif old is None or resolved(old).accepts_all:
            here = (Difference(f"{name}_NARROWED"),)
        else:
            here = self.compare(old, new)
        return tuple(each.below(keyword) for each in here)

    def _arrays(self, original: Node, update: Node) -> _Found:
        every = self.compare(original.every_item, update.every_item)
        return (
            *(each.below("items") for each in every),
            *self._items(original, update),
            *self._additional(original, update, "additionalItems", "ADDITIONAL_ITEMS"),
            *self._unevaluated(original, update, "unevaluatedItems", "UNEVALUATED_ITEMS"),
            *_limits(
                original,
                update,
                ("maxItems", "MAX_ITEMS"),
                ("minItems", "MIN_ITEMS"),
                ("maxContains", "MAX_CONTAINS"),
                ("minContains", "MIN_CONTAINS"),
            ),
            *_unique_items(original, update),
        )

    def _items(self, original: Node, update: Node) -> _Found:
        found: list[Difference] = []
        for number in range(max(len(original.items), len(update.items))):
            if number >= len(update.items):
                here = self._removed(update, original.items[number], _partial(update), "ITEM")
            elif number >= len(original.items):
                here = self._item_added(original, update.items[number])
            else:
                here = self.compare(original.items[number], update.items[number])
            found += [each.below("items", str(number)) for each in here]
        return tuple(found)

    def _item_added(self, original: Node, new: Node) -> _Found:
        if original.is_open:
            is_fine = resolved(new).accepts_all
            return () if is_fine else (Difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL"),)
        partial = _partial(original)
        not_covered = self.compare(partial, new) if partial is not None else ()
        if not not_covered:
            return ()
        return (*not_covered, Difference("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"))


def _is_false(node: Node | None) -> bool:
    return node is not None and resolved(node).kind == FALSE


def _partial(node: Node, name: str | None = None) -> Node | None:
    """The schema for what an object or an array does not name; None if it takes nothing, or anything."""
    for pattern, schema in node.patterns if name is not None else ():
        if _is_found(pattern, name or ""):
            return schema
    if node.additional is not None:
        return None if _is_false(node.additional) else node.additional
    if node.unevaluated is None or resolved(node.unevaluated).kind in {FALSE, TRUE, EMPTY}:
        return None
    return node.unevaluated


def _is_found(pattern: str, text: str) -> bool:
    # Not Python's `re`, whose time has no bound. What only it knows matches nothing here.
    try:
        return re2.search(pattern, text, options=_quiet()) is not None
    except re2.error:
        return False


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def _distinct(parts: list[Node]) -> list[Node]:
    """Without parts that are written in the same way as an earlier one."""
    found: list[Node] = []
    for part in parts:
        if not any(_is_written_alike(part, other) for other in found[:_MOST_REPORTED]):
            found.append(part)
    return found


def _is_written_alike(one: Node, other: Node) -> bool:
    same = one.kind == other.kind and bool(one.keywords) and one.keywords == other.keywords
    # Parts of a list of types have the same text.
    return same and one.is_integer == other.is_integer


def _required(original: Node, update: Node) -> _Found:
    return tuple(
        Difference("REQUIRED_ATTRIBUTE_ADDED", ("required", name))
        for name in sorted(original.properties.keys() & update.properties.keys())
        if name in update.required - original.required and not update.properties[name].has_default
    )


def _strings(original: Node, update: Node) -> _Found:
    found = _limits(original, update, ("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH"))
    old, new = original.keywords.get("pattern"), update.keywords.get("pattern")
    if new is not None and new != old:
        kind = "PATTERN_ADDED" if old is None else "PATTERN_CHANGED"
        found = (*found, Difference(kind, ("pattern",)))
    return found


def _numbers(original: Node, update: Node) -> _Found:
    found = _limits(
        original,
        update,
        ("maximum", "MAXIMUM"),
        ("minimum", "MINIMUM"),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    )
    old, new = original.keywords.get("multipleOf"), update.keywords.get("multipleOf")
    if new is not None and new != old:
        kind = "MULTIPLE_OF_ADDED" if old is None else _multiple(_exact(old), _exact(new))
        if kind:
            found = (*found, Difference(kind, ("multipleOf",)))
    if update.is_integer and not original.is_integer:
        found = (*found, Difference("TYPE_NARROWED"))
    return found


def _multiple(old: Fraction, new: Fraction) -> str:
    if old % new == 0:
        return ""
    return "MULTIPLE_OF_EXPANDED" if new % old == 0 else "MULTIPLE_OF_CHANGED"


def _exact(number: float) -> Fraction:
    """What was written: 0.1 is a tenth."""
    return Fraction(repr(number))


def _limits(original: Node, update: Node, *limits: tuple[str, str]) -> _Found:
    found: list[Difference] = []
    for keyword, name in limits:
        old, new = original.keywords.get(keyword), update.keywords.get(keyword)
        # In draft 4, exclusive limits are true or false, which Confluent's registry does not compare.
        if new is None or isinstance(new, bool):
            continue
        if old is None or isinstance(old, bool):
            found.append(Difference(f"{name}_ADDED", (keyword,)))
        elif keyword.lower().endswith(("minimum",)) or keyword.startswith("min"):
            if new > old:
                found.append(Difference(f"{name}_INCREASED", (keyword,)))
        elif new < old:
            found.append(Difference(f"{name}_DECREASED", (keyword,)))
    return tuple(found)


def _unique_items(original: Node, update: Node) -> _Found:
    is_new = bool(update.keywords.get("uniqueItems")) and not original.keywords.get("uniqueItems")
    return (Difference("UNIQUE_ITEMS_ADDED", ("uniqueItems",)),) if is_new else ()


def _constants(original: Node, update: Node) -> _Found:
    return () if original.values == update.values else (Difference("ENUM_ARRAY_CHANGED", ("const",)),)


def _enumerations(original: Node, update: Node) -> _Found:
    if original.values <= update.values:
        return ()
    kind = "NARROWED" if update.values < original.values else "CHANGED"
    return (Difference(f"ENUM_ARRAY_{kind}", ("enum",)),)
