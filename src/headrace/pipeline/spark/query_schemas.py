"""The Avro schemas of one query: those it reads, those the registry lacks, and those it writes.

A record with a schema that was unknown at the start ends the query; the next start knows that schema
(`formats/avro_format.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Format, Source
from headrace.pipeline.formats.avro_fit import why_unfit
from headrace.pipeline.spark.formats.avro_format import WriterSchemas, new_schema_id, writer_schemas
from headrace.pipeline.spark.formats.choosing import is_wrapped, schema_to_register, writer_of
from headrace.pipeline.spark.formats.reading import BytesWriter


class SchemaRegistry(Protocol):
    """What a query needs from a registry (`registry_client.py`)."""

    def register(self, subject: str, schema: str) -> int: ...

    def schema_by_id(self, schema_id: int) -> str | None: ...

    def schemas_of(self, subject: str) -> dict[int, str]: ...


class QuerySchemas:
    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._learned: dict[int, str] = {}
        self._absent: set[int] = set()

    def learn(self, error: object) -> None:
        """Look up the schema that the query lacked, and again those that the registry lacked."""
        wanted = new_schema_id(str(error)) if error is not None else None
        asked = self._absent | ({wanted} if wanted is not None else set())
        self._absent = set()
        for schema_id in asked:
            schema = self._registry.schema_by_id(schema_id)
            if schema is None:
                self._absent.add(schema_id)
            else:
                self._learned[schema_id] = schema

    def outdated(self) -> str:
        """Why the query should restart: the registry has a schema that it lacked before."""
        for schema_id in sorted(self._absent):
            if self._registry.schema_by_id(schema_id) is not None:
                return f"restarts to read records of schema {schema_id}, which the registry has now"
        return ""

    def of_writers(self, source: Source, side: str) -> WriterSchemas:
        encoding = source.key_encoding if side == "key" else source.value_encoding
        if encoding.format is not Format.AVRO:
            return WriterSchemas()
        if encoding.schema_id is not None:
            self.know([encoding.schema_id])
        return self.of_subject(f"{source.topic}-{side}")

    def of_subject(self, subject: str) -> WriterSchemas:
        """Those of the subject, and all that were learned."""
        known = self._registry.schemas_of(subject) if subject else {}
        return writer_schemas(known | self._learned, absent=self._absent)

    def know(self, ids: Iterable[int]) -> None:
        """Look up schemas that are read whatever their subject."""
        for schema_id in ids:
            schema = self._registry.schema_by_id(schema_id)
            if schema is not None:
                self._learned[schema_id] = schema

    def writer(self, sink: Source, side: str) -> BytesWriter:
        """Registers the schema that it writes with, if the format has schemas."""
        encoding = sink.key_encoding if side == "key" else sink.value_encoding
        columns = sink.key if side == "key" else sink.value
        schema: tuple[int, str] | None = None
        text = schema_to_register(encoding, columns, side=side)
        if text is not None:
            schema = (self._registry.register(f"{sink.topic}-{side}", text), text)
        elif encoding.schema_id is not None:
            found = self._registry.schema_by_id(encoding.schema_id)
            if found is None:
                raise HeadraceError(
                    "schema_not_found",
                    f"The registry has no schema with id {encoding.schema_id}, which {sink.name} "
                    "must be written with.",
                )
            reason = why_unfit(found, columns, wrapped=is_wrapped(encoding, columns, side=side))
            if reason is not None:
                raise HeadraceError(
                    "pipeline_failed",
                    f"{sink.name} cannot be written with the schema with id {encoding.schema_id}: {reason}.",
                )
            schema = (encoding.schema_id, found)
        return writer_of(encoding, columns, side=side, schema=schema)
