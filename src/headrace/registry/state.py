"""What the registry knows. No I/O, no locks, no time.

Invariants: only `replay` changes the state, both while loading and live. The last record of a key counts, as
it does after compaction, so a state read from the compacted topic equals one that saw every record; except
that a record that carries out a proposal never replaces one that carries out a later proposal, since a
registry that was held up may write its record late (decision record 0033). Identities are computed when they
are asked for: while the log is read, what a schema refers to may not be there yet.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator

from headrace.core.errors import HeadraceError
from headrace.registry.formats import guid_of
from headrace.registry.level import DEFAULT_LEVEL, Level
from headrace.registry.mode import DEFAULT_MODE, Mode
from headrace.registry.records import (
    ClearedSubjectRecord,
    ConfigRecord,
    DeletedSubjectRecord,
    Effect,
    HighestIdRecord,
    ModeRecord,
    ProposalRecord,
    Record,
    RemovedVersionRecord,
    RetiredProposalRecord,
    SchemaRecord,
)
from headrace.registry.schema import Reference, Referenced, Schema, invalid_schema
from headrace.registry.schema_reading import SchemaReader

_MOST_REFERENCED = 1000

_Target = tuple[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenProposal:
    """A proposal that is not retired, and its place in the log, which is its turn."""

    record: ProposalRecord
    turn: int


class RegistryState:
    """All versions of all subjects, their settings, and the proposals not yet retired."""

    def __init__(self, reader: SchemaReader | None = None) -> None:
        self._reader = reader or SchemaReader()
        self._subjects: dict[str, dict[int, SchemaRecord]] = {}
        self._usages: dict[int, dict[_Target, SchemaRecord]] = {}
        self._referrers: dict[_Target, set[_Target]] = {}
        # The key None has what holds for subjects without their own.
        self._configs: dict[str | None, ConfigRecord] = {}
        self._modes: dict[str | None, ModeRecord] = {}
        self._guids: dict[str, dict[int, None]] = {}
        self._highest_id = 0
        self._open: dict[str, OpenProposal] = {}
        # By key of a record, the last proposal that it has carried out.
        self._turns: dict[tuple[object, ...], int] = {}
        # By key, the late record that stands behind the one that holds.
        self._overwritten: dict[tuple[object, ...], Effect] = {}
        self._identities: dict[tuple[str, str, tuple[Reference, ...]], str] = {}
        # Another registry may have given one schema several ids. Filled by `index`.
        self._ids: dict[str, set[int]] = {}
        self._identities_of: dict[int, set[str]] = {}
        self._not_indexed: set[int] = set()

    def replay(self, record: Record, *, offset: int = 0, turn: int | None = None) -> Effect | None:
        """Apply one record of the log, which carries out the proposal at the offset `turn`, if any.

        If the record came too late, it changes nothing, and the one that holds is returned.
        """
        if isinstance(record, ProposalRecord):
            # If one arrives twice, the first place counts: nobody has acted on the second.
            self._open.setdefault(record.proposal, OpenProposal(record=record, turn=offset))
        elif isinstance(record, RetiredProposalRecord):
            self._open.pop(record.proposal, None)
        elif isinstance(record, Effect):
            key = _key(record)
            if turn is not None:
                if turn < self._turns.get(key, turn):
                    self._overwritten[key] = record
                    return self._current(record)
                self._turns[key] = turn
            self._overwritten.pop(key, None)
            self._apply(record)
        elif isinstance(record, DeletedSubjectRecord):
            for version, held in list(self._subjects.get(record.subject, {}).items()):
                if version <= record.version:
                    self._apply(dataclasses.replace(held, deleted=True))
        elif isinstance(record, ClearedSubjectRecord):
            for held in list(self.all_versions()):
                if held.deleted and record.subject in {None, held.subject}:
                    self._remove(held.subject, held.version)
        return None

    def turn_of(self, record: Effect) -> int | None:
        """The proposal that the record of this key has carried out last."""
        return self._turns.get(_key(record))

    def overwritten(self) -> list[Effect]:
        """What holds and is not the last record of its key, because another came too late."""
        return [self._current(late) for late in self._overwritten.values()]

    def first_open(self) -> OpenProposal | None:
        """The proposal whose turn it is."""
        return min(self._open.values(), key=lambda each: each.turn, default=None)

    def is_open(self, proposal: str) -> bool:
        return proposal in self._open

    def all_versions(self) -> Iterator[SchemaRecord]:
        for subject in sorted(self._subjects):
            yield from self.versions(subject, deleted=True)

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return sorted(subject for subject in self._subjects if self.versions(subject, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaRecord]:
        """The versions of a subject in order, with `deleted` also those marked so."""
        held = self._subjects.get(subject, {})
        return [held[version] for version in sorted(held) if deleted or not held[version].deleted]

    def version(self, subject: str, version: int) -> SchemaRecord | None:
        """That version, deleted or not."""
        return self._subjects.get(subject, {}).get(version)

    def schema(self, schema_id: int) -> SchemaRecord | None:
        """A version with this schema, deleted or not: data written with an id must stay readable."""
        used = list(self._usages.get(schema_id, {}).values())
        return next((record for record in used if not record.deleted), used[0] if used else None)

    def ids_of_guid(self, guid: str) -> list[int]:
        return sorted(self._guids.get(guid, ()))

    def usages(self, schema_id: int, *, deleted: bool = False) -> list[SchemaRecord]:
        """The versions with this schema, by subject."""
        found = [
            record for record in self._usages.get(schema_id, {}).values() if deleted or not record.deleted
        ]
        return sorted(found, key=lambda record: (record.subject, record.version))

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[SchemaRecord]:
        """The versions that refer to this one, in the order of their ids."""
        found = [self._subjects[name][number] for name, number in self._referrers.get((subject, version), ())]
        return sorted(
            (record for record in found if deleted or not record.deleted),
            key=lambda record: (record.id, record.subject, record.version),
        )

    def config(self, subject: str | None) -> ConfigRecord | None:
        return self._configs.get(subject)

    def level(self, subject: str | None) -> Level:
        """The level that new versions of the subject must meet."""
        own, general = self._configs.get(subject), self._configs.get(None)
        return (own and own.level) or (general and general.level) or DEFAULT_LEVEL

    def normalizes(self, subject: str | None) -> bool | None:
        """Whether schemas of the subject are normalised; None if nobody has said so."""
        own, general = self._configs.get(subject), self._configs.get(None)
        if own is not None and own.normalize is not None:
            return own.normalize
        return None if general is None else general.normalize

    def own_mode(self, subject: str | None) -> Mode | None:
        held = self._modes.get(subject)
        return None if held is None else held.mode

    def mode(self, subject: str | None) -> Mode:
        """What may be done with the subject."""
        general = self.own_mode(None) or DEFAULT_MODE
        if general is Mode.READONLY_OVERRIDE:
            return general
        return self.own_mode(subject) or general

    def own_modes(self) -> list[ModeRecord]:
        return list(self._modes.values())

    def next_id(self) -> int:
        return self._highest_id + 1

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {0: None})) + 1

    def find(self, subject: str, schema: Schema[object], *, deleted: bool = False) -> SchemaRecord | None:
        """The newest version of the subject with this schema.

        A schema without references also finds one in which the same types come from references.
        """
        wanted = _identity(schema)
        for record in reversed(self.versions(subject, deleted=deleted)):
            if self.identity(record) == wanted:
                return record
            if record.references and not schema.references and record.schema_type == schema.schema_type:
                held = self.read(record)
                if held is not None and held.inlined_identity == schema.identity:
                    return record
        return None

    def id_of(self, schema: Schema[object]) -> int | None:
        """The lowest id of the schema, which does not depend on the order of records."""
        self.index()
        return min(self._ids.get(_identity(schema), ()), default=None)

    def identity(self, record: SchemaRecord) -> str:
        """Equal for versions with the same schema."""
        key = (record.schema_type, record.schema, record.references)
        known = self._identities.get(key)
        if known is None:
            read = self.read(record)
            # Another registry accepted what we cannot read; its text serves as its identity.
            known = _identity(read) if read is not None else _digest(*key)
            self._identities[key] = known
        return known

    def read(self, record: SchemaRecord) -> Schema[object] | None:
        """The schema of a version; None if another registry has accepted what we cannot read."""
        try:
            return self.read_new(record.schema_type, record.schema, record.references)
        except HeadraceError:
            return None

    def read_new(
        self, schema_type: str, text: str, references: tuple[Reference, ...], *, normalized: bool = False
    ) -> Schema[object]:
        """Raises invalid_schema."""
        referenced = self.referenced(schema_type, references)
        return self._reader.read(schema_type, text, references, referenced, normalized=normalized)

    def referenced(self, schema_type: str, references: tuple[Reference, ...]) -> tuple[Referenced, ...]:
        """The schemas behind references, each after those that it refers to. Raises invalid_schema."""
        found: dict[str, Referenced] = {}
        seen: set[Reference] = set()
        # Each with whether what it refers to has been looked at.
        ahead = [(reference, False) for reference in reversed(references)]
        while ahead:
            reference, is_ready = ahead.pop()
            record = self.version(reference.subject, reference.version)
            if record is None or record.schema_type != schema_type:
                raise invalid_schema(schema_type, _missing(reference, record, schema_type))
            if is_ready:
                found.setdefault(reference.name, Referenced(name=reference.name, text=record.schema))
            elif reference not in seen:
                seen.add(reference)
                if len(seen) > _MOST_REFERENCED:
                    raise invalid_schema(schema_type, f"it refers to more than {_MOST_REFERENCED} schemas")
                ahead.append((reference, True))
                ahead += [(each, False) for each in reversed(record.references)]
        return tuple(found.values())

    def _apply(self, record: Effect) -> None:
        match record:
            case SchemaRecord():
                self._remove(record.subject, record.version)
                self._add(record)
            case RemovedVersionRecord():
                self._remove(record.subject, record.version)
            case ConfigRecord():
                self._configs.pop(record.subject, None)
                if not record.is_empty:
                    self._configs[record.subject] = record
            case ModeRecord():
                self._modes.pop(record.subject, None)
                if record.mode is not None:
                    self._modes[record.subject] = record
            case HighestIdRecord():
                self._highest_id = max(self._highest_id, record.id)

    def _current(self, late: Effect) -> Effect:
        """What holds in place of a record that came too late."""
        match late:
            case SchemaRecord() | RemovedVersionRecord():
                held = self.version(late.subject, late.version)
                return held or RemovedVersionRecord(subject=late.subject, version=late.version)
            case ConfigRecord():
                return self._configs.get(late.subject, ConfigRecord(subject=late.subject))
            case ModeRecord():
                return self._modes.get(late.subject, ModeRecord(subject=late.subject, mode=None))
            case HighestIdRecord():
                return HighestIdRecord(id=self._highest_id)

    def _add(self, record: SchemaRecord) -> None:
        target = (record.subject, record.version)
        self._subjects.setdefault(record.subject, {})[record.version] = record
        self._usages.setdefault(record.id, {})[target] = record
        for each in record.references:
            self._referrers.setdefault((each.subject, each.version), set()).add(target)
        self._guids.setdefault(guid_of(record), {})[record.id] = None
        self._highest_id = max(self._highest_id, record.id)
        self._not_indexed.add(record.id)

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
            self._guids.get(guid_of(record), {}).pop(record.id, None)
        for each in record.references:
            referrers = self._referrers.get((each.subject, each.version), set())
            referrers.discard((subject, version))
        self._not_indexed.add(record.id)

    def index(self) -> None:
        """Computes what `id_of` needs: of many schemas it takes seconds, once."""
        for schema_id in self._not_indexed:
            for identity in self._identities_of.pop(schema_id, ()):
                self._ids[identity].discard(schema_id)
            found = {self.identity(record) for record in self._usages.get(schema_id, {}).values()}
            self._identities_of[schema_id] = found
            for identity in found:
                self._ids.setdefault(identity, set()).add(schema_id)
        self._not_indexed.clear()


def _key(record: Effect) -> tuple[object, ...]:
    match record:
        case SchemaRecord() | RemovedVersionRecord():
            return ("version", record.subject, record.version)
        case ConfigRecord() | ModeRecord():
            return (type(record).__name__, record.subject)
        case HighestIdRecord():
            return ("highest id",)


def _identity(schema: Schema[object]) -> str:
    return _digest(schema.schema_type, schema.identity, schema.references)


def _digest(schema_type: str, text: str, references: tuple[Reference, ...]) -> str:
    parts = [schema_type, text, *(f"{each.name}\n{each.subject}\n{each.version}" for each in references)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _missing(reference: Reference, record: SchemaRecord | None, schema_type: str) -> str:
    what = f'the reference "{reference.name}" to version {reference.version} of subject "{reference.subject}"'
    if record is None:
        return f"{what} leads nowhere: there is no such version"
    return f"{what} leads to a schema of type {record.schema_type}, not {schema_type}"
