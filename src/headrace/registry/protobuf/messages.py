"""Says why data of one Protobuf schema cannot be read with another, in Confluent's form, which users know."""

from __future__ import annotations

from typing import Final

from headrace.registry.protobuf.differences import Difference, TooLargeError, differences
from headrace.registry.protobuf.reading import ProtobufContent

_DESCRIPTIONS: Final = {
    "PACKAGE_CHANGED": (
        "The package at '{path}' in the {reader} schema does not match the package in the {writer} schema"
    ),
    "MESSAGE_REMOVED": (
        "The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} schema"
    ),
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{path}' in the {reader} schema does not match the {writer} schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{path}' in the {reader} schema does not match its kind in the "
        "{writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{path}' in the {reader} schema does not match its type in the "
        "{writer} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{path}' in the {reader} schema does not match its label in "
        "the {writer} schema"
    ),
    "REQUIRED_FIELD_ADDED": (
        "A required field at path '{path}' in the {reader} schema is missing in the {writer} schema"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "The {reader} schema is missing a required field at path '{path}' in the {writer} schema"
    ),
    "ONEOF_FIELD_REMOVED": (
        "The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema"
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{path}' in the {reader} schema are outside a oneof in the "
        "{writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{path}' in the {reader} schema is outside an existing oneof in the "
        "{writer} schema"
    ),
}


def why_unreadable(
    reader: ProtobufContent, writer: ProtobufContent, *, reader_name: str, writer_name: str
) -> list[str]:
    """Empty if data of the writer can be read with the reader; the names are "new" and "old"."""
    try:
        found = differences(writer, reader)
    except TooLargeError:
        return ["The schemas are too large, or refer to each other too deeply, to be compared"]
    return [_described(each, reader=reader_name, writer=writer_name) for each in found]


def _described(difference: Difference, *, reader: str, writer: str) -> str:
    description = _DESCRIPTIONS[difference.kind].format(path=difference.path, reader=reader, writer=writer)
    return f'{{errorType:"{difference.kind}", description:"{description}"}}'
