"""The records of the topic `_schemas`, in the format of Confluent's registry; each reads the other's.

Byte format: key and value are JSON. A schema has the key
`{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}` (older ones magic 0) and the value
`{"subject":"s","version":1,"id":1,"schema":"…","deleted":false}`, plus `schemaType` and `references` if it is
not plain Avro; the same key without a value removes that version for good. `DELETE_SUBJECT` marks the
versions of a subject, up to a given one, as deleted, and `CLEAR_SUBJECT` removes those marked so. We read
both, and write a record for each version instead, so that no record depends on its place in the log.
A compatibility level has the key `{"keytype":"CONFIG","subject":"s","magic":0}` and the value
`{"subject":"s","compatibilityLevel":"FULL"}`; a mode `{"keytype":"MODE","subject":"s","magic":0}` and
`{"subject":"s","mode":"READONLY"}`. A key without a subject (or with a null, in older records) is for
subjects without their own, and a missing value removes the setting. Fields of a value that we do not know
are kept in `more`, and written again.

Two kinds of record are only ours, and skipped by Confluent's registry, which takes them for its own `NOOP`.
A proposal (decision record 0033) has the key `{"keytype":"NOOP","magic":0,"proposal":"…"}`, never used twice,
and a change as its value (`changes.py`); the same key without a value retires it. The highest id ever given
has the key `{"keytype":"NOOP","magic":0,"highestId":true}`. A record that carries out a proposal has the
proposal's offset in the header `headrace-proposal`.

Invariant: any bytes decode to one of these records. Never judges a schema.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from headrace.registry.changes import Change, change_as_json, change_from_json
from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.schema import AVRO, Reference

PROPOSAL_HEADER: Final = "headrace-proposal"
OUTCOME_HEADER: Final = "headrace-outcome"
_KNOWN_FIELDS: Final = frozenset(
    # The last two follow from the schema.
    {"subject", "version", "id", "schema", "schemaType", "references", "deleted", "md5", "guid"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    deleted: bool = False
    # As JSON, since it is only passed on.
    more: str = "{}"


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
class ClearedSubjectRecord:
    """All versions marked as deleted are removed for good: of one subject, or of all."""

    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """The settings of a subject, or those for subjects without their own; all None removes them."""

    subject: str | None
    level: Level | None = None
    normalize: bool | None = None
    more: str = "{}"

    @property
    def is_empty(self) -> bool:
        return self.level is None and self.normalize is None and self.more == "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRecord:
    """The mode of a subject, or of those without their own; None removes it."""

    subject: str | None
    mode: Mode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HighestIdRecord:
    """No schema gets this id or a lower one any more, even if the schema that had it is gone."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRecord:
    """Asks for a change, which every registry decides on in the order of proposals."""

    # Used once in the life of the topic, so that compaction never moves a proposal behind another.
    proposal: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredProposalRecord:
    """A proposal has been carried out or refused."""

    proposal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRecord:
    """Does not concern schemas; `reason` says why, if the record is malformed."""

    reason: str = ""


# What carries out a proposal.
Effect = SchemaRecord | RemovedVersionRecord | ConfigRecord | ModeRecord | HighestIdRecord
WrittenRecord = Effect | ProposalRecord | RetiredProposalRecord
Record = WrittenRecord | DeletedSubjectRecord | ClearedSubjectRecord | OtherRecord


def encode_key(record: WrittenRecord) -> bytes:
    if isinstance(record, ConfigRecord | ModeRecord):
        kind = "CONFIG" if isinstance(record, ConfigRecord) else "MODE"
        return _encode({"keytype": kind, **_of(record.subject), "magic": 0})
    if isinstance(record, SchemaRecord | RemovedVersionRecord):
        key = {"keytype": "SCHEMA", "subject": record.subject, "version": record.version, "magic": 1}
        return _encode(key)
    ours = {"highestId": True} if isinstance(record, HighestIdRecord) else {"proposal": record.proposal}
    return _encode({"keytype": "NOOP", "magic": 0, **ours})


def encode_value(record: WrittenRecord) -> bytes | None:
    match record:
        case SchemaRecord():
            return _encode(_schema_value(record))
        case ConfigRecord():
            return None if record.is_empty else _encode(_config_value(record))
        case ModeRecord():
            mode = record.mode
            return None if mode is None else _encode({**_of(record.subject), "mode": mode.value})
        case HighestIdRecord():
            return _encode({"id": record.id})
        case ProposalRecord():
            return _encode(change_as_json(record.change))
        case _:
            return None


