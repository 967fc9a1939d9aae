"""Reads Protobuf schemas: `.proto` texts, or descriptors in base64, as compilers make and clients send them.

Both become the same canonical text (`printing.py`). The normalised form (`normalizing.py`) is also the same
for texts that name types in different ways or give imports, fields and options in another order. The name of
a reference is that of the file to import. Never reads a file.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.registry.protobuf.checking import check
from headrace.registry.protobuf.descriptors import decoded
from headrace.registry.protobuf.model import File, ProtobufError
from headrace.registry.protobuf.names import Names
from headrace.registry.protobuf.normalizing import normalized_file
from headrace.registry.protobuf.parsing import parse
from headrace.registry.protobuf.printing import printed
from headrace.registry.schema import PROTOBUF, Reference, Referenced, Schema, invalid_schema

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProtobufContent:
    file: File
    names: Names


def read_protobuf(
    text: str,
    references: Sequence[Reference] = (),
    referenced: Sequence[Referenced] = (),
    *,
    normalized: bool = False,
) -> Schema[ProtobufContent]:
    """Raises invalid_schema with the reason."""
    try:
        others = {each.name: _parsed(each.text) for each in referenced}
        content = _content(_parsed(text), others)
        if normalized:
            content = _content(normalized_file(content.file, content.names), others)
        canonical = printed(content.file)
        if _BASE64.fullmatch(text):
            # What is kept must be readable: a text has limits that a descriptor has not.
            parse(canonical)
    except ProtobufError as error:
        raise invalid_schema(PROTOBUF, str(error)) from error
    except RecursionError as error:
        raise invalid_schema(PROTOBUF, "it is nested too deeply") from error
    return Schema(
        schema_type=PROTOBUF,
        text=canonical,
        references=tuple(references),
        identity=canonical,
        content=content,
    )


def _content(file: File, others: Mapping[str, File]) -> ProtobufContent:
    names = Names(file, others)
    check(file, names)
    return ProtobufContent(file=file, names=names)


def _parsed(text: str) -> File:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProtobufError(f"it is not text: {error}") from error
    if _BASE64.fullmatch(text):
        try:
            return decoded(base64.b64decode(text, validate=False))
        except binascii.Error as error:
            raise ProtobufError(f"it is neither a .proto text nor a descriptor in base64: {error}") from error
    return parse(text)
