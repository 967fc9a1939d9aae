"""Reads descriptors (`FileDescriptorProto`), the form of files that compilers make and that clients send."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headrace.registry.protobuf import standard_options
from headrace.registry.protobuf.literals import quoted, unquoted
from headrace.registry.protobuf.model import (
    OPTIONAL,
    REPEATED,
    REQUIRED,
    Enum,
    EnumValue,
    Extension,
    Field,
    File,
    Message,
    Method,
    OneOf,
    Option,
    ProtobufError,
    Range,
    Service,
)
from headrace.registry.protobuf.standard_options import options_from
from headrace.registry.protobuf.wire import fields, signed

# The numbers of `FieldDescriptorProto.Type`.
TYPE_NUMBERS: Final = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "fixed64": 6,
    "fixed32": 7,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
    "sfixed32": 15,
    "sfixed64": 16,
    "sint32": 17,
    "sint64": 18,
}
GROUP, MESSAGE, ENUM = 10, 11, 14
LABEL_NUMBERS: Final = {OPTIONAL: 1, REQUIRED: 2, REPEATED: 3}
EDITIONS: Final = {"2023": 1000, "2024": 1001}
_SCALARS: Final = {number: name for name, number in TYPE_NUMBERS.items()}
_LABELS: Final = {number: name for name, number in LABEL_NUMBERS.items()}
_PLAIN_DEFAULT: Final = re.compile(r"-?[A-Za-z0-9_.]+(?:[eE][+-][0-9]+)?")
_DEEPEST: Final = 50


def decoded(data: bytes) -> File:
    """Raises ProtobufError."""
    content = _Content(data)
    syntax = content.text(12)
    file = File(
        syntax="" if syntax == "editions" else syntax,
        edition={number: name for name, number in EDITIONS.items()}.get(content.number(14), ""),
        package=content.text(2),
        options=options_from(content.bytes(8), standard_options.FILE),
        enums=[_enum(each) for each in content.all(5)],
        services=[_service(each) for each in content.all(6)],
    )
    if syntax == "editions" and not file.edition:
        raise ProtobufError("its edition is not known")
    _add_imports(file, content)
    reader = _MessageReader(keeps_optional=syntax in {"", "proto2"})
    file.messages = [reader.message(each, 1) for each in content.all(4)]
    file.extensions = _extensions(content.all(7), reader)
    if not (file.messages or file.enums or file.services or file.extensions or file.all_imports):
        raise ProtobufError("it is neither a .proto text nor a descriptor")
    return file


def _add_imports(file: File, content: _Content) -> None:
    names = [_decoded(each) for each in content.all(3)]
    public, weak = set(content.numbers(10)), set(content.numbers(11))
    for number, name in enumerate(names):
        target = (
            file.public_imports if number in public else file.weak_imports if number in weak else file.imports
        )
        target.append(name)


class _MessageReader:
    def __init__(self, *, keeps_optional: bool) -> None:
        # In proto3 a field is optional without the word, unless its presence is tracked.
        self._keeps_optional = keeps_optional

    def message(self, data: bytes, depth: int) -> Message:
        if depth > _DEEPEST:
            raise ProtobufError(f"messages are nested more than {_DEEPEST} deep")
        content = _Content(data)
        inner = [_Content(each) for each in content.all(3)]
        maps = {each.text(1): each for each in inner if _Content(each.bytes(7)).number(7)}
        oneofs = [_Content(each) for each in content.all(8)]
        own = [_Content(each) for each in content.all(2)]
        # The oneof of an optional field in proto3 is made up by the compiler.
        made_up = {each.number(9) for each in own if each.number(17)}
        return Message(
            name=content.text(1),
            fields=[self.field(each, maps, [oneof.text(1) for oneof in oneofs]) for each in own],
            oneofs=[
                OneOf(name=each.text(1), options=tuple(options_from(each.bytes(2), standard_options.ONEOF)))
                for number, each in enumerate(oneofs)
                if number not in made_up
            ],
            messages=[
                self.message(data, depth + 1)
                for data, each in zip(content.all(3), inner, strict=True)
                if each.text(1) not in maps
            ],
            enums=[_enum(each) for each in content.all(4)],
            extensions=_extensions(content.all(6), self),
            options=options_from(content.bytes(7), standard_options.MESSAGE),
            reserved=[_range(each, is_open=True) for each in content.all(9)],
            reserved_names=[_decoded(each) for each in content.all(10)],
            extension_ranges=[_range(each, is_open=True) for each in content.all(5)],
        )

    def field(self, content: _Content, maps: dict[str, _Content], oneofs: list[str]) -> Field:
        number = content.number(5)
        if number == GROUP:
            raise ProtobufError("groups are not supported")
        name, kind = content.text(1), content.text(6)
        if number not in {MESSAGE, ENUM} or not kind:
            kind = _SCALARS.get(number, kind)
        entry = maps.get(kind.rpartition(".")[2]) if number == MESSAGE else None
        options = _field_options(content, name, kind)
        if entry is not None and content.number(4) == LABEL_NUMBERS[REPEATED]:
            key, value = (
                self.field(_Content(each), {}, []) for each in sorted(entry.all(2), key=_number_of_field)[:2]
            )
            return Field(name=name, number=content.number(3), type=value.type, key=key.type, options=options)
        is_optional = bool(content.number(17))
        label = _LABELS.get(content.number(4), "")
        in_oneof = content.has(9) and not is_optional and content.number(9) < len(oneofs)
        if label == OPTIONAL and (in_oneof or not (self._keeps_optional or is_optional)):
            label = ""
        return Field(
            name=name,
            number=content.number(3),
            type=kind,
            label=label,
            oneof=oneofs[content.number(9)] if in_oneof else "",
            options=options,
        )


def _field_options(content: _Content, name: str, kind: str) -> tuple[Option, ...]:
    options: list[Option] = []
    if content.has(7):
        options.append(Option(name="default", value=_default(content, kind)))
    if content.has(10) and content.text(10) != json_name(name):
        options.append(Option(name="json_name", value=quoted(content.bytes(10))))
    return (*options, *options_from(content.bytes(8), standard_options.FIELD))


def _default(content: _Content, kind: str) -> str:
    if kind == "string":
        return quoted(content.bytes(7))
    text = content.text(7)
    if kind == "bytes":
        # Descriptors have these with escapes.
        return quoted(unquoted(f'"{text}"'))
    if not _PLAIN_DEFAULT.fullmatch(text):
        raise ProtobufError(f"{text[:50]!r} is not a default value")
    return text


def _number_of_field(data: bytes) -> int:
    return _Content(data).number(3)


def json_name(name: str) -> str:
    """What a compiler makes of a field's name: `someField` of `some_field`."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _extensions(contents: Iterable[bytes], reader: _MessageReader) -> list[Extension]:
    found: dict[str, list[Field]] = {}
    for data in contents:
        content = _Content(data)
        found.setdefault(content.text(2), []).append(reader.field(content, {}, []))
    return [Extension(extendee=name, fields=tuple(each)) for name, each in found.items()]


