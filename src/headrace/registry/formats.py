"""Forms of a schema other than its canonical text, which some clients ask for."""

from __future__ import annotations

import dataclasses
import hashlib
import uuid

from headrace.registry.protobuf.compiling import compiled
from headrace.registry.protobuf.model import ProtobufError
from headrace.registry.protobuf.printing import printed
from headrace.registry.protobuf.reading import ProtobufContent
from headrace.registry.records import SchemaRecord
from headrace.registry.schema import AVRO, PROTOBUF, Schema, invalid_schema


def formatted(schema: Schema[object], name: str) -> str:
    """The schema in the form of that name; a form that does not exist is the canonical text.

    Avro: `resolved`, with the types of its references written out. Protobuf: `serialized`, a descriptor in
    base64, and `ignore_extensions`. Raises invalid_schema.
    """
    if schema.schema_type == AVRO and name == "resolved":
        return schema.inlined or schema.text
    content = schema.content
    if schema.schema_type == PROTOBUF and isinstance(content, ProtobufContent):
        if name == "serialized":
            try:
                return compiled(content.file, content.names)
            except ProtobufError as error:
                raise invalid_schema(PROTOBUF, str(error)) from error
        if name == "ignore_extensions":
            return printed(dataclasses.replace(content.file, extensions=[]))
    return schema.text


def guid_of(record: SchemaRecord) -> str:
    """The same for the same text and references in every registry, also in Confluent's."""
    digest = hashlib.md5(record.schema.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for each in record.references:
        digest.update(each.name.encode("utf-8", "surrogatepass"))
        digest.update(each.subject.encode("utf-8", "surrogatepass"))
        digest.update((each.version & 0xFFFFFFFF).to_bytes(4, "big"))
    return str(uuid.UUID(bytes=digest.digest()))
