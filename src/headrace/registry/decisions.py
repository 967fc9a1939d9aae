"""What becomes of a change: the rule by which several registries agree without locks or messages.

A change is first written as a proposal, under a key that nobody else uses; its place in the log is its turn.
Proposals are decided on in the order of their turns, each on the state that the ones before it have left:
whoever wants to write first carries out every proposal that is still open, then retires it. A decision
follows from the state alone, so every registry makes the same one, and two that carry out one proposal write
equal records. Deciding again on what was carried out, wholly or in part, gives what is missing, so a registry
may die at any moment.

Invariants: an id, once given, means one schema for ever, also after the schema is removed for good; a version
that another schema refers to cannot be removed. Pure: no I/O, no locks, no time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from headrace.core.errors import HeadraceError
from headrace.registry.changes import (
    Change,
    DeleteSubject,
    DeleteVersion,
    Register,
    RemoveConfig,
    RemoveMode,
    SetConfig,
    SetMode,
)
from headrace.registry.compatibility import incompatibility, refusal
from headrace.registry.mode import Mode
from headrace.registry.records import (
    ConfigRecord,
    Effect,
    HighestIdRecord,
    ModeRecord,
    RemovedVersionRecord,
    SchemaRecord,
)
from headrace.registry.schema import Schema, invalid_schema
from headrace.registry.state import RegistryState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The records to write, in order; what the client is told: numbers, or why the change is refused."""

    effects: tuple[Effect, ...] = ()
    # Of a registration the id and the version; of a deletion the versions.
    reply: tuple[int, ...] = ()
    refusal: HeadraceError | None = None


def decide(state: RegistryState, change: Change) -> Decision:  # noqa: PLR0911 - one for each kind
    try:
        match change:
            case Register():
                return _register(state, change)
            case DeleteVersion():
                return _delete_version(state, change)
            case DeleteSubject():
                return _delete_subject(state, change)
            case SetConfig() | RemoveConfig():
                return _configure(state, change)
            case SetMode():
                return _set_mode(state, change)
            case RemoveMode():
                subjects = [change.subject]
                if change.recursive and change.subject is None:
                    subjects += [each.subject for each in state.own_modes() if each.subject is not None]
                set_before = [each for each in subjects if state.own_mode(each) is not None]
                return Decision(effects=tuple(ModeRecord(subject=each, mode=None) for each in set_before))
    except HeadraceError as error:
        return Decision(refusal=error)


def _register(state: RegistryState, wanted: Register) -> Decision:
    schema = state.read_new(wanted.schema_type, wanted.schema, wanted.references)
    if wanted.id is not None:
        return _import(state, wanted, schema)
    found = state.find(wanted.subject, schema)
    if found is not None and wanted.version in {None, found.version}:
        return Decision(reply=(found.id, found.version))
    mode = state.mode(wanted.subject)
    if mode is not Mode.READWRITE:
        raise _not_permitted(f"Subject {wanted.subject} is not in read-write mode but in mode {mode}.")
    version = state.next_version(wanted.subject)
    if wanted.version not in {None, version}:
        raise invalid_schema(
            wanted.schema_type,
            f"version {wanted.version} is not one more than the last version, {version - 1}",
        )
    versions = state.versions(wanted.subject)
    against = incompatibility(state.level(wanted.subject), schema, versions, state.read)
    if against is not None:
        raise refusal(wanted.subject, against)
    known_id = state.id_of(schema)
    return _registered(state, wanted, schema, known_id or state.next_id(), version)


def _import(state: RegistryState, wanted: Register, schema: Schema[object]) -> Decision:
    assert wanted.id is not None
    subject = wanted.subject
    if state.mode(subject) is not Mode.IMPORT:
        raise _not_permitted(f"Subject {subject} is not in import mode, so no id can be given.")
    used = state.usages(wanted.id, deleted=True)
    version = wanted.version or next(
        (each.version for each in used if each.subject == subject and not each.deleted),
        state.next_version(subject),
    )
    record = SchemaRecord(
        subject=subject,
        version=version,
        id=wanted.id,
        schema=schema.text,
        schema_type=schema.schema_type,
        references=schema.references,
    )
    if any(state.identity(each) != state.identity(record) for each in used):
        raise _not_permitted(f"Another schema has the id {wanted.id} already, which cannot be overwritten.")
    held = state.version(subject, version)
    if held is not None and state.identity(held) != state.identity(record):
        raise _not_permitted(f"Version {version} of subject {subject} is there already, with another schema.")
    if held is not None and held.id == wanted.id and not held.deleted:
        return Decision(reply=(held.id, held.version))
    if used:
        # One id, one text, even if another spelling of the same schema is imported.
        record = dataclasses.replace(record, schema=used[0].schema)
    return Decision(effects=(record,), reply=(record.id, record.version))


def _registered(
    state: RegistryState, wanted: Register, schema: Schema[object], schema_id: int, version: int
) -> Decision:
    known = state.schema(schema_id)
    record = SchemaRecord(
        subject=wanted.subject,
        version=version,
        id=schema_id,
        # One id, one text, even if another spelling of the same schema is registered.
        schema=known.schema if known else schema.text,
        schema_type=schema.schema_type,
        references=schema.references,
    )
    # As in Confluent's registry: the new version takes the place of deleted ones with this schema.
    replaced = [
        RemovedVersionRecord(subject=each.subject, version=each.version)
        for each in state.usages(schema_id, deleted=True)
        if each.subject == wanted.subject
        and each.deleted
        and not state.referrers(each.subject, each.version, deleted=True)
    ]
    return Decision(effects=(record, *replaced), reply=(schema_id, version))


