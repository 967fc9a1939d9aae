"""The registry as a service: its state follows the log, and changes wait for their own records.

Invariants: the state changes only in the reading thread, by replay. A change returns after its records have
been read back from the log, so an id, once returned, means that schema for ever, and this registry finds it
from then on. A look-up that fails is repeated after reading to the end of the log, so it also finds what
other registries have registered. Several registries may share one log, and any of them may die at any moment
(`decisions.py`). Never keeps a schema anywhere but in the log.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from headrace.client.followed import CompactedLog
from headrace.client.reading import Record, headers_of
from headrace.core.errors import HeadraceError
from headrace.registry.carrying_out import ChangeWriter
from headrace.registry.changes import (
    DeleteSubject,
    DeleteVersion,
    Register,
    RemoveConfig,
    RemoveMode,
    SetConfig,
    SetMode,
)
from headrace.registry.compatibility import Incompatibility, incompatibility
from headrace.registry.decisions import no_subject, no_version
from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.records import (
    PROPOSAL_HEADER,
    ConfigRecord,
    OtherRecord,
    RetiredProposalRecord,
    SchemaRecord,
    decode_record,
)
from headrace.registry.schema import AVRO, Reference, Schema, invalid_schema
from headrace.registry.state import RegistryState
from headrace.registry.subjects import checked_subject

_log = logging.getLogger(__name__)

TOPIC: Final = "_schemas"
LATEST: Final = "latest"
# In a reference, the latest version.
_LATEST_NUMBER: Final = -1
_Found = TypeVar("_Found")


class Registry:
    """Subjects and schemas of one cluster. All methods may be called from any thread; all may block.

    A subject of None stands for all subjects without their own setting. All raise invalid_subject.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str = TOPIC,
        timeout: float = 15.0,
        log_type: type[CompactedLog] = CompactedLog,
    ) -> None:
        """`timeout` is how long a call waits for the log, in seconds."""
        self._state = RegistryState()
        self._log = log_type(bootstrap, topic, self._replay, holds="schemas", timeout=timeout)
        # Guards the state.
        self._progress = self._log.progress
        self._has_started = False
        self._writer = ChangeWriter(self._log, self._state, timeout=timeout)

    def start(self) -> None:
        """Create the topic if it is missing, and read all of it. Raises log_unavailable, invalid_setting."""
        self._log.start()
        with self._progress:
            self._has_started = True
            self._state.index()
            for held in self._state.overwritten():
                self._writer.repair(held, self._state.turn_of(held))

    def stop(self) -> None:
        """Stop following the log. Look-ups still answer from what has been read."""
        self._log.stop()

    def register(
        self, subject: str, schema_text: str, schema_type: str = AVRO, references: Sequence[Reference] = ()
    ) -> int:
        """The id of the schema under this subject, new or not.

        Raises invalid_schema, schema_too_large, incompatible_schema, change_not_permitted, log_unavailable.
        """
        return self.register_version(subject, schema_text, schema_type, references).id

    def register_version(
        self,
        subject: str,
        schema_text: str,
        schema_type: str = AVRO,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> SchemaRecord:
        """The version with this schema, new or not. With `schema_id`, it is imported: see `mode.py`."""
        subject = checked_subject(subject)
        schema = self._read(subject, schema_text, schema_type, references, normalize=normalize)
        if schema_id is None and version is None:
            with self._progress:
                found = self._state.find(subject, schema)
            if found is not None:
                return found
        change = Register(
            subject=subject,
            schema_type=schema_type,
            schema=schema.text,
            references=schema.references,
            id=schema_id,
            version=version,
        )
        given_id, given_version = self._writer.change(change)
        with self._progress:
            known = self._state.version(subject, given_version)
            if known is not None and known.id == given_id:
                return known
        # Another registry has deleted it meanwhile.
        return SchemaRecord(
            subject=subject,
            version=given_version,
            id=given_id,
            schema=schema.text,
            schema_type=schema_type,
            references=schema.references,
        )

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """The version that was marked as deleted; with `permanent`, one marked so is removed for good.

        Raises subject_not_found, version_not_found, version_deleted, version_not_deleted, reference_exists,
        change_not_permitted, log_unavailable.
        """
        number = version
        if version == LATEST:
            self._log.read_to_end()
            number = self.version(subject).version
        assert isinstance(number, int)
        change = DeleteVersion(subject=checked_subject(subject), version=number, permanent=permanent)
        return self._writer.change(change)[0]

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """The versions that were marked as deleted; with `permanent`, those marked so are removed for good.

        Raises subject_not_found, subject_deleted, subject_not_deleted, reference_exists,
        change_not_permitted, log_unavailable.
        """
        return list(self._writer.change(DeleteSubject(subject=checked_subject(subject), permanent=permanent)))

    def global_level(self) -> Level:
        return self.level(None)

    def level(self, subject: str | None) -> Level:
        """The level that new versions of the subject must meet."""
        with self._progress:
            return self._state.level(subject)

    def own_config(self, subject: str | None) -> ConfigRecord | None:
        """What is set for this subject."""
        with self._progress:
            return self._state.config(subject)

    def config(self, subject: str | None) -> ConfigRecord:
        """What holds for this subject."""
        with self._progress:
            return ConfigRecord(
                subject=subject, level=self._state.level(subject), normalize=self._state.normalizes(subject)
            )

    def set_config(
        self, subject: str | None, *, level: Level | None = None, normalize: bool | None = None
    ) -> ConfigRecord:
        """What is set for the subject from now on; None leaves a setting as it is.

        Raises change_not_permitted, log_unavailable.
        """
        subject = None if subject is None else checked_subject(subject)
        self._writer.change(SetConfig(subject=subject, level=level, normalize=normalize))
        return self.own_config(subject) or ConfigRecord(subject=subject)

    def remove_config(self, subject: str | None) -> None:
        """Raises change_not_permitted, log_unavailable."""
        self._writer.change(RemoveConfig(subject=subject))

    def set_level(self, subject: str | None, level: Level | None) -> None:
        """Set the level of a subject, or of those without their own; None removes all its settings."""
        if level is None:
            self.remove_config(subject)
        else:
            self.set_config(subject, level=level)

    def own_mode(self, subject: str | None) -> Mode | None:
        with self._progress:
            return self._state.own_mode(subject)

    def mode(self, subject: str | None) -> Mode:
        """The mode that holds for the subject."""
        with self._progress:
            return self._state.mode(subject)

    def set_mode(self, subject: str | None, mode: Mode, *, force: bool = False) -> None:
        """Raises change_not_permitted, reference_exists, log_unavailable."""
        subject = None if subject is None else checked_subject(subject)
        self._writer.change(SetMode(subject=subject, mode=mode, force=force))

    def remove_mode(self, subject: str | None, *, recursive: bool = False) -> None:
        """Raises log_unavailable."""
        self._writer.change(RemoveMode(subject=subject, recursive=recursive))

    def incompatibility(
        self,
        subject: str,
        schema_text: str,
        schema_type: str = AVRO,
        references: Sequence[Reference] = (),
        *,
        version: int | str | None = None,
        normalize: bool = False,
    ) -> Incompatibility | None:
        """Why the schema violates the subject's level, against one version or all that the level covers.

        None if it does not, or if there is no version yet. Raises invalid_schema, version_not_found.
        """
        subject = checked_subject(subject)
        self._log.read_to_end()
        schema = self._read(subject, schema_text, schema_type, references, normalize=normalize)
        with self._progress:
            level, versions = self._state.level(subject), self._state.versions(subject)
        if version is not None and version != LATEST:
            versions = [record for record in versions if record.version == version]
            if not versions:
                raise no_version(version)
        versions = versions[-1:] if version == LATEST else versions
        return incompatibility(level, schema, versions, self._state.read)

    def schema_by_id(self, schema_id: int) -> str:
        return self.schema(schema_id).schema

    def schema(self, schema_id: int) -> SchemaRecord:
        """A version with this schema id, deleted or not. Raises schema_not_found."""
        return self._find(
            lambda: self._state.schema(schema_id),
            HeadraceError("schema_not_found", f"Schema {schema_id} not found."),
        )

    def ids_of_guid(self, guid: str) -> list[int]:
        """The ids of the schemas with this GUID (`formats.py`). Raises schema_not_found."""
        return self._find(
            lambda: self._state.ids_of_guid(guid) or None,
            HeadraceError("schema_not_found", f"Schema {guid[:100]} not found."),
        )

    def highest_id(self) -> int:
        """The highest id ever given; 0 if there is none."""
        with self._progress:
            return self._state.next_id() - 1

    def usages(self, schema_id: int, *, deleted: bool = False) -> list[SchemaRecord]:
        """The versions that have this schema. Raises schema_not_found."""
        self.schema(schema_id)
        with self._progress:
            return self._state.usages(schema_id, deleted=deleted)

    def subjects(self, *, deleted: bool = False, only_deleted: bool = False) -> list[str]:
        """Subjects with versions; with `deleted` also those whose versions are all deleted, or only those."""
        with self._progress:
            found = self._state.subjects(deleted=deleted or only_deleted)
            live = set(self._state.subjects()) if only_deleted else set()
        return [subject for subject in found if subject not in live]

    def records(
        self, prefix: str = "", *, deleted: bool = False, only_latest: bool = False
    ) -> list[SchemaRecord]:
        """The versions of all subjects that begin so."""
        with self._progress:
            subjects = [each for each in self._state.subjects(deleted=deleted) if each.startswith(prefix)]
            found = [self._state.versions(subject, deleted=deleted) for subject in subjects]
        return [record for versions in found for record in (versions[-1:] if only_latest else versions)]

    def versions(self, subject: str, *, deleted: bool = False, only_deleted: bool = False) -> list[int]:
        """The version numbers of a subject. Raises subject_not_found."""
        subject = checked_subject(subject)
        found = self._find(
            lambda: self._state.versions(subject, deleted=deleted or only_deleted) or None,
            no_subject(subject),
        )
        return [record.version for record in found if record.deleted or not only_deleted]

    def version(self, subject: str, version: int | str = LATEST, *, deleted: bool = False) -> SchemaRecord:
        """One version of a subject, or its latest. Raises subject_not_found, version_not_found."""
        subject = checked_subject(subject)

        def look() -> SchemaRecord | None:
            if version == LATEST:
                return next(reversed(self._state.versions(subject, deleted=deleted)), None)
            held = self._state.version(subject, version) if isinstance(version, int) else None
            return held if held is not None and (deleted or not held.deleted) else None

        try:
            return self._find(look, no_version(version))
        except HeadraceError as error:
            if error.code == "version_not_found":
                self.versions(subject, deleted=deleted)
            raise

    def referrers(self, subject: str, version: int | str, *, deleted: bool = False) -> list[int]:
        """The ids of the schemas that refer to a version. Raises subject_not_found, version_not_found."""
        held = self.version(subject, version, deleted=True)
        with self._progress:
            found = self._state.referrers(held.subject, held.version, deleted=deleted)
        return sorted({record.id for record in found})

    def lookup(
        self,
        subject: str,
        schema_text: str,
        schema_type: str = AVRO,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
        deleted: bool = False,
    ) -> SchemaRecord:
        """The version of the subject that has this schema. Raises subject_not_found, schema_not_found."""
        subject = checked_subject(subject)
        self.versions(subject, deleted=deleted)
        schema = self._read(subject, schema_text, schema_type, references, normalize=normalize)
        return self._find(
            lambda: self._state.find(subject, schema, deleted=deleted),
            HeadraceError("schema_not_found", "Schema not found."),
        )

    def read(self, record: SchemaRecord) -> Schema[object]:
        """The schema of a version, with what it refers to. Raises invalid_schema."""
        return self._state.read_new(record.schema_type, record.schema, record.references)

    def _read(
        self, subject: str, text: str, schema_type: str, references: Sequence[Reference], *, normalize: bool
    ) -> Schema[object]:
        """Raises invalid_schema."""
        with self._progress:
            normalize = normalize or bool(self._state.normalizes(subject))
        try:
            return self._read_now(text, schema_type, references, normalize=normalize)
        except HeadraceError:
            if not references:
                raise
        # Another registry may have registered what it refers to.
        self._log.read_to_end()
        return self._read_now(text, schema_type, references, normalize=normalize)

    def _read_now(
        self, text: str, schema_type: str, references: Sequence[Reference], *, normalize: bool
    ) -> Schema[object]:
        numbered = tuple(self._numbered(each, schema_type) for each in references)
        if normalize:
            numbered = tuple(sorted(set(numbered)))
        return self._state.read_new(schema_type, text, numbered, normalized=normalize)

    def _numbered(self, reference: Reference, schema_type: str) -> Reference:
        """With the number of the latest version, if that is meant."""
        subject = checked_subject(reference.subject)
        version = reference.version
        if version == _LATEST_NUMBER:
            with self._progress:
                versions = self._state.versions(subject)
            if not versions:
                raise invalid_schema(schema_type, f'subject "{subject}", which it refers to, has no version')
            version = versions[-1].version
        return dataclasses.replace(reference, subject=subject, version=version)

    def _find(self, look: Callable[[], _Found | None], missing: HeadraceError) -> _Found:
        with self._progress:
            found = look()
        if found is None:
            try:
                self._log.read_to_end()
            except HeadraceError as error:
                # Not found in what has been read, and the rest of the log cannot be read.
                raise error from missing
            with self._progress:
                found = look()
        if found is None:
            raise missing
        return found

    def _replay(self, message: Record) -> None:
        """Runs in the reading thread, with `_progress` held."""
        record = decode_record(message.key(), message.value())
        if isinstance(record, OtherRecord) and record.reason:
            _log.warning("cannot read a record of %s: %s", message.topic(), record.reason)
        headers = headers_of(message)
        offset = message.offset() or 0
        held = self._state.replay(record, offset=offset, turn=_turn(headers, offset))
        # While everything is read for the first time, a later record may have repaired it long ago.
        if held is not None and self._has_started:
            self._writer.repair(held, self._state.turn_of(held))
        if isinstance(record, RetiredProposalRecord):
            self._writer.note_outcome(record.proposal, headers)


def _turn(headers: dict[str, bytes], offset: int) -> int | None:
    """The place of the proposal that a record carries out. One behind the record is of another log."""
    given = headers.get(PROPOSAL_HEADER, b"")
    if not given.isdigit() or len(given) > len(str(2**63)):
        return None
    turn = int(given)
    return turn if turn < offset else None
