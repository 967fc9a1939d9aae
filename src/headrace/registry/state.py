"""What the registry knows, and the record that a registration needs. No I/O, no locks, no time.

Invariants: only `replay` changes the state, both while loading and live. The last record of a key counts, as
it does after compaction, so a state read from the compacted topic equals one that saw every record. Ids are
never reused while the topic holds them; a subject's versions count up from 1 and skip deleted ones. The
outcome of a proposal follows from the log alone (`proposals.py`), so two registries never write different
records with one key.
"""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.registry.avro import AvroSchema, read_avro
from headrace.registry.level import DEFAULT_LEVEL, Level
from headrace.registry.records import (
    AVRO,
    ConfigRecord,
    DeletedSubjectRecord,
    ProposalRecord,
    Record,
    RemovedVersionRecord,
    RetiredProposalRecord,
    SchemaRecord,
)


class RegistryState:
    """All versions of all subjects, their levels, and the proposals not yet retired."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaRecord]] = {}
        self._usages: dict[int, dict[tuple[str, int], SchemaRecord]] = {}
        self._identities: dict[int, str] = {}
        # Another registry may have given one schema several ids, one per spelling.
        self._ids: dict[str, set[int]] = {}
        self._highest_id = 0
        # In the order of the log, each with the identity of its schema.
        self._open: dict[str, tuple[ProposalRecord, str]] = {}
        self._fulfilled: set[str] = set()
        # The key None has the default for subjects without their own level.
        self._levels: dict[str | None, Level] = {}

    def replay(self, record: Record) -> None:
        """Apply one record of the log."""
        if isinstance(record, SchemaRecord):
            self._remove(record.subject, record.version)
            self._fulfil(record.subject, self._add(record))
        elif isinstance(record, RemovedVersionRecord):
            self._remove(record.subject, record.version)
        elif isinstance(record, DeletedSubjectRecord):
            for version in list(self._subjects.get(record.subject, ())):
                if version <= record.version:
                    self._mark_deleted(record.subject, version)
        elif isinstance(record, ConfigRecord):
            if record.level is None:
                self._levels.pop(record.subject, None)
            else:
                self._levels[record.subject] = record.level
        elif isinstance(record, ProposalRecord):
            self._propose(record)
        elif isinstance(record, RetiredProposalRecord):
            self._open.pop(record.proposal, None)
            self._fulfilled.discard(record.proposal)

    def schema(self, schema_id: int) -> SchemaRecord | None:
        """A version with this schema, deleted or not: data written with an id must stay readable."""
        return next(iter(self._usages.get(schema_id, {}).values()), None)

    def usages(self, schema_id: int) -> list[SchemaRecord]:
        """The versions with this schema that are not deleted, by subject."""
        found = [record for record in self._usages.get(schema_id, {}).values() if not record.deleted]
        return sorted(found, key=lambda record: (record.subject, record.version))

    def subjects(self) -> list[str]:
        return sorted(subject for subject in self._subjects if self.versions(subject))

    def versions(self, subject: str) -> list[SchemaRecord]:
        """The versions of a subject that are not deleted, in order."""
        held = self._subjects.get(subject, {})
        return [held[version] for version in sorted(held) if not held[version].deleted]

    def find(self, subject: str, identity: str) -> SchemaRecord | None:
        """The newest version of the subject with this schema."""
        matching = [record for record in self.versions(subject) if self._identities[record.id] == identity]
        return matching[-1] if matching else None

    def own_level(self, subject: str) -> Level | None:
        return self._levels.get(subject)

    def global_level(self) -> Level:
        return self._levels.get(None, DEFAULT_LEVEL)

    def level(self, subject: str) -> Level:
        """The level that new versions of the subject must meet."""
        return self._levels.get(subject, self.global_level())

    def id_of(self, identity: str) -> int | None:
        """The lowest id of the schema, which does not depend on the order of records."""
        return min(self._ids.get(identity, ()), default=None)

    def id_is_taken(self, schema_id: int) -> bool:
        return schema_id in self._identities

    def version_is_taken(self, subject: str, version: int) -> bool:
        return version in self._subjects.get(subject, ())

    def next_id(self) -> int:
        return self._highest_id + 1

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {0: None})) + 1

    def open_proposals(self) -> list[tuple[ProposalRecord, str]]:
        """Proposals without a schema record yet, with the identities of their schemas, in log order."""
        return list(self._open.values())

    def fulfilled_proposals(self) -> list[str]:
        """Proposals that can be retired."""
        return sorted(self._fulfilled)

    def _propose(self, record: ProposalRecord) -> None:
        # If one arrives twice, the last place counts: compaction keeps that one.
        self._open.pop(record.proposal, None)
        identity = _identity(record.schema)
        if self.find(record.subject, identity) is None:
            self._open[record.proposal] = record, identity
        else:
            self._fulfilled.add(record.proposal)

    def _fulfil(self, subject: str, identity: str) -> None:
        for key, (proposal, wanted) in list(self._open.items()):
            if proposal.subject == subject and wanted == identity:
                del self._open[key]
                self._fulfilled.add(key)

    def _add(self, record: SchemaRecord) -> str:
        identity = _identity_of_version(record)
        self._subjects.setdefault(record.subject, {})[record.version] = record
        self._usages.setdefault(record.id, {})[record.subject, record.version] = record
        before = self._identities.get(record.id, identity)
        if before != identity:
            self._ids[before].discard(record.id)
        self._identities[record.id] = identity
        self._ids.setdefault(identity, set()).add(record.id)
        self._highest_id = max(self._highest_id, record.id)
        return identity

    def _remove(self, subject: str, version: int) -> None:
        record = self._subjects.get(subject, {}).pop(version, None)
        if record is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        users = self._usages[record.id]
        del users[subject, version]
        if not users:
            del self._usages[record.id]
            self._ids[self._identities.pop(record.id)].discard(record.id)

    def _mark_deleted(self, subject: str, version: int) -> None:
        record = self._subjects[subject][version]
        deleted = SchemaRecord(
            subject=subject,
            version=version,
            id=record.id,
            schema=record.schema,
            schema_type=record.schema_type,
            references=record.references,
            deleted=True,
        )
        self._remove(subject, version)
        self._add(deleted)


def decide_registration(state: RegistryState, subject: str, schema: AvroSchema) -> SchemaRecord | None:
    """The record that registers the schema, or None if the subject has it already."""
    if state.find(subject, schema.identity) is not None:
        return None
    known_id = state.id_of(schema.identity)
    known = state.schema(known_id) if known_id is not None else None
    return SchemaRecord(
        subject=subject,
        version=state.next_version(subject),
        id=known.id if known else state.next_id(),
        # One id, one text, even if another spelling of the same schema is registered.
        schema=known.schema if known else schema.text,
    )


def _identity_of_version(record: SchemaRecord) -> str:
    if record.schema_type != AVRO or record.references != "[]":
        return f"{record.schema_type} {record.references} {record.schema}"
    return _identity(record.schema)


def _identity(schema: str) -> str:
    try:
        return read_avro(schema).identity
    except HeadraceError:
        # Another registry accepted it; its text serves as its identity.
        return schema
