"""The options that `descriptor.proto` defines: their numbers, and how their values look in a descriptor.

Custom options, and the features of editions, have no number that is known here. They stay in `.proto` texts;
descriptors are read and written without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.registry.protobuf.literals import quoted, unquoted
from headrace.registry.protobuf.model import Option, ProtobufError
from headrace.registry.protobuf.wire import bytes_field, fields, number_field

_TEXT: Final = "text"
_FLAG: Final = "flag"
# A string of names is an enum with the values 0, 1, …
_Kinds = Mapping[int, tuple[str, str]]

FILE: Final[_Kinds] = {
    1: ("java_package", _TEXT),
    8: ("java_outer_classname", _TEXT),
    9: ("optimize_for", "UNKNOWN SPEED CODE_SIZE LITE_RUNTIME"),
    10: ("java_multiple_files", _FLAG),
    11: ("go_package", _TEXT),
    16: ("cc_generic_services", _FLAG),
    17: ("java_generic_services", _FLAG),
    18: ("py_generic_services", _FLAG),
    20: ("java_generate_equals_and_hash", _FLAG),
    23: ("deprecated", _FLAG),
    27: ("java_string_check_utf8", _FLAG),
    31: ("cc_enable_arenas", _FLAG),
    36: ("objc_class_prefix", _TEXT),
    37: ("csharp_namespace", _TEXT),
    39: ("swift_prefix", _TEXT),
    40: ("php_class_prefix", _TEXT),
    41: ("php_namespace", _TEXT),
    44: ("php_metadata_namespace", _TEXT),
    45: ("ruby_package", _TEXT),
}
MESSAGE: Final[_Kinds] = {
    1: ("message_set_wire_format", _FLAG),
    2: ("no_standard_descriptor_accessor", _FLAG),
    3: ("deprecated", _FLAG),
    11: ("deprecated_legacy_json_field_conflicts", _FLAG),
}
FIELD: Final[_Kinds] = {
    1: ("ctype", "STRING CORD STRING_PIECE"),
    2: ("packed", _FLAG),
    3: ("deprecated", _FLAG),
    5: ("lazy", _FLAG),
    6: ("jstype", "JS_NORMAL JS_STRING JS_NUMBER"),
    10: ("weak", _FLAG),
    15: ("unverified_lazy", _FLAG),
    16: ("debug_redact", _FLAG),
    17: ("retention", "RETENTION_UNKNOWN RETENTION_RUNTIME RETENTION_SOURCE"),
}
ONEOF: Final[_Kinds] = {}
ENUM: Final[_Kinds] = {
    2: ("allow_alias", _FLAG),
    3: ("deprecated", _FLAG),
    6: ("deprecated_legacy_json_field_conflicts", _FLAG),
}
ENUM_VALUE: Final[_Kinds] = {1: ("deprecated", _FLAG), 3: ("debug_redact", _FLAG)}
SERVICE: Final[_Kinds] = {33: ("deprecated", _FLAG)}
METHOD: Final[_Kinds] = {
    33: ("deprecated", _FLAG),
    34: ("idempotency_level", "IDEMPOTENCY_UNKNOWN NO_SIDE_EFFECTS IDEMPOTENT"),
}


def options_from(data: bytes, kinds: _Kinds) -> list[Option]:
    """Raises ProtobufError."""
    found: list[Option] = []
    for number, value in fields(data):
        name, kind = kinds.get(number, ("", ""))
        if kind == _TEXT and isinstance(value, bytes):
            found.append(Option(name=name, value=quoted(value)))
        elif kind == _FLAG and isinstance(value, int):
            found.append(Option(name=name, value="true" if value else "false"))
        elif kind and kind != _TEXT and isinstance(value, int):
            names = kind.split()
            if value < len(names):
                found.append(Option(name=name, value=names[value]))
    return found


def options_as_bytes(options: Iterable[Option], kinds: _Kinds) -> bytes:
    """Raises ProtobufError."""
    numbers = {name: (number, kind) for number, (name, kind) in kinds.items()}
    found = b""
    for option in options:
        number, kind = numbers.get(option.name, (0, ""))
        if kind == _TEXT:
            if not option.value.startswith('"'):
                raise ProtobufError(f"the option {option.name} is a string")
            found += bytes_field(number, unquoted(option.value))
        elif kind == _FLAG:
            found += number_field(number, option.value == "true")
        elif kind and option.value in kind.split():
            found += number_field(number, kind.split().index(option.value))
    return found
