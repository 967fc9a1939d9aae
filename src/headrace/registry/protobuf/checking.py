"""Checks what a `.proto` file says, beyond its grammar: names, numbers, and types that must exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headrace.registry.protobuf.descriptors import EDITIONS
from headrace.registry.protobuf.model import (
    HIGHEST_NUMBER,
    MAP_KEYS,
    PROTO2,
    PROTO3,
    REQUIRED,
    SCALARS,
    Enum,
    Field,
    File,
    Message,
    ProtobufError,
)
from headrace.registry.protobuf.names import Names, types_of

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_OWN_NUMBERS: Final = range(19000, 20000)


def check(file: File, names: Names) -> None:
    """Raises ProtobufError."""
    if file.syntax not in {"", PROTO2, PROTO3, "editions"}:
        raise ProtobufError(f'there is no syntax "{file.syntax[:50]}"')
    if file.edition and file.edition not in EDITIONS:
        raise ProtobufError(f'the edition "{file.edition[:50]}" is not known')
    if file.package:
        _check_name(file.package, _FULL_NAME)
    for extension in file.extensions:
        _check_name(extension.extendee, _FULL_NAME)
    is_proto3 = file.syntax == PROTO3
    for full, what in types_of(file):
        _check_name(what.name, _NAME)
        if isinstance(what, Enum):
            _check_enum(full, what, is_proto3=is_proto3)
        else:
            _check_message(full, what, names, is_proto3=is_proto3)
    for service in file.services:
        _check_name(service.name, _NAME)
        _check_different(
            (method.name for method in service.methods), f"{service.name} has the method {{}} twice"
        )
        for method in service.methods:
            for each in (method.request, method.response):
                if names.find(each, file.package).is_enum:
                    raise ProtobufError(f"the method {method.name} takes and gives messages, not {each}")
    for extension in file.extensions:
        _check_fields(extension.fields, file.package, names, is_proto3=is_proto3)


def _check_message(full: str, message: Message, names: Names, *, is_proto3: bool) -> None:
    _check_fields(message.fields, full, names, is_proto3=is_proto3)
    _check_different((field.name for field in message.fields), f"{full} has the field {{}} twice")
    _check_different((str(field.number) for field in message.fields), f"{full} has the number {{}} twice")
    _check_different((oneof.name for oneof in message.oneofs), f"{full} has the oneof {{}} twice")
    for oneof in message.oneofs:
        _check_name(oneof.name, _NAME)
    for extension in message.extensions:
        _check_name(extension.extendee, _FULL_NAME)
        _check_fields(extension.fields, full, names, is_proto3=is_proto3)


def _check_fields(fields: Iterable[Field], scope: str, names: Names, *, is_proto3: bool) -> None:
    for field in fields:
        _check_name(field.name, _NAME)
        if not 0 < field.number <= HIGHEST_NUMBER or field.number in _OWN_NUMBERS:
            raise ProtobufError(f"the field {field.name} cannot have the number {field.number}")
        if field.key and field.key not in MAP_KEYS:
            raise ProtobufError(f"the map {field.name} cannot have keys of type {field.key}")
        if field.label and (field.key or field.oneof):
            raise ProtobufError(f"the field {field.name} cannot be {field.label} in a map or a oneof")
        if field.key and field.oneof:
            raise ProtobufError(f"the map {field.name} cannot be in a oneof")
        if field.label == REQUIRED and is_proto3:
            raise ProtobufError(f"the field {field.name} cannot be required in proto3")
        if field.type not in SCALARS:
            _check_name(field.type, _FULL_NAME)
            names.find(field.type, scope)


def _check_enum(full: str, enum: Enum, *, is_proto3: bool) -> None:
    if not enum.values:
        raise ProtobufError(f"{full} has no values")
    for value in enum.values:
        _check_name(value.name, _NAME)
        if not -(2**31) <= value.number < 2**31:
            raise ProtobufError(f"{full}.{value.name} cannot be {value.number}")
    if is_proto3 and enum.values[0].number != 0:
        raise ProtobufError(f"the first value of {full} must be 0 in proto3")
    _check_different((value.name for value in enum.values), f"{full} has the value {{}} twice")
    if not any(option.name == "allow_alias" and option.value == "true" for option in enum.options):
        _check_different((str(value.number) for value in enum.values), f"{full} has the number {{}} twice")


def _check_name(name: str, pattern: re.Pattern[str]) -> None:
    if not pattern.fullmatch(name):
        raise ProtobufError(f"{name[:200]!r} is not a name")


def _check_different(names: Iterable[str], complaint: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProtobufError(complaint.format(name))
        seen.add(name)
