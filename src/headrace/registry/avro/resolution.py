"""Whether data written with one Avro schema can be read with another, by Avro's schema resolution rules.

One walk over all pairs of types that a reader may meet. Which branch of a reader's union a type selects
depends only on kinds and names, so nothing has to be tried: two schemas fit if no reachable pair has a fault.
A pair already seen is not visited again, which ends recursion.

Where Avro's specification leaves room, this requires what all readers can do, not just some:
- A field of the writer feeds one field of the reader: the one with its name, or else one that has it as an
  alias. Two fields that feed the same one are a fault (Java's reader rejects them).
- In a reader's union, the first matching branch must fit, and so must the branch with the same full name:
  readers differ in which of them they select. A schema always reads itself: no reader resolves it then.
- Decimals keep their scale, and their precision does not shrink, since the digits would mean another number.
  Other logical types are ignored, as in Avro.
Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from headrace.registry.avro.schema_tree import Field, Node

NAME_MISMATCH: Final = "NAME_MISMATCH"
FIXED_SIZE_MISMATCH: Final = "FIXED_SIZE_MISMATCH"
MISSING_ENUM_SYMBOLS: Final = "MISSING_ENUM_SYMBOLS"
READER_FIELD_MISSING_DEFAULT_VALUE: Final = "READER_FIELD_MISSING_DEFAULT_VALUE"
TYPE_MISMATCH: Final = "TYPE_MISMATCH"
MISSING_UNION_BRANCH: Final = "MISSING_UNION_BRANCH"

_PROMOTIONS: Final = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_NAMED: Final = frozenset({"record", "enum", "fixed"})
# Types that refer to each other in all ways have as many pairs as their product.
_MOST_PAIRS: Final = 100_000
_MOST_FAULTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why data cannot be read: the kind, named as in Avro's Java library, and the place in the reader."""

    kind: str
    # As Avro's Java library writes it, `/fields/0/type`.
    location: str
    reason: str
    # The field as a user would name it, `address.city`; empty if the place is not a field.
    field: str


def faults(reader: Node, writer: Node) -> list[Fault]:
    """Why data written with `writer` cannot be read with `reader`; empty if it can."""
    if _are_same(reader, writer):
        return []
    walk = _Walk()
    walk.run(reader, writer)
    return walk.found


@dataclass(frozen=True, slots=True)
class _Place:
    location: str = ""
    field: str = ""

    def down(self, part: str) -> _Place:
        return _Place(f"{self.location}/{part}", self.field)

    def into(self, index: int, name: str) -> _Place:
        field = f"{self.field}.{name}" if self.field else name
        return _Place(f"{self.location}/fields/{index}/type", field)