def _delete_version(state: RegistryState, wanted: DeleteVersion) -> Decision:
    subject, version = wanted.subject, wanted.version
    held = state.version(subject, version)
    if held is None:
        raise no_version(version) if state.versions(subject, deleted=True) else no_subject(subject)
    if held.deleted and not wanted.permanent:
        raise HeadraceError(
            "version_deleted",
            f"Subject '{subject}' Version {version} was soft deleted. "
            "Set permanent=true to delete permanently.",
        )
    _check_writable(state, subject)
    if state.referrers(subject, version, deleted=wanted.permanent):
        raise _referenced(subject, version)
    if not wanted.permanent:
        return Decision(effects=(dataclasses.replace(held, deleted=True),), reply=(version,))
    if not held.deleted:
        raise HeadraceError(
            "version_not_deleted",
            f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted.",
        )
    return Decision(effects=_removals(state, [held]), reply=(version,))


def _delete_subject(state: RegistryState, wanted: DeleteSubject) -> Decision:
    subject = wanted.subject
    held = state.versions(subject, deleted=True)
    live = [each for each in held if not each.deleted]
    if not held:
        raise no_subject(subject)
    if not live and not wanted.permanent:
        raise HeadraceError(
            "subject_deleted",
            f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently.",
        )
    _check_writable(state, subject)
    for each in held if wanted.permanent else live:
        referrers = state.referrers(subject, each.version, deleted=wanted.permanent)
        if any(record.subject != subject for record in referrers):
            raise _referenced(subject, each.version)
    if not wanted.permanent:
        marked = tuple(dataclasses.replace(each, deleted=True) for each in live)
        return Decision(effects=marked, reply=tuple(each.version for each in live))
    if live:
        raise HeadraceError(
            "subject_not_deleted",
            f"Subject '{subject}' was not deleted first before being permanently deleted.",
        )
    return Decision(effects=_removals(state, held), reply=tuple(each.version for each in held))


def _removals(state: RegistryState, held: list[SchemaRecord]) -> tuple[Effect, ...]:
    """Removes versions for good, and with the last one the subject's settings."""
    effects: list[Effect] = [HighestIdRecord(id=state.next_id() - 1)]
    # The settings first: once the versions are gone, nobody would look for them.
    for subject in dict.fromkeys(each.subject for each in held):
        going = [each for each in held if each.subject == subject]
        if len(going) < len(state.versions(subject, deleted=True)):
            continue
        if state.own_mode(subject) is not None:
            effects.append(ModeRecord(subject=subject, mode=None))
        if state.config(subject) is not None:
            effects.append(ConfigRecord(subject=subject))
    # From the last: versions may refer to earlier ones.
    effects += [RemovedVersionRecord(subject=each.subject, version=each.version) for each in reversed(held)]
    return tuple(effects)


def _configure(state: RegistryState, wanted: SetConfig | RemoveConfig) -> Decision:
    _check_writable(state, wanted.subject)
    held = state.config(wanted.subject)
    former = held or ConfigRecord(subject=wanted.subject)
    if isinstance(wanted, RemoveConfig):
        return Decision(effects=() if held is None else (ConfigRecord(subject=wanted.subject),))
    new = dataclasses.replace(
        former,
        level=wanted.level or former.level,
        normalize=former.normalize if wanted.normalize is None else wanted.normalize,
    )
    return Decision(effects=() if new == held or new.is_empty else (new,))


def _set_mode(state: RegistryState, wanted: SetMode) -> Decision:
    new = ModeRecord(subject=wanted.subject, mode=wanted.mode)
    if state.own_mode(wanted.subject) is wanted.mode:
        return Decision()
    if wanted.mode is not Mode.IMPORT or wanted.force or state.mode(wanted.subject) is Mode.IMPORT:
        return Decision(effects=(new,))
    held = [each for each in state.all_versions() if wanted.subject in {None, each.subject}]
    if any(not each.deleted for each in held):
        raise _not_permitted("Cannot import since found existing subjects.")
    going = {(each.subject, each.version) for each in held}
    for each in held:
        for referrer in state.referrers(each.subject, each.version, deleted=True):
            if (referrer.subject, referrer.version) not in going:
                raise _referenced(each.subject, each.version)
    return Decision(effects=(*(_removals(state, held) if held else ()), new))


def _check_writable(state: RegistryState, subject: str | None) -> None:
    if state.mode(subject).is_read_only:
        raise _not_permitted(f"Subject {subject} is in read-only mode.")


def no_subject(subject: str) -> HeadraceError:
    return HeadraceError("subject_not_found", f"Subject '{subject}' not found.")


def no_version(version: int | str) -> HeadraceError:
    return HeadraceError("version_not_found", f"Version {version} not found.")


def _not_permitted(message: str) -> HeadraceError:
    return HeadraceError("change_not_permitted", message)


def _referenced(subject: str, version: int) -> HeadraceError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return HeadraceError("reference_exists", f"One or more references exist to the schema {key}.")
