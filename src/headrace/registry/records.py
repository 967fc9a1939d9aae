"""The records of the topic `_schemas`, in the format of Confluent's registry; each reads the other's.

Byte format: key and value are JSON. A schema has the key
`{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}` and the value
`{"subject":"s","version":1,"id":1,"schema":"…","deleted":false}`, plus `schemaType` and `references` if it is
not plain Avro; the same key without a value removes that version for good. `DELETE_SUBJECT` marks the
versions of a subject, up to a given one, as deleted. A compatibility level has the key
`{"keytype":"CONFIG","subject":"s","magic":0}` and the value `{"subject":"s","compatibilityLevel":"FULL"}`; a
key without a subject (or with a null, in older records) is the default for subjects without their own level,
and a missing value removes the level. All other records (`NOOP`, `MODE`, …) do not concern schemas and are
read as `OtherRecord`.

Only our registry writes proposals (decision record 0006): their key
`{"keytype":"NOOP","magic":0,"proposal":"…"}` is never used twice, and their value is that of a schema. The
same key without a value retires a proposal. Confluent's registry skips them. Invariant: any bytes decode to
one of these records. Never judges a schema.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headrace.registry.level import Level

AVRO = "AVRO"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = AVRO
    # As JSON, since they are only passed on.
    references: str = "[]"
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedVersionRecord:
    """A version is removed for good."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSubjectRecord:
    """All versions up to this one are marked as deleted."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """The level of a subject, or the default for subjects without their own; None removes it."""

    subject: str | None
    level: Level | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRecord:
    """Asks to register a schema; it gets this version and id unless an earlier proposal took them."""

    # Used once in the life of the topic, so that compaction never moves a proposal behind another.
    proposal: str
    subject: str
    version: int
    id: int
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredProposalRecord:
    """A proposal has become a schema record and need not be kept."""

    proposal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRecord:
    """Does not concern schemas; `reason` says why, if the record is malformed."""

    reason: str = ""


Record = (
    SchemaRecord
    | RemovedVersionRecord
    | DeletedSubjectRecord
    | ConfigRecord
    | ProposalRecord
    | RetiredProposalRecord
    | OtherRecord
)
# What a registry of ours writes.
WrittenRecord = SchemaRecord | ConfigRecord | ProposalRecord | RetiredProposalRecord


def encode_key(record: WrittenRecord) -> bytes:
    if isinstance(record, ConfigRecord):
        return _encode({"keytype": "CONFIG", **_of(record.subject), "magic": 0})
    if not isinstance(record, SchemaRecord):
        return _encode({"keytype": "NOOP", "magic": 0, "proposal": record.proposal})
    key = {"keytype": "SCHEMA", "subject": record.subject, "version": record.version, "magic": 1}
    return _encode(key)


def encode_value(record: WrittenRecord) -> bytes | None:
    if isinstance(record, RetiredProposalRecord):
        return None
    if isinstance(record, ConfigRecord):
        level = record.level
        return None if level is None else _encode({**_of(record.subject), "compatibilityLevel": level.value})
    value: dict[str, Any] = {"subject": record.subject, "version": record.version, "id": record.id}
    if isinstance(record, ProposalRecord):
        return _encode({**value, "schema": record.schema})
    if record.schema_type != AVRO:
        value["schemaType"] = record.schema_type
    if record.references != "[]":
        value["references"] = json.loads(record.references)
    value["schema"] = record.schema
    value["deleted"] = record.deleted
    return _encode(value)


def decode_record(key: bytes | None, value: bytes | None) -> Record:
    """Read a record; a malformed one becomes an `OtherRecord` with the reason."""
    try:
        return _decode(json.loads(key or b"{}"), json.loads(value) if value else None)
    except (ValueError, KeyError, TypeError) as error:
        return OtherRecord(reason=f"{type(error).__name__}: {error}")


def _decode(key: dict[str, Any], value: dict[str, Any] | None) -> Record:
    kind = key["keytype"]
    if kind == "DELETE_SUBJECT" and value is not None:
        return DeletedSubjectRecord(subject=_text(key["subject"]), version=_number(value["version"]))
    if kind == "CONFIG":
        return _decode_config(key.get("subject"), value)
    if kind == "NOOP" and "proposal" in key:
        return _decode_proposal(_text(key["proposal"]), value)
    if kind != "SCHEMA":
        return OtherRecord()
    subject, version = _text(key["subject"]), _number(key["version"])
    if value is None:
        return RemovedVersionRecord(subject=subject, version=version)
    return SchemaRecord(
        subject=subject,
        version=version,
        id=_number(value["id"]),
        schema=_text(value["schema"]),
        schema_type=_text(value.get("schemaType") or AVRO),
        references=json.dumps(value.get("references") or []),
        deleted=bool(value.get("deleted", False)),
    )


def _decode_config(subject: Any, value: dict[str, Any] | None) -> Record:
    level = None if value is None else value.get("compatibilityLevel")
    return ConfigRecord(
        subject=None if subject is None else _text(subject),
        # Such a record may hold only other settings.
        level=None if level is None else Level(level),
    )


def _of(subject: str | None) -> dict[str, str]:
    return {} if subject is None else {"subject": subject}


def _decode_proposal(proposal: str, value: dict[str, Any] | None) -> Record:
    if value is None:
        return RetiredProposalRecord(proposal=proposal)
    return ProposalRecord(
        proposal=proposal,
        subject=_text(value["subject"]),
        version=_number(value["version"]),
        id=_number(value["id"]),
        schema=_text(value["schema"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return value


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
