"""Chooses the reader and the writer for an encoding."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format
from headrace.pipeline.formats.avro_types import bare_schema, record_schema
from headrace.pipeline.spark.formats.avro_format import AvroReader, WriterSchemas
from headrace.pipeline.spark.formats.avro_writing import AvroWriter
from headrace.pipeline.spark.formats.delimited_format import DelimitedReader, DelimitedWriter
from headrace.pipeline.spark.formats.json_format import JsonReader, JsonWriter
from headrace.pipeline.spark.formats.kafka_format import SUPPORTED, KafkaReader, KafkaWriter
from headrace.pipeline.spark.formats.none_format import NoneReader, NoneWriter
from headrace.pipeline.spark.formats.reading import BytesReader, BytesWriter


def is_wrapped(encoding: Encoding, columns: tuple[Column, ...], *, side: str) -> bool:
    """Whether the columns are in a record: several always, a key's single one never, a value's by default."""
    if len(columns) != 1:
        return True
    if encoding.wrapped is not None:
        return encoding.wrapped
    return side == "value"


def can_fail(encoding: Encoding, columns: tuple[Column, ...]) -> bool:
    """Whether the format fails on some bytes."""
    if encoding.format is Format.NONE or not columns:
        return False
    if encoding.format is Format.KAFKA:
        return str(columns[0].type) not in ("VARCHAR", "BYTES")
    return True


def reader_of(
    encoding: Encoding, columns: tuple[Column, ...], *, side: str, schemas: WriterSchemas
) -> BytesReader:
    wrapped = is_wrapped(encoding, columns, side=side)
    if not columns:
        return NoneReader()
    match encoding.format:
        case Format.JSON:
            return JsonReader(columns, side=side, wrapped=wrapped)
        case Format.AVRO:
            return AvroReader(columns, side=side, wrapped=wrapped, schemas=schemas)
        case Format.DELIMITED:
            return DelimitedReader(columns, side=side, delimiter=encoding.delimiter)
        case Format.KAFKA:
            _check_kafka(columns, side)
            return KafkaReader(columns, side=side)
        case Format.NONE:
            return NoneReader()


def writer_of(
    encoding: Encoding, columns: tuple[Column, ...], *, side: str, schema: tuple[int, str] | None
) -> BytesWriter:
    """`schema` is the id and text of the registered schema, for AVRO."""
    wrapped = is_wrapped(encoding, columns, side=side)
    if not columns:
        return NoneWriter()
    match encoding.format:
        case Format.JSON:
            return JsonWriter(columns, wrapped=wrapped)
        case Format.AVRO:
            assert schema is not None, "the caller registers the schema"
            return AvroWriter(columns, wrapped=wrapped, schema=schema[1], schema_id=schema[0])
        case Format.DELIMITED:
            return DelimitedWriter(columns, delimiter=encoding.delimiter)
        case Format.KAFKA:
            _check_kafka(columns, side)
            return KafkaWriter(columns)
        case Format.NONE:
            return NoneWriter()


def schema_to_register(encoding: Encoding, columns: tuple[Column, ...], *, side: str) -> str | None:
    """The schema to register for a side of a sink, if it needs one and has no schema id."""
    if encoding.format is not Format.AVRO or encoding.schema_id is not None or not columns:
        return None
    if is_wrapped(encoding, columns, side=side):
        return record_schema(columns, encoding.schema_name)
    return bare_schema(columns[0])


def _check_kafka(columns: tuple[Column, ...], side: str) -> None:
    if len(columns) != 1 or columns[0].type not in SUPPORTED:
        raise HeadraceError(
            "pipeline_failed",
            f"The KAFKA format needs one column of a simple type, but the {side} has "
            f"{', '.join(f'{column.name} {column.type}' for column in columns)}.",
            remedy="Use another format for this side, for example JSON.",
        )
