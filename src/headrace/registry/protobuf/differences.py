"""Compares Protobuf schemas: which changes make data of one unreadable, or readable as something else.

The rules and the names of differences are those of Confluent's registry, which users know; stricter in one
case: a number that becomes a list of numbers is not compatible, also where no label was written, since a list
is packed. Compatible differences are not reported. A pair of messages is compared once; one that is met again
while it is being compared counts as compatible there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.registry.protobuf.model import OPTIONAL, REPEATED, REQUIRED, SCALARS, Field, Message
from headrace.registry.protobuf.names import Names, Type
from headrace.registry.protobuf.reading import ProtobufContent

_MOST_COMPARISONS: Final = 50_000
_DEEPEST: Final = 60
_MOST_REPORTED: Final = 20

_NUMBER: Final = "number"
_WIRE_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), _NUMBER),
    **dict.fromkeys(("sint32", "sint64"), "signed"),
    **dict.fromkeys(("string", "bytes"), "bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}


@dataclass(frozen=True, slots=True)
class Difference:
    kind: str
    path: str


class TooLargeError(Exception):
    """The schemas are too large, or refer to each other too deeply, to be compared."""


def differences(original: ProtobufContent, update: ProtobufContent) -> list[Difference]:
    """Why data written with `original` may not be readable with `update`. Raises TooLargeError."""
    comparison = _Comparison(original.names, update.names)
    found: list[Difference] = []
    old, new = original.file, update.file
    if old.package != new.package:
        found.append(Difference("PACKAGE_CHANGED", "#/"))
    found += comparison.messages(old.messages, new.messages, "#", (old.package, new.package))
    return list(dict.fromkeys(found))[:_MOST_REPORTED]


_Scopes = tuple[str, str]


class _Comparison:
    def __init__(self, old_names: Names, new_names: Names) -> None:
        self._old = old_names
        self._new = new_names
        self._known: dict[tuple[Message, Message], tuple[Difference, ...]] = {}
        self._under_way: set[tuple[Message, Message]] = set()
        self._left = _MOST_COMPARISONS

    def messages(
        self, olds: Iterable[Message], news: Iterable[Message], path: str, scopes: _Scopes
    ) -> list[Difference]:
        found: list[Difference] = []
        there = {each.name: each for each in news}
        for old in olds:
            new = there.get(old.name)
            here = f"{path}/{old.name}"
            if new is None:
                found.append(Difference("MESSAGE_REMOVED", here))
            else:
                found += self._message(old, new, here, (_inner(scopes[0], old), _inner(scopes[1], new)))
        return found

    def _message(self, old: Message, new: Message, path: str, scopes: _Scopes) -> tuple[Difference, ...]:
        pair = (old, new)
        if pair in self._under_way:
            return ()
        if pair in self._known:
            return self._known[pair]
        self._left -= 1 + len(old.fields) + len(new.fields)
        if self._left < 0 or len(self._under_way) >= _DEEPEST:
            raise TooLargeError
        self._under_way.add(pair)
        try:
            found = [*_oneofs(old, new, path), *self._fields(old, new, path, scopes)]
            found += self.messages(old.messages, new.messages, path, scopes)
        finally:
            self._under_way.discard(pair)
        self._known[pair] = tuple(dict.fromkeys(found))[:_MOST_REPORTED]
        return self._known[pair]

    def _fields(self, old: Message, new: Message, path: str, scopes: _Scopes) -> list[Difference]:
        found: list[Difference] = []
        olds, news = ({each.number: each for each in message.fields} for message in (old, new))
        gone = _gone_oneofs(old, new)
        for number in sorted({*olds, *news}):
            before, after = olds.get(number), news.get(number)
            here = f"{path}/{number}"
            if before is None:
                if after is not None and after.label == REQUIRED:
                    found.append(Difference("REQUIRED_FIELD_ADDED", here))
            elif after is None:
                if before.oneof and before.oneof not in gone:
                    found.append(Difference("ONEOF_FIELD_REMOVED", f"{path}/{before.oneof}/{number}"))
                elif before.label == REQUIRED:
                    found.append(Difference("REQUIRED_FIELD_REMOVED", here))
            else:
                place = f"{path}/{after.oneof}/{number}" if after.oneof else here
                found += self._field(before, after, place, scopes)
        return found

    def _field(self, old: Field, new: Field, path: str, scopes: _Scopes) -> list[Difference]:
        if bool(old.key) != bool(new.key):
            return [Difference("FIELD_KIND_CHANGED", path)]
        if old.key:
            keys = _scalars(_WIRE_KINDS[old.key], _WIRE_KINDS[new.key], path)
            return [*keys, *self._types(old.type, new.type, path, scopes)]
        found = self._types(old.type, new.type, path, scopes)
        if not found and self._is_number(old.type, scopes[0]):
            # Only labels that say something else are on the wire: a list of numbers, or not.
            labels = {each.label if each.label == REPEATED else OPTIONAL for each in (old, new)}
            written = {each.label for each in (old, new)} - {""}
            if len(labels) > 1 or len(written) > 1:
                found = [Difference("FIELD_NUMERIC_LABEL_CHANGED", path)]
        return found

    def _is_number(self, name: str, scope: str) -> bool:
        kind = self._wire_kind(name, scope, self._old)
        return kind not in {"bytes", ""}

    def _types(self, old: str, new: str, path: str, scopes: _Scopes) -> list[Difference]:
        old_kind = self._wire_kind(old, scopes[0], self._old)
        new_kind = self._wire_kind(new, scopes[1], self._new)
        if bool(old_kind) != bool(new_kind):
            return [Difference("FIELD_KIND_CHANGED", path)]
        if old_kind:
            return _scalars(old_kind, new_kind, path)
        return self._named(self._old.find(old, scopes[0]), self._new.find(new, scopes[1]), path)

    def _wire_kind(self, name: str, scope: str, names: Names) -> str:
        """Empty for a message."""
        if name in SCALARS:
            return _WIRE_KINDS[name]
        return _NUMBER if names.find(name, scope).is_enum else ""

    def _named(self, old: Type, new: Type, path: str) -> list[Difference]:
        changed = Difference("FIELD_NAMED_TYPE_CHANGED", path)
        if old.local_name != new.local_name:
            return [changed]
        if old.message is None or new.message is None:
            # Of a file that everybody has, at least on one side.
            return [] if old.full_name == new.full_name else [changed]
        within = self._message(
            old.message, new.message, f"#/{old.local_name}", (old.full_name, new.full_name)
        )
        return [*within, changed] if within else []


def _scalars(old_kind: str, new_kind: str, path: str) -> list[Difference]:
    return [] if old_kind == new_kind else [Difference("FIELD_SCALAR_KIND_CHANGED", path)]


def _inner(scope: str, message: Message) -> str:
    return f"{scope}.{message.name}" if scope else message.name


def _gone_oneofs(old: Message, new: Message) -> set[str]:
    """Those of which nothing is left: removing one as a whole is like removing fields."""
    numbers = {field.number for field in new.fields}
    left = {field.oneof for field in old.fields if field.number in numbers}
    return {oneof.name for oneof in old.oneofs} - left - {oneof.name for oneof in new.oneofs}


def _oneofs(old: Message, new: Message, path: str) -> list[Difference]:
    """Fields that could be set together before must not exclude each other now."""
    before = {field.number: field for field in old.fields}
    members: dict[str, list[int]] = {}
    for field in new.fields:
        if field.number in before:
            members.setdefault(field.oneof, []).append(field.number)
    found: list[Difference] = []
    for oneof in new.oneofs:
        numbers = members.get(oneof.name, [])
        alone = [number for number in numbers if not before[number].oneof]
        groups = len(alone) + len({before[number].oneof for number in numbers} - {""})
        if groups > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(alone) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            found.append(Difference(kind, f"{path}/{oneof.name}"))
    return found