def _enum(data: bytes) -> Enum:
    content = _Content(data)
    values = []
    for each in content.all(2):
        value = _Content(each)
        options = options_from(value.bytes(3), standard_options.ENUM_VALUE)
        values.append(EnumValue(name=value.text(1), number=signed(value.number(2)), options=tuple(options)))
    return Enum(
        name=content.text(1),
        values=tuple(values),
        options=tuple(options_from(content.bytes(3), standard_options.ENUM)),
        reserved=tuple(_range(each, is_open=False) for each in content.all(4)),
        reserved_names=tuple(_decoded(each) for each in content.all(5)),
    )


def _range(data: bytes, *, is_open: bool) -> Range:
    """`is_open`: the end does not belong to it."""
    content = _Content(data)
    return Range(first=signed(content.number(1)), last=signed(content.number(2)) - is_open)


def _service(data: bytes) -> Service:
    content = _Content(data)
    methods = []
    for each in content.all(2):
        method = _Content(each)
        methods.append(
            Method(
                name=method.text(1),
                request=method.text(2),
                response=method.text(3),
                streams_requests=bool(method.number(5)),
                streams_responses=bool(method.number(6)),
                options=tuple(options_from(method.bytes(4), standard_options.METHOD)),
            )
        )
    options = options_from(content.bytes(3), standard_options.SERVICE)
    return Service(name=content.text(1), methods=tuple(methods), options=tuple(options))


class _Content:
    """The fields of one message by number. Of a field that may be there once, the last counts."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._fields

    def all(self, number: int) -> list[bytes]:
        return [each for each in self._fields.get(number, ()) if isinstance(each, bytes)]

    def bytes(self, number: int) -> bytes:
        return next(reversed(self.all(number)), b"")

    def text(self, number: int) -> str:
        return _decoded(self.bytes(number))

    def numbers(self, number: int) -> list[int]:
        return [each for each in self._fields.get(number, ()) if isinstance(each, int)]

    def number(self, number: int) -> int:
        return next(reversed(self.numbers(number)), 0)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProtobufError("it is not a descriptor: a name is not text") from error
