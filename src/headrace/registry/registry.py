"""The registry as a service: its state follows the log, and registrations wait for their own record.

Invariants: the state changes only in the reading thread, by replay. A registration returns after its schema
record has been read back from the log, so an id, once returned, means that schema for ever, and this registry
finds it from then on. A lookup that fails is repeated after reading to the end of the log, so it also finds
what other registries have registered. Several registries may share one log, and any of them may die at any
moment (`proposals.py`). Never keeps a schema anywhere but in the log.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Final, TypeVar

from headrace.client.followed import CompactedLog
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.registry.avro import AvroSchema, read_avro
from headrace.registry.compatibility import Incompatibility, incompatibility, refusal
from headrace.registry.level import Level
from headrace.registry.proposals import outcomes, propose
from headrace.registry.records import (
    AVRO,
    ConfigRecord,
    OtherRecord,
    RetiredProposalRecord,
    SchemaRecord,
    WrittenRecord,
    decode_record,
    encode_key,
    encode_value,
)
from headrace.registry.state import RegistryState

_log = logging.getLogger(__name__)

TOPIC: Final = "_schemas"
LATEST: Final = "latest"
_Found = TypeVar("_Found")


class Registry:
    """Subjects and schemas of one cluster. All methods may be called from any thread; all may block."""

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str = TOPIC,
        timeout: float = 15.0,
        log_type: type[CompactedLog] = CompactedLog,
    ) -> None:
        """`timeout` is how long a call waits for the log, in seconds."""
        self._timeout = timeout
        self._state = RegistryState()
        self._log = log_type(bootstrap, topic, self._replay, holds="schemas", timeout=timeout)
        # Guards the state.
        self._progress = self._log.progress
        self._looked_for_leftovers = False
        # Held during a registration: one registry decides on one registration at a time.
        self._registering = threading.Lock()

    def start(self) -> None:
        """Create the topic if it is missing, and read all of it. Raises log_unavailable, invalid_setting."""
        self._log.start()

    def stop(self) -> None:
        """Stop following the log. Lookups still answer from what has been read."""
        self._log.stop()

    def register(self, subject: str, schema_text: str, schema_type: str = AVRO) -> int:
        """The id of the schema under this subject, new or not.

        Raises invalid_schema, incompatible_schema, log_unavailable.
        """
        schema = _read(schema_text, schema_type)
        with self._progress:
            found = self._state.find(subject, schema.identity)
        if found is not None:
            return found.id
        with self._registering:
            return self._register(subject, schema)

    def _register(self, subject: str, schema: AvroSchema) -> int:
        """Write a proposal, read its outcome, write the outcome. Each step starts from the current log."""
        deadline = time.monotonic() + self._timeout
        proposal = ""
        given_up: list[str] = []
        while True:
            self._log.read_to_end()
            with self._progress:
                found = self._state.find(subject, schema.identity)
                outcome = outcomes(self._state).get(proposal)
            if found is not None:
                self._retire_fulfilled()
                return found.id
            if time.monotonic() >= deadline:
                raise self._log.late("write the schema")
            if not self._looked_for_leftovers:
                self._looked_for_leftovers = self._finish_what_others_left()
            elif outcome is not None:
                self._write(outcome)
            elif proposal:
                # Void, or lost. The registry that came first may have died; others then write its record.
                given_up.append(proposal)
                proposal = ""
                self._looked_for_leftovers = False
            else:
                # A new id for each attempt: the last proposal may still arrive. Both then become one record.
                proposal = uuid.uuid4().hex
                self._propose(proposal, subject, schema, given_up)

    def _propose(self, proposal: str, subject: str, schema: AvroSchema, given_up: list[str]) -> None:
        """Ask for the next version of the subject. Raises incompatible_schema."""
        with self._progress:
            found = incompatibility(self._state.level(subject), schema, self._state.versions(subject))
            wish = propose(self._state, proposal, subject, schema)
        if found is not None:
            self._retire(given_up)
            raise refusal(subject, found)
        if wish is not None:
            self._write(wish)

    def _finish_what_others_left(self) -> bool:
        """Write the outcomes of proposals whose registries died before they did.

        False if a record may be missing.
        """
        with self._progress:
            left = list(dict.fromkeys(outcomes(self._state).values()))
        return all(self._write(record) for record in left)

    def _retire_fulfilled(self) -> None:
        with self._progress:
            fulfilled = self._state.fulfilled_proposals()
        self._retire(fulfilled)

    def _retire(self, proposals: list[str]) -> None:
        for proposal in proposals:
            retired = RetiredProposalRecord(proposal=proposal)
            self._log.append_later(encode_key(retired), encode_value(retired))

    def global_level(self) -> Level:
        with self._progress:
            return self._state.global_level()

    def own_level(self, subject: str) -> Level | None:
        """The level set for this subject, if any."""
        with self._progress:
            return self._state.own_level(subject)

    def level(self, subject: str) -> Level:
        """The level that new versions of the subject must meet."""
        with self._progress:
            return self._state.level(subject)

    def set_level(self, subject: str | None, level: Level | None) -> None:
        """Set the level of a subject, or the default for subjects without their own; None removes it.

        Raises log_unavailable.
        """
        record = ConfigRecord(subject=subject, level=level)
        deadline = time.monotonic() + self._timeout
        with self._registering:
            self._log.read_to_end()
            while time.monotonic() < deadline:
                if self._write(record):
                    return
        raise self._log.late("write the level")

    def incompatibility(
        self, subject: str, schema_text: str, schema_type: str = AVRO, *, version: int | str | None = None
    ) -> Incompatibility | None:
        """Why the schema violates the subject's level, against one version or all that the level covers.

        None if it does not, or if there is no version yet. Raises invalid_schema, version_not_found.
        """
        schema = _read(schema_text, schema_type)
        self._log.read_to_end()
        with self._progress:
            level, versions = self._state.level(subject), self._state.versions(subject)
        if version is not None and version != LATEST:
            versions = [record for record in versions if record.version == version]
            if not versions:
                raise _no_version(version)
        return incompatibility(level, schema, versions[-1:] if version == LATEST else versions)

    def schema_by_id(self, schema_id: int) -> str:
        return self.schema(schema_id).schema

    def schema(self, schema_id: int) -> SchemaRecord:
        """A version with this schema id. Raises schema_not_found."""
        return self._find(
            lambda: self._state.schema(schema_id),
            HeadraceError("schema_not_found", f"Schema {schema_id} not found."),
        )

    def usages(self, schema_id: int) -> list[SchemaRecord]:
        """The versions that have this schema. Raises schema_not_found."""
        self.schema(schema_id)
        with self._progress:
            return self._state.usages(schema_id)

    def subjects(self) -> list[str]:
        with self._progress:
            return self._state.subjects()

    def versions(self, subject: str) -> list[int]:
        """The version numbers of a subject. Raises subject_not_found."""
        found = self._find(lambda: self._state.versions(subject) or None, _no_subject(subject))
        return [record.version for record in found]

    def version(self, subject: str, version: int | str = LATEST) -> SchemaRecord:
        """One version of a subject, or its latest. Raises subject_not_found, version_not_found."""
        numbers = self.versions(subject)
        wanted = numbers[-1] if version == LATEST else version

        def look() -> SchemaRecord | None:
            return next(
                (record for record in self._state.versions(subject) if record.version == wanted), None
            )

        return self._find(look, _no_version(version))

    def lookup(self, subject: str, schema_text: str, schema_type: str = AVRO) -> SchemaRecord:
        """The version of the subject that has this schema. Raises subject_not_found, schema_not_found."""
        identity = _read(schema_text, schema_type).identity
        self.versions(subject)
        return self._find(
            lambda: self._state.find(subject, identity),
            HeadraceError("schema_not_found", "Schema not found."),
        )

    def _write(self, record: WrittenRecord) -> bool:
        """Write the record and wait until it has been read back; False if it may not have been written."""
        return self._log.append(encode_key(record), encode_value(record))

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
        self._state.replay(record)


def _no_subject(subject: str) -> HeadraceError:
    return HeadraceError("subject_not_found", f"Subject '{subject}' not found.")


def _no_version(version: int | str) -> HeadraceError:
    return HeadraceError("version_not_found", f"Version {version} not found.")


def _read(schema_text: str, schema_type: str) -> AvroSchema:
    """Raises invalid_schema."""
    if schema_type == AVRO:
        return read_avro(schema_text)
    raise HeadraceError(
        "invalid_schema",
        f"Schemas of type {schema_type} are not supported.",
        remedy=f"Register an {AVRO} schema.",
    )
