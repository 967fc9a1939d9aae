"""Makes descriptors of files: what a compiler would make, but for custom options (`standard_options.py`)."""

from __future__ import annotations

import base64

from headrace.registry.protobuf import standard_options
from headrace.registry.protobuf.descriptors import EDITIONS, ENUM, LABEL_NUMBERS, MESSAGE, TYPE_NUMBERS
from headrace.registry.protobuf.literals import unquoted
from headrace.registry.protobuf.model import (
    OPTIONAL,
    PROTO3,
    REPEATED,
    Enum,
    Field,
    File,
    Message,
    Method,
    Range,
    Service,
)
from headrace.registry.protobuf.names import Names
from headrace.registry.protobuf.standard_options import options_as_bytes
from headrace.registry.protobuf.wire import bytes_field, number_field, text_field


def compiled(file: File, names: Names, *, name: str = "default") -> str:
    """The descriptor in base64. Raises ProtobufError."""
    return base64.b64encode(_Compiler(file, names).file(name)).decode("ascii")


class _Compiler:
    def __init__(self, file: File, names: Names) -> None:
        self._file = file
        self._names = names

    def file(self, name: str) -> bytes:
        file, scope = self._file, self._file.package
        parts = [text_field(1, name)]
        parts += [text_field(2, scope)] if scope else []
        imports = file.all_imports
        parts += [text_field(3, each) for each in imports]
        parts += [bytes_field(4, self._message(each, scope)) for each in file.messages]
        parts += [bytes_field(5, _enum(each)) for each in file.enums]
        parts += [bytes_field(6, self._service(each)) for each in file.services]
        for extension in file.extensions:
            extendee = self._complete(extension.extendee, scope)
            parts += [
                bytes_field(7, self._field(each, scope, extendee=extendee)) for each in extension.fields
            ]
        parts.append(_options(8, options_as_bytes(file.options, standard_options.FILE)))
        parts += [number_field(10, imports.index(each)) for each in file.public_imports]
        parts += [number_field(11, imports.index(each)) for each in file.weak_imports]
        if file.edition:
            parts += [text_field(12, "editions"), number_field(14, EDITIONS.get(file.edition, 0))]
        elif file.syntax == PROTO3:
            parts.append(text_field(12, file.syntax))
        return b"".join(parts)

    def _message(self, message: Message, scope: str) -> bytes:
        own = f"{scope}.{message.name}" if scope else message.name
        oneofs = [each.name for each in message.oneofs]
        parts = [text_field(1, message.name)]
        # As a compiler does: after all others, one for each optional field.
        tracked = [each.name for each in message.fields if self._is_tracked(each)]
        places = {name: number for number, name in enumerate([*oneofs, *(f"_{name}" for name in tracked)])}
        for field in message.fields:
            oneof = places.get(f"_{field.name}" if self._is_tracked(field) else field.oneof)
            parts.append(bytes_field(2, self._field(field, own, oneof=oneof)))
        parts += [bytes_field(3, self._message(each, own)) for each in message.messages]
        parts += [bytes_field(3, self._entry(each, own)) for each in message.fields if each.key]
        parts += [bytes_field(4, _enum(each)) for each in message.enums]
        parts += [bytes_field(5, _range(each, is_open=True)) for each in message.extension_ranges]
        for extension in message.extensions:
            extendee = self._complete(extension.extendee, own)
            parts += [bytes_field(6, self._field(each, own, extendee=extendee)) for each in extension.fields]
        parts.append(_options(7, options_as_bytes(message.options, standard_options.MESSAGE)))
        parts += [bytes_field(8, text_field(1, each)) for each in places]
        parts += [bytes_field(9, _range(each, is_open=True)) for each in message.reserved]
        parts += [text_field(10, each) for each in message.reserved_names]
        return b"".join(parts)

    def _is_tracked(self, field: Field) -> bool:
        return self._file.syntax == PROTO3 and field.label == OPTIONAL

    def _field(self, field: Field, scope: str, *, oneof: int | None = None, extendee: str = "") -> bytes:
        label = LABEL_NUMBERS[REPEATED if field.key else field.label or OPTIONAL]
        parts = [text_field(1, field.name)]
        parts += [text_field(2, extendee)] if extendee else []
        parts += [number_field(3, field.number), number_field(4, label)]
        if field.key:
            parts += [number_field(5, MESSAGE), text_field(6, f".{scope}.{_entry_name(field.name)}")]
        else:
            parts.append(self._type(field.type, scope))
        for option in field.options:
            if option.name == "default":
                # Of numbers and names as it is written, of strings what they mean.
                is_text = option.value.startswith('"')
                is_bytes = field.type == "bytes"
                value = unquoted(option.value) if is_text and not is_bytes else option.value.encode("utf-8")
                parts.append(bytes_field(7, value[1:-1] if is_text and is_bytes else value))
            elif option.name == "json_name":
                parts.append(bytes_field(10, unquoted(option.value)))
        parts.append(_options(8, options_as_bytes(field.options, standard_options.FIELD)))
        parts += [number_field(9, oneof)] if oneof is not None else []
        parts += [number_field(17, 1)] if self._is_tracked(field) and not extendee else []
        return b"".join(parts)

    def _type(self, name: str, scope: str) -> bytes:
        if name in TYPE_NUMBERS:
            return number_field(5, TYPE_NUMBERS[name])
        found = self._names.find(name, scope)
        return number_field(5, ENUM if found.is_enum else MESSAGE) + text_field(6, f".{found.full_name}")

    def _entry(self, field: Field, scope: str) -> bytes:
        """The message that a map consists of."""
        key, value = (
            Field(name="key", number=1, type=field.key),
            Field(name="value", number=2, type=field.type),
        )
        return b"".join(
            (
                text_field(1, _entry_name(field.name)),
                bytes_field(2, self._field(key, scope)),
                bytes_field(2, self._field(value, scope)),
                bytes_field(7, number_field(7, 1)),
            )
        )

    def _service(self, service: Service) -> bytes:
        parts = [text_field(1, service.name)]
        parts += [bytes_field(2, self._method(each)) for each in service.methods]
        parts.append(_options(3, options_as_bytes(service.options, standard_options.SERVICE)))
        return b"".join(parts)

    def _method(self, method: Method) -> bytes:
        scope = self._file.package
        parts = [text_field(1, method.name), text_field(2, self._complete(method.request, scope))]
        parts.append(text_field(3, self._complete(method.response, scope)))
        parts.append(_options(4, options_as_bytes(method.options, standard_options.METHOD)))
        parts += [number_field(5, 1)] if method.streams_requests else []
        parts += [number_field(6, 1)] if method.streams_responses else []
        return b"".join(parts)

    def _complete(self, name: str, scope: str) -> str:
        return f".{self._names.find(name, scope).full_name}"


def _entry_name(field: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _enum(enum: Enum) -> bytes:
    parts = [text_field(1, enum.name)]
    for value in enum.values:
        options = _options(3, options_as_bytes(value.options, standard_options.ENUM_VALUE))
        parts.append(bytes_field(2, text_field(1, value.name) + number_field(2, value.number) + options))
    parts.append(_options(3, options_as_bytes(enum.options, standard_options.ENUM)))
    parts += [bytes_field(4, _range(each, is_open=False)) for each in enum.reserved]
    parts += [text_field(5, each) for each in enum.reserved_names]
    return b"".join(parts)


def _range(numbers: Range, *, is_open: bool) -> bytes:
    return number_field(1, numbers.first) + number_field(2, numbers.last + is_open)


def _options(number: int, content: bytes) -> bytes:
    return bytes_field(number, content) if content else b""
