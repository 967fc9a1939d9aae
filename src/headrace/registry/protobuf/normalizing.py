"""The normalised form of `.proto` files: names of types are complete, and what has no order is sorted.

The order of messages, enums and services stays: clients count messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from headrace.registry.protobuf.model import (
    PROTO2,
    SCALARS,
    Enum,
    Extension,
    Field,
    File,
    Message,
    Method,
    Option,
    Range,
    Service,
)
from headrace.registry.protobuf.names import Names


def normalized_file(file: File, names: Names) -> File:
    writer = _Writer(names)
    scope = file.package
    return dataclasses.replace(
        file,
        syntax="" if file.syntax == PROTO2 else file.syntax,
        imports=sorted(set(file.imports)),
        public_imports=sorted(set(file.public_imports)),
        weak_imports=sorted(set(file.weak_imports)),
        options=list(_sorted(file.options)),
        messages=[writer.message(each, scope) for each in file.messages],
        enums=[_enum(each) for each in file.enums],
        extensions=[writer.extension(each, scope) for each in file.extensions],
        services=[writer.service(each, scope) for each in file.services],
    )


class _Writer:
    def __init__(self, names: Names) -> None:
        self._names = names

    def message(self, message: Message, scope: str) -> Message:
        own = f"{scope}.{message.name}" if scope else message.name
        return dataclasses.replace(
            message,
            fields=sorted((self._field(each, own) for each in message.fields), key=lambda each: each.number),
            oneofs=[dataclasses.replace(each, options=_sorted(each.options)) for each in message.oneofs],
            messages=[self.message(each, own) for each in message.messages],
            enums=[_enum(each) for each in message.enums],
            extensions=[self.extension(each, own) for each in message.extensions],
            options=list(_sorted(message.options)),
            reserved=_ranges(message.reserved),
            reserved_names=sorted(set(message.reserved_names)),
            extension_ranges=_ranges(message.extension_ranges),
        )

    def extension(self, extension: Extension, scope: str) -> Extension:
        return Extension(
            extendee=self._complete(extension.extendee, scope),
            fields=tuple(self._field(each, scope) for each in extension.fields),
        )

    def service(self, service: Service, scope: str) -> Service:
        return Service(
            name=service.name,
            methods=tuple(self._method(each, scope) for each in service.methods),
            options=_sorted(service.options),
        )

    def _method(self, method: Method, scope: str) -> Method:
        return dataclasses.replace(
            method,
            request=self._complete(method.request, scope),
            response=self._complete(method.response, scope),
            options=_sorted(method.options),
        )

    def _field(self, field: Field, scope: str) -> Field:
        kind = field.type if field.type in SCALARS else self._complete(field.type, scope)
        return dataclasses.replace(field, type=kind, options=_sorted(field.options))

    def _complete(self, name: str, scope: str) -> str:
        return f".{self._names.find(name, scope).full_name}"


def _enum(enum: Enum) -> Enum:
    return Enum(
        name=enum.name,
        # The first one is the default, and the first of equal numbers the one that is written.
        values=tuple(dataclasses.replace(each, options=_sorted(each.options)) for each in enum.values),
        options=_sorted(enum.options),
        reserved=tuple(_ranges(enum.reserved)),
        reserved_names=tuple(sorted(set(enum.reserved_names))),
    )


def _sorted(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(sorted(options, key=lambda each: each.name))


def _ranges(ranges: Iterable[Range]) -> list[Range]:
    return sorted(set(ranges), key=lambda each: (each.first, each.last))
