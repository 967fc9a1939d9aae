"""A `.proto` file as a tree. Names of types are as they were written; `names.py` finds what they mean.

Messages are compared by identity, since comparing recursive ones by content would not end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

OPTIONAL: Final = "optional"
REQUIRED: Final = "required"
REPEATED: Final = "repeated"

PROTO2: Final = "proto2"
PROTO3: Final = "proto3"

SCALARS: Final = frozenset(
    {"double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64"}
    | {"sfixed32", "sfixed64", "bool", "string", "bytes"}
)
MAP_KEYS: Final = SCALARS - {"double", "float", "bytes"}
HIGHEST_NUMBER: Final = 2**29 - 1
# What `to max` means in the ranges of an enum.
HIGHEST_ENUM_NUMBER: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """`name` has the parentheses of a custom option; `value` is in the language of `.proto` files."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Reserved numbers, or those for extensions; the last one belongs to it."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """`label` is empty if none was written. `key` is only there in a map, whose values have `type`."""

    name: str
    number: int
    type: str
    label: str = ""
    key: str = ""
    oneof: str = ""
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    name: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumValue:
    name: str
    number: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Enum:
    name: str
    values: tuple[EnumValue, ...]
    options: tuple[Option, ...] = ()
    reserved: tuple[Range, ...] = ()
    reserved_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Fields that a file or a message adds to another message."""

    extendee: str
    fields: tuple[Field, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[Range] = field(default_factory=list)
    reserved_names: list[str] = field(default_factory=list)
    extension_ranges: list[Range] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    name: str
    request: str
    response: str
    streams_requests: bool = False
    streams_responses: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    name: str
    methods: tuple[Method, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class File:
    """`syntax` is empty if none was written, which means proto2; `edition` comes in place of it."""

    syntax: str = ""
    edition: str = ""
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)

    @property
    def all_imports(self) -> list[str]:
        return [*self.imports, *self.public_imports, *self.weak_imports]


class ProtobufError(Exception):
    """Not a valid file; the message says where and why."""