def _schema_value(record: SchemaRecord) -> dict[str, Any]:
    value: dict[str, Any] = {"subject": record.subject, "version": record.version, "id": record.id}
    if record.schema_type != AVRO:
        value["schemaType"] = record.schema_type
    if record.references:
        value["references"] = references_as_json(record.references)
    return {**value, **json.loads(record.more), "schema": record.schema, "deleted": record.deleted}


def _config_value(record: ConfigRecord) -> dict[str, Any]:
    value: dict[str, Any] = {**_of(record.subject), **json.loads(record.more)}
    if record.normalize is not None:
        value["normalize"] = record.normalize
    if record.level is not None:
        value["compatibilityLevel"] = record.level.value
    return value


def references_as_json(references: tuple[Reference, ...]) -> list[dict[str, Any]]:
    return [{"name": each.name, "subject": each.subject, "version": each.version} for each in references]


def references_from_json(content: Any) -> tuple[Reference, ...]:
    """Raises KeyError, TypeError."""
    return tuple(
        Reference(name=_text(each["name"]), subject=_text(each["subject"]), version=_number(each["version"]))
        for each in content or ()
    )


def decode_record(key: bytes | None, value: bytes | None) -> Record:
    """Read a record; a malformed one becomes an `OtherRecord` with the reason."""
    try:
        return _decode(json.loads(key or b"{}"), json.loads(value) if value else None)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return OtherRecord(reason=f"{type(error).__name__}: {error}")


def _decode(key: dict[str, Any], value: dict[str, Any] | None) -> Record:  # noqa: PLR0911 - one for each kind
    kind = key["keytype"]
    if kind == "SCHEMA":
        return _decode_schema(_text(key["subject"]), _number(key["version"]), value)
    if kind == "CONFIG":
        return _decode_config(_subject(key), value)
    if kind == "MODE":
        mode = None if value is None else value.get("mode")
        return ModeRecord(subject=_subject(key), mode=None if mode is None else Mode(mode))
    if kind == "DELETE_SUBJECT" and value is not None:
        return DeletedSubjectRecord(subject=_text(key["subject"]), version=_number(value["version"]))
    if kind == "CLEAR_SUBJECT" and value is not None:
        return ClearedSubjectRecord(subject=_subject(key))
    if kind == "NOOP" and "proposal" in key:
        return _decode_proposal(_text(key["proposal"]), value)
    if kind == "NOOP" and "highestId" in key and value is not None:
        return HighestIdRecord(id=_number(value["id"]))
    return OtherRecord()


def _decode_schema(subject: str, version: int, value: dict[str, Any] | None) -> Record:
    if value is None:
        return RemovedVersionRecord(subject=subject, version=version)
    more = {name: each for name, each in value.items() if name not in _KNOWN_FIELDS and each is not None}
    return SchemaRecord(
        subject=subject,
        version=version,
        id=_number(value["id"]),
        schema=_text(value["schema"]),
        schema_type=_text(value.get("schemaType") or AVRO),
        references=references_from_json(value.get("references")),
        deleted=bool(value.get("deleted", False)),
        more=json.dumps(more),
    )


def _decode_config(subject: str | None, value: dict[str, Any] | None) -> Record:
    settings = {name: each for name, each in (value or {}).items() if each is not None and name != "subject"}
    level, normalize = settings.pop("compatibilityLevel", None), settings.pop("normalize", None)
    return ConfigRecord(
        subject=subject,
        level=None if level is None else Level(level),
        normalize=None if normalize is None else bool(normalize),
        more=json.dumps(settings),
    )


def _decode_proposal(proposal: str, value: dict[str, Any] | None) -> Record:
    if value is None:
        return RetiredProposalRecord(proposal=proposal)
    if "change" not in value:
        # Of an earlier release, whose registry has died before it answered.
        return OtherRecord()
    return ProposalRecord(proposal=proposal, change=change_from_json(value))


def _of(subject: str | None) -> dict[str, str]:
    return {} if subject is None else {"subject": subject}


def _subject(key: dict[str, Any]) -> str | None:
    return None if key.get("subject") is None else _text(key["subject"])


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
