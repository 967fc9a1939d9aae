"""Says why data of one JSON schema may not fit another, in Confluent's form, which users search for."""

from __future__ import annotations

from typing import Final

from headrace.registry.json_schema.differences import Difference, TooLargeError, differences
from headrace.registry.json_schema.model import Node

_CLOSED: Final = (
    "The {reader} schema has a closed content model and is missing a property or item present at path "
    "'{path}' in the {writer} schema"
)
_FEWER: Final = (
    "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the {writer} "
    "schema"
)
_MORE: Final = (
    "An array or combined type at path '{path}' has more elements in the {reader} schema than the {writer} "
    "schema"
)
_LARGER: Final = (
    "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema"
)
_SMALLER: Final = (
    "The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema"
)
_OTHER_VALUE: Final = "The value at path '{path}' is different between the {reader} and {writer} schema"
_OTHER_TYPE: Final = (
    "A type at path '{path}' is different between the {reader} schema and the {writer} schema"
)
_NEW_KEYWORD: Final = (
    "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"
)
# By the end of the name of a difference; the first that fits counts.
_DESCRIPTIONS: Final = (
    ("_REMOVED_FROM_CLOSED_CONTENT_MODEL", _CLOSED),
    (
        "_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} "
        "schema and is not covered by its partially open content model",
    ),
    (
        "_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "The {reader} schema has a property or item at path '{path}' which is missing in the {writer} "
        "schema and is not covered by its partially open content model",
    ),
    (
        "_ADDED_TO_OPEN_CONTENT_MODEL",
        "The {writer} schema has an open content model, and the {reader} schema has a property or item at "
        "path '{path}' which is missing in the {writer} schema",
    ),
    (
        "_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "The {reader} schema has an unopen content model and has a required property at path '{path}' which "
        "is missing in the {writer} schema",
    ),
    ("_INCREASED", _LARGER),
    ("MULTIPLE_OF_EXPANDED", _LARGER),
    ("_DECREASED", _SMALLER),
    ("PATTERN_CHANGED", _OTHER_VALUE),
    ("MULTIPLE_OF_CHANGED", _OTHER_VALUE),
    ("DEPENDENCY_ARRAY_CHANGED", _OTHER_VALUE),
    ("SUM_TYPE_NARROWED", _FEWER),
    ("ENUM_ARRAY_NARROWED", _FEWER),
    ("TYPE_NARROWED", _OTHER_TYPE),
    ("_NARROWED", _FEWER),
    ("_EXTENDED", _MORE),
    ("_CHANGED", _OTHER_TYPE),
    ("", _NEW_KEYWORD),
)


def why_unreadable(reader: Node, writer: Node, *, reader_name: str, writer_name: str) -> list[str]:
    """Empty if what the writer accepts is accepted by the reader; the names are "new" and "old"."""
    try:
        found = differences(writer, reader)
    except TooLargeError:
        return ["The schemas are too large, or nested too deeply, to be compared"]
    return [_described(each, reader=reader_name, writer=writer_name) for each in found]


def _described(difference: Difference, *, reader: str, writer: str) -> str:
    text = next(text for ending, text in _DESCRIPTIONS if difference.kind.endswith(ending))
    # Not `format` on the whole: a path holds what users have written.
    path = f"#/{'/'.join(difference.path)}"
    description = text.replace("{reader}", reader).replace("{writer}", writer).replace("{path}", path)
    return f'{{errorType:"{difference.kind}", description:"{description}"}}'