class _Walk:
    def __init__(self) -> None:
        self.found: list[Fault] = []
        self._seen: set[tuple[Node, Node]] = set()
        self._indexes: dict[Node, dict[str, list[int]]] = {}
        # A schema may be nested as deeply as Python's stack allows, so the walk must not recurse.
        self._ahead: deque[tuple[Node, Node, _Place]] = deque()

    def run(self, reader: Node, writer: Node) -> None:
        self._visit(reader, writer, _Place())
        while self._ahead:
            if len(self._seen) > _MOST_PAIRS or len(self.found) > _MOST_FAULTS:
                self._fault(TYPE_MISMATCH, _Place(), "the schemas are too large to be compared further")
                return
            self._look(*self._ahead.popleft())

    def _visit(self, reader: Node, writer: Node, place: _Place) -> None:
        if (reader, writer) not in self._seen:
            self._seen.add((reader, writer))
            self._ahead.append((reader, writer, place))

    def _look(self, reader: Node, writer: Node, place: _Place) -> None:
        if writer.kind == "union":
            for number, branch in enumerate(writer.inner):
                self._visit(reader, branch, place.down(str(number)) if reader.kind == "union" else place)
        elif reader.kind == "union":
            self._visit_branches(reader, writer, place)
        elif reader.kind == writer.kind:
            self._visit_same_kind(reader, writer, place)
        elif reader.kind not in _PROMOTIONS.get(writer.kind, ()):
            what = (
                f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
            )
            self._fault(TYPE_MISMATCH, place, what)

    def _visit_branches(self, reader: Node, writer: Node, place: _Place) -> None:
        index = self._indexes.get(reader)
        if index is None:
            index = self._indexes[reader] = _index(reader)
        # A union may have thousands of branches: only those that may match are looked at.
        keys = [writer.short_name, writer.name] if writer.kind in _NAMED else [writer.kind]
        keys += _PROMOTIONS.get(writer.kind, ())
        places = sorted({place for key in keys for place in index.get(key, ())})
        matching = [reader.inner[place] for place in places if _matches(reader.inner[place], writer)]
        if not matching:
            named = f" {writer.name}" if writer.name else ""
            self._fault(
                MISSING_UNION_BRANCH, place, f"reader union lacking writer type: {writer.kind.upper()}{named}"
            )
            return
        same_name = [branch for branch in matching if branch.name and branch.name == writer.name]
        for branch in dict.fromkeys((matching[0], *same_name)):
            self._visit(branch, writer, place)

    def _visit_same_kind(self, reader: Node, writer: Node, place: _Place) -> None:
        if reader.kind in _NAMED and not _same_name(reader, writer):
            self._fault(NAME_MISMATCH, place.down("name"), f"expected: {writer.name}")
        if reader.kind == "array":
            self._visit(reader.inner[0], writer.inner[0], place.down("items"))
        elif reader.kind == "map":
            self._visit(reader.inner[0], writer.inner[0], place.down("values"))
        elif reader.kind == "record":
            self._visit_fields(reader, writer, place)
        elif reader.kind == "enum":
            missing = sorted(set(writer.symbols) - set(reader.symbols))
            if missing and reader.default_symbol not in reader.symbols:
                self._fault(MISSING_ENUM_SYMBOLS, place.down("symbols"), f"[{', '.join(missing)}]")
        elif reader.kind == "fixed" and reader.size != writer.size:
            what = f"expected: {writer.size}, found: {reader.size}"
            self._fault(FIXED_SIZE_MISMATCH, place.down("size"), what)
        self._check_decimal(reader, writer, place)

    def _visit_fields(self, reader: Node, writer: Node, place: _Place) -> None:
        sources = _sources(reader, writer)
        for index, wanted in enumerate(reader.fields):
            inside = place.into(index, wanted.name)
            found = sources.get(wanted.name, [])
            if len(found) > 1:
                names = ", ".join(f"'{each.name}'" for each in found)
                self._fault(NAME_MISMATCH, inside, f"its name and aliases match several fields: {names}")
            elif found:
                self._visit(wanted.type, found[0].type, inside)
            elif not wanted.has_default:
                at = _Place(f"{place.location}/fields/{index}", inside.field)
                self._fault(READER_FIELD_MISSING_DEFAULT_VALUE, at, wanted.name)

    def _check_decimal(self, reader: Node, writer: Node, place: _Place) -> None:
        ours, theirs = reader.decimal, writer.decimal
        if ours is None or theirs is None:
            return
        if ours.scale != theirs.scale or ours.precision < theirs.precision:
            what = (
                f"reader type: DECIMAL({ours.precision}, {ours.scale}) not compatible with "
                f"writer type: DECIMAL({theirs.precision}, {theirs.scale})"
            )
            self._fault(TYPE_MISMATCH, place, what)

    def _fault(self, kind: str, place: _Place, reason: str) -> None:
        self.found.append(Fault(kind=kind, location=place.location or "/", reason=reason, field=place.field))


def _are_same(one: Node, other: Node) -> bool:
    """Whether both describe the same types in the same places."""
    seen: set[tuple[Node, Node]] = set()
    ahead = [(one, other)]
    while ahead:
        pair = ahead.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if _own(pair[0]) != _own(pair[1]):
            return False
        ahead += zip(pair[0].inner, pair[1].inner, strict=True)
        ahead += ((a.type, b.type) for a, b in zip(pair[0].fields, pair[1].fields, strict=True))
    return True


def _own(node: Node) -> tuple[object, ...]:
    """What a type says itself, without the types in it."""
    names = tuple(field.name for field in node.fields)
    return (node.kind, node.name, node.symbols, node.size, node.decimal, len(node.inner), names)


def _sources(reader: Node, writer: Node) -> dict[str, list[Field]]:
    """The fields of the writer, by the field of the reader that each feeds."""
    names = {wanted.name for wanted in reader.fields}
    aliases = {alias: wanted.name for wanted in reader.fields for alias in wanted.aliases}
    found: dict[str, list[Field]] = {}
    for each in writer.fields:
        target = each.name if each.name in names else aliases.get(each.name)
        if target is not None:
            found.setdefault(target, []).append(each)
    return found


def _index(union: Node) -> dict[str, list[int]]:
    """The places of branches by what makes them match: short names and aliases, or kinds."""
    found: dict[str, list[int]] = {}
    for place, branch in enumerate(union.inner):
        keys = {branch.short_name, *branch.aliases} if branch.kind in _NAMED else {branch.kind}
        for key in keys:
            found.setdefault(key, []).append(place)
    return found


def _matches(reader: Node, writer: Node) -> bool:
    """Whether a branch of a reader's union can read that type."""
    if reader.kind != writer.kind:
        return reader.kind in _PROMOTIONS.get(writer.kind, ())
    if reader.kind not in _NAMED:
        return True
    return _same_name(reader, writer) and reader.size == writer.size


def _same_name(reader: Node, writer: Node) -> bool:
    return reader.short_name == writer.short_name or writer.name in reader.aliases
