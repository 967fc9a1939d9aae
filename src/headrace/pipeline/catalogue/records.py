"""Records of the statement log: what a statement changes, and snapshots. Values, and their bytes.

Each statement's record has a unique key. It names the statement that it follows (`after`), by which several
writers agree (`log_state.py`). It contains the changes in full, so replaying needs no parser, no rules and no
cluster. A snapshot's key includes its offset: snapshots with the same key are equal, whoever writes them.

Keys: `statement/<id>`, `snapshot/<offset>`. Values: JSON; a record without a value retracts the earlier one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery, Source
from headrace.pipeline.catalogue.catalogue_json import (
    read_catalogue,
    read_query,
    read_source,
    read_type,
    write_catalogue,
    write_query,
    write_source,
    write_type,
)
from headrace.pipeline.statements.types import DataType

# The predecessor of the first statement.
BEGINNING: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSource:
    """Adds or replaces a stream or table."""

    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSource:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutQuery:
    """Adds or replaces a query. `numbered`: the statement's offset is appended to its id, as in ksqlDB."""

    query: PersistentQuery
    numbered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveQuery:
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseQuery:
    id: str
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PutType:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveType:
    name: str


Effect = PutSource | RemoveSource | PutQuery | RemoveQuery | PauseQuery | PutType | RemoveType


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRecord:
    """`command` is the id by which ksqlDB's clients ask for the status; `message` says what happened."""

    id: str
    after: int
    text: str
    command: str
    message: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a statement that counts. Its offset is ksqlDB's command sequence number."""

    statement: str
    offset: int
    command: str
    message: str
    query_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """The catalogue after the statement at the offset `of`, and the last statements up to it.

    With the latter a writer finds its own statement, even if the log has moved on.
    """

    of: int
    catalogue: Catalogue
    recent: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredRecord:
    """The record with that key is no longer needed."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRecord:
    """Not one of ours, or of a newer version."""

    reason: str


WrittenRecord = StatementRecord | SnapshotRecord | RetiredRecord
LogRecord = WrittenRecord | OtherRecord


def key_of(record: WrittenRecord) -> str:
    if isinstance(record, StatementRecord):
        return f"statement/{record.id}"
    if isinstance(record, SnapshotRecord):
        return f"snapshot/{record.of}"
    return record.key


def encode(record: WrittenRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    key = key_of(record).encode()
    if isinstance(record, RetiredRecord):
        return key, None
    if isinstance(record, SnapshotRecord):
        recent = [
            [done.statement, done.offset, done.command, done.message, done.query_id] for done in record.recent
        ]
        return key, _json({"catalogue": write_catalogue(record.catalogue), "recent": recent})
    content = {
        "after": record.after,
        "text": record.text,
        "command": record.command,
        "message": record.message,
        "effects": [_write_effect(effect) for effect in record.effects],
    }
    return key, _json(content)


def decode(key: bytes | None, value: bytes | None) -> LogRecord:
    try:
        name = (key or b"").decode()
        if value is None:
            return RetiredRecord(key=name)
        kind, _, identity = name.partition("/")
        content = json.loads(value)
        if kind == "snapshot":
            recent = tuple(
                Outcome(statement=statement, offset=offset, command=command, message=message, query_id=query)
                for statement, offset, command, message, query in content["recent"]
            )
            catalogue = read_catalogue(content["catalogue"])
            return SnapshotRecord(of=int(identity), catalogue=catalogue, recent=recent)
        if kind != "statement":
            return OtherRecord(reason=f"unknown key {name!r}")
        return StatementRecord(
            id=identity,
            after=int(content["after"]),
            text=content["text"],
            command=content["command"],
            message=content["message"],
            effects=tuple(_read_effect(effect) for effect in content["effects"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return OtherRecord(reason=f"{type(error).__name__}: {error}")


def _write_effect(effect: Effect) -> dict[str, Any]:  # noqa: PLR0911 - one for each effect
    match effect:
        case PutSource():
            return {"put_source": write_source(effect.source)}
        case RemoveSource():
            return {"remove_source": effect.name}
        case PutQuery():
            return {"put_query": write_query(effect.query), "numbered": effect.numbered}
        case RemoveQuery():
            return {"remove_query": effect.id}
        case PauseQuery():
            return {"pause_query": effect.id, "paused": effect.paused}
        case PutType():
            return {"put_type": effect.name, "type": write_type(effect.type)}
        case RemoveType():
            return {"remove_type": effect.name}


def _read_effect(content: dict[str, Any]) -> Effect:  # noqa: PLR0911 - one for each effect
    match content:
        case {"put_source": source}:
            return PutSource(source=read_source(source))
        case {"remove_source": name}:
            return RemoveSource(name=name)
        case {"put_query": query, "numbered": numbered}:
            return PutQuery(query=read_query(query), numbered=numbered)
        case {"remove_query": query_id}:
            return RemoveQuery(id=query_id)
        case {"pause_query": query_id, "paused": paused}:
            return PauseQuery(id=query_id, paused=paused)
        case {"put_type": name, "type": kind}:
            return PutType(name=name, type=read_type(kind))
        case {"remove_type": name}:
            return RemoveType(name=name)
    raise ValueError(f"unknown effect {sorted(content)}")


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
