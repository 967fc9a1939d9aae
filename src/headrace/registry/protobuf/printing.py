"""Prints `.proto` files in canonical form, as Confluent's registry does, so that its texts stay as they are.

The order of messages, fields and options is kept, messages before enums: clients count messages to say which
one a value is. Invariant: what is printed is read as the same file again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.registry.protobuf.literals import quoted
from headrace.registry.protobuf.model import (
    HIGHEST_ENUM_NUMBER,
    HIGHEST_NUMBER,
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


def printed(file: File) -> str:
    head: list[str] = []
    if file.syntax:
        head.append(f'syntax = "{file.syntax}";')
    if file.edition:
        head.append(f'edition = "{file.edition}";')
    if file.package:
        head.append(f"package {file.package};")
    imports = [f"import {_text(name)};" for name in file.imports]
    imports += [f"import public {_text(name)};" for name in file.public_imports]
    imports += [f"import weak {_text(name)};" for name in file.weak_imports]
    options = [_option_line(option) for option in file.options]
    types = [line for message in file.messages for line in _message(message)]
    types += [line for enum in file.enums for line in _enum(enum)]
    extensions = [line for extension in file.extensions for line in _extension(extension)]
    services = [line for service in file.services for line in _service(service)]
    sections = [head, imports, options, types, extensions, services]
    return "\n".join("".join(f"{line}\n" for line in section) for section in sections if section)


def _text(text: str) -> str:
    return quoted(text.encode("utf-8"))


def _message(message: Message) -> list[str]:
    groups: list[list[str]] = []
    first = [_option_line(option) for option in message.options]
    first += _reserved(message.reserved, message.reserved_names, HIGHEST_NUMBER)
    groups.append(first)
    groups.append([_field(field) for field in message.fields if not field.oneof])
    members: dict[str, list[str]] = {}
    for field in message.fields:
        members.setdefault(field.oneof, []).append(_field(field))
    for oneof in message.oneofs:
        lines = [*(_option_line(option) for option in oneof.options), *members.get(oneof.name, ())]
        groups.append(_block(f"oneof {oneof.name}", lines))
    if message.extension_ranges:
        groups.append([f"extensions {_ranges(message.extension_ranges, HIGHEST_NUMBER)};"])
    groups += [_message(each) for each in message.messages]
    groups += [_enum(each) for each in message.enums]
    groups += [_extension(each) for each in message.extensions]
    return _block(f"message {message.name}", _separated(groups))


def _enum(enum: Enum) -> list[str]:
    lines = [_option_line(option) for option in enum.options]
    lines += _reserved(enum.reserved, enum.reserved_names, HIGHEST_ENUM_NUMBER)
    lines += [f"{value.name} = {value.number}{_options(value.options)};" for value in enum.values]
    return _block(f"enum {enum.name}", lines)


def _extension(extension: Extension) -> list[str]:
    return _block(f"extend {extension.extendee}", [_field(field) for field in extension.fields])


def _service(service: Service) -> list[str]:
    lines = [_option_line(option) for option in service.options]
    for method in service.methods:
        lines += _method(method)
    return _block(f"service {service.name}", lines)


def _method(method: Method) -> list[str]:
    request = f"stream {method.request}" if method.streams_requests else method.request
    response = f"stream {method.response}" if method.streams_responses else method.response
    head = f"rpc {method.name} ({request}) returns ({response})"
    return (
        _block(head, [_option_line(option) for option in method.options]) if method.options else [f"{head};"]
    )


def _field(field: Field) -> str:
    kind = f"map<{field.key}, {field.type}>" if field.key else field.type
    label = f"{field.label} " if field.label else ""
    return f"{label}{kind} {field.name} = {field.number}{_options(field.options)};"


def _options(options: Sequence[Option]) -> str:
    return f" [{', '.join(f'{each.name} = {each.value}' for each in options)}]" if options else ""


def _option_line(option: Option) -> str:
    return f"option {option.name} = {option.value};"


def _reserved(ranges: Iterable[Range], names: Iterable[str], highest: int) -> list[str]:
    ranges, names = list(ranges), list(names)
    lines = [f"reserved {_ranges(ranges, highest)};"] if ranges else []
    return lines + ([f"reserved {', '.join(_text(name) for name in names)};"] if names else [])


def _ranges(ranges: Iterable[Range], highest: int) -> str:
    found = []
    for each in ranges:
        last = "max" if each.last == highest else str(each.last)
        found.append(str(each.first) if each.first == each.last else f"{each.first} to {last}")
    return ", ".join(found)


def _block(head: str, lines: list[str]) -> list[str]:
    return (
        [f"{head} {{", *(f"  {line}" if line else "" for line in lines), "}"] if lines else [f"{head} {{}}"]
    )


def _separated(groups: Iterable[list[str]]) -> list[str]:
    found: list[str] = []
    for group in groups:
        if group:
            found += ["", *group] if found else group
    return found
