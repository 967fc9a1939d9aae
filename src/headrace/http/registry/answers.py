"""What the registry's routes share: the formats of answers and errors, and how requests are read.

Invariants: every answer, including errors, is JSON of type `application/vnd.schemaregistry.v1+json`, or of
another type of Confluent's that the request accepts (`media_types.py`); an error is `{"error_code": …,
"message": …}`, and the first three digits of the code are the HTTP status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from litestar import Request, Response

from headrace.core.errors import HeadraceError
from headrace.http.admission import NO_TYPE, DoorRules, Refusal
from headrace.http.foreign_api import RefusedError, posted_object
from headrace.registry.formats import guid_of
from headrace.registry.records import SchemaRecord, references_as_json, references_from_json
from headrace.registry.registry import LATEST
from headrace.registry.schema import AVRO, Reference

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
INVALID_SCHEMA: Final = 42201
INVALID_VERSION: Final = 42202
_HIGHEST_VERSION: Final = 2**31 - 1

Request_ = Request[Any, Any, Any]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedSchema:
    text: str
    schema_type: str
    references: tuple[Reference, ...]
    # Given when importing.
    id: int | None
    version: int | None


def posted_schema(body: bytes) -> PostedSchema:
    content = posted_object(body)
    text = content.get("schema")
    if not isinstance(text, str) or not text.strip():
        raise RefusedError(INVALID_SCHEMA, "The request has no `schema`, or it is not a string.")
    schema_type = content.get("schemaType") or AVRO
    if not isinstance(schema_type, str):
        raise RefusedError(INVALID_SCHEMA, "`schemaType` is not a string.")
    for name in ("metadata", "ruleSet", "schemaTagsToAdd", "schemaTagsToRemove", "rulesToMerge"):
        if content.get(name):
            raise RefusedError(INVALID_SCHEMA, f"Schemas with `{name}` are not supported.")
    try:
        references = references_from_json(content.get("references"))
    except (KeyError, TypeError) as error:
        reason = "`references` must be an array of objects with `name`, `subject` and `version`."
        raise RefusedError(INVALID_SCHEMA, reason) from error
    return PostedSchema(
        text=text,
        schema_type=schema_type,
        references=references,
        id=_posted_number(content, "id"),
        version=_posted_number(content, "version"),
    )


def _posted_number(content: Mapping[str, Any], name: str) -> int | None:
    """None if it is missing, or one of the numbers that clients send for "none"."""
    number = content.get(name)
    if number is None or (isinstance(number, int) and number in {0, -1}):
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _HIGHEST_VERSION:
        raise RefusedError(INVALID_SCHEMA, f"`{name}` is a number from 1 to {_HIGHEST_VERSION}.")
    return number


def version_number(version: str) -> int | str:
    if version in {LATEST, "-1"}:
        return LATEST
    if (
        version.isascii()
        and version.isdigit()
        and len(version) <= 10
        and 1 <= int(version) <= _HIGHEST_VERSION
    ):
        return int(version)
    raise RefusedError(
        INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. "
        f'Allowed values are between [1, {_HIGHEST_VERSION}] and the string "latest"',
    )


def flag(request: Request_, name: str) -> bool:
    return str(request.query_params.get(name, "")).lower() == "true"


def page(request: Request_, items: Sequence[_Item]) -> Sequence[_Item]:
    """What `offset` and `limit` leave; a limit of zero or less is none."""
    offset, limit = _query_number(request, "offset"), _query_number(request, "limit")
    end = offset + limit if limit > 0 else None
    return items[max(offset, 0) : end]


def _query_number(request: Request_, name: str) -> int:
    given = str(request.query_params.get(name, "") or "0")
    if not given.removeprefix("-").isdecimal() or not given.isascii() or len(given) > 11:
        raise RefusedError(400, f"`{name}` is not a number: {given[:50]}")
    return int(given)


def schema_content(record: SchemaRecord, text: str) -> dict[str, Any]:
    content: dict[str, Any] = {"guid": guid_of(record)}
    if record.schema_type != AVRO:
        content["schemaType"] = record.schema_type
    if record.references:
        content["references"] = references_as_json(record.references)
    return {**content, "schema": text}


def version_content(record: SchemaRecord, text: str) -> dict[str, Any]:
    content = {"subject": record.subject, "version": record.version, "id": record.id}
    deleted = {"deleted": True} if record.deleted else {}
    return {**content, **schema_content(record, text), **deleted}


def answer(content: Any, status: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(content), status_code=status, media_type=MEDIA_TYPE)


def raw(text: str) -> Response[bytes]:
    return Response(text.encode("utf-8"), media_type=MEDIA_TYPE)


def refused(code: int, message: str) -> Response[bytes]:
    status = code if code < 1000 else code // 100
    return answer({"error_code": code, "message": message}, status)


def _refusal(error: HeadraceError) -> Refusal:
    body = msgspec.json.encode({"error_code": error.http_status, "message": str(error)})
    return Refusal(status=error.http_status, media_type=MEDIA_TYPE, body=body)


# Confluent's registry accepts bytes, and takes a body without a type for bytes.
REGISTRY_RULES: Final = DoorRules(
    refusal=_refusal, media_types=frozenset({"application/octet-stream", NO_TYPE})
)
