"""How rows are sent to a client: newline-delimited, one JSON array, or ksqlDB's older streamed rows.

Each format has a beginning, rows and an end; an error may replace any row, and is then the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.http.statements.answers import DELIMITED, JSON, KSQL_JSON, encoded, generic_error
from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.serving.entities import schema_text, type_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    query_id: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()


class RowFormat(Protocol):
    media_type: str

    def begin(self, header: Header) -> bytes: ...

    def row(self, values: Sequence[Any]) -> bytes: ...

    def end(self, final_message: str | None) -> bytes: ...

    def error(self, code: int, message: str) -> bytes: ...


def _metadata(header: Header) -> dict[str, Any]:
    return {
        "queryId": header.query_id,
        "columnNames": [column.name for column in header.columns],
        "columnTypes": [type_text(column.type) for column in header.columns],
    }


class DelimitedRows:
    """A JSON object, then one array per line."""

    media_type = DELIMITED

    def begin(self, header: Header) -> bytes:
        return encoded(_metadata(header)) + b"\n"

    def row(self, values: Sequence[Any]) -> bytes:
        return encoded(list(values)) + b"\n"

    def end(self, final_message: str | None) -> bytes:  # noqa: ARG002 - the format has none
        return b""

    def error(self, code: int, message: str) -> bytes:
        return encoded(generic_error(code, message)) + b"\n"


class JsonArray:
    """The same in one array."""

    media_type = JSON

    def begin(self, header: Header) -> bytes:
        return b"[" + encoded(_metadata(header))

    def row(self, values: Sequence[Any]) -> bytes:
        return b"," + encoded(list(values))

    def end(self, final_message: str | None) -> bytes:  # noqa: ARG002 - the format has none
        return b"]"

    def error(self, code: int, message: str) -> bytes:
        return b"," + encoded(generic_error(code, message)) + b"]"


class StreamedRows:
    """An array of objects, each with one of `header`, `row`, `finalMessage`, `errorMessage`."""

    media_type = KSQL_JSON

    def begin(self, header: Header) -> bytes:
        schema = schema_text(header.columns, header.keys)
        return b"[" + encoded({"header": {"queryId": header.query_id, "schema": schema}})

    def row(self, values: Sequence[Any]) -> bytes:
        return b",\n" + encoded({"row": {"columns": list(values)}})

    def end(self, final_message: str | None) -> bytes:
        final = b",\n" + encoded({"finalMessage": final_message}) if final_message is not None else b""
        return final + b"]\n"

    def error(self, code: int, message: str) -> bytes:
        return b",\n" + encoded({"errorMessage": generic_error(code, message)}) + b"]\n"


def chosen_format(accept: str, *, old_endpoint: bool) -> RowFormat:
    """Chosen by the request's Accept header; `/query` and `/query-stream` have different defaults."""
    if DELIMITED in accept:
        return DelimitedRows()
    if KSQL_JSON in accept or old_endpoint:
        return StreamedRows()
    if JSON in accept:
        return JsonArray()
    return DelimitedRows()
