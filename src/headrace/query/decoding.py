"""Decodes the bytes of a record: Confluent's Avro format, JSON, text, or else a hexadecimal preview.

Invariants: decoding never fails; it falls back to the next simpler format and names the one it used. The
result can be encoded as JSON (except values of Avro's logical types, which all our JSON encoders know). Of a
value above the size limit only a preview of the beginning is shown. Never requests the same schema twice: an
id always means the same schema.
"""

from __future__ import annotations

import io
import json
import logging
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import fastavro

from headrace.core.errors import HeadraceError

# Confluent's wire format: a zero byte, the schema id in four bytes, big-endian, then the Avro body.
WIRE_HEADER: Final = struct.Struct(">bI")
LONGEST_VALUE: Final = 65_536
PREVIEW_BYTES: Final = 1024

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A value and the format it was read from: `avro`, `json`, `text`, `binary`, or `null` if absent."""

    value: object
    format: str
    truncated: bool = False


class RecordDecoder:
    """Decodes values and keys. `schema_by_id` returns a schema's text or raises HeadraceError.

    Thread-safe.
    """

    def __init__(self, schema_by_id: Callable[[int], str]) -> None:
        self._schema_by_id = schema_by_id
        self._lock = threading.Lock()
        self._schemas: dict[int, Any] = {}

    def value(self, data: bytes | None) -> Decoded:
        if data is None:
            return Decoded(value=None, format="null")
        if len(data) > LONGEST_VALUE:
            return _preview(data)
        return self.avro(data) or _json(data) or _text(data) or _binary(data)

    def key(self, data: bytes | None) -> str | None:
        """A key is an identifier, so it is shown as text; only Avro and binary keys are converted."""
        if data is None:
            return None
        decoded = self.avro(data) or _text(data) or _binary(data)
        return decoded.value if isinstance(decoded.value, str) else json.dumps(decoded.value, default=str)

    def header(self, data: bytes | None) -> str:
        if data is None:
            return ""
        return str((_text(data) or _binary(data)).value)

    def avro(self, data: bytes) -> Decoded | None:
        """The value in Avro, of any size; None if it is none, or cannot be read."""
        if len(data) < WIRE_HEADER.size or data[0] != 0:
            return None
        _, schema_id = WIRE_HEADER.unpack_from(data)
        try:
            schema = self._schema(schema_id)
            body = io.BytesIO(data)
            body.seek(WIRE_HEADER.size)
            value = fastavro.schemaless_reader(body, schema, None)
        except HeadraceError as error:
            _logger.debug("No schema %d for a record that looks like Avro: %s", schema_id, error)
            return None
        except Exception as error:
            # fastavro raises whatever it runs into; bytes that only look like Avro are then shown as another
            # format.
            _logger.debug("A record does not follow its schema %d: %s", schema_id, error)
            return None
        return Decoded(value=value, format="avro")

    def _schema(self, schema_id: int) -> Any:
        with self._lock:
            known = self._schemas.get(schema_id)
        if known is None:
            known = fastavro.parse_schema(json.loads(self._schema_by_id(schema_id)))
            with self._lock:
                self._schemas[schema_id] = known
        return known


def _json(data: bytes) -> Decoded | None:
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
        if b"\\u" in data:
            # An escape can stand for half a surrogate pair, which text cannot contain: such JSON is shown
            # unparsed.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return Decoded(value=value, format="json")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _text(data: bytes) -> Decoded | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    # Control characters other than line breaks and tabs mean that this is not text.
    if any(ord(letter) < 32 and letter not in "\t\n\r" for letter in text):
        return None
    return Decoded(value=text, format="text")


def _binary(data: bytes) -> Decoded:
    shown = data[:PREVIEW_BYTES]
    return Decoded(value=shown.hex(" "), format="binary", truncated=len(shown) < len(data))


def _preview(data: bytes) -> Decoded:
    """The beginning of a large value. The last character may be cut in half."""
    beginning = data[:PREVIEW_BYTES].decode("utf-8", errors="ignore")
    whole = len(beginning.encode()) > PREVIEW_BYTES - 4
    decoded = _text(beginning.encode()) if whole else None
    if decoded is None:
        return _binary(data)
    return Decoded(value=decoded.value, format="text", truncated=True)
