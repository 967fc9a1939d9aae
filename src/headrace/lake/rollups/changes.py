"""What the commits of a table did to its rows, as far as a rollup has to know.

A commit that moves rows between files says so (`dataChange` is false), and changes nothing here. Others add
files, whose rows are new, or remove files: then the partitions that they were in must be read again. Whatever
is not certain changes everything: a commit that the log no longer has, files with deletion vectors, a file
whose partition is not told. Never writes; a commit is read once. Belongs to one thread.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LOG_FOLDER, DeltaLog, SeenVersion
from headrace.lake.delta_schema import struct_of
from headrace.lake.rollups.definition import RollupDefinition
from headrace.lake.table_state import DataFile, PartitionValues, data_file

_MOST_COMMITS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDid:
    """What one commit did. `definitions` are the table's definitions in it; `reason` says why nothing of what
    was before can be relied on, and is empty if it can.
    """

    added: tuple[DataFile, ...] = ()
    changed: frozenset[PartitionValues] = frozenset()
    definitions: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What became of the rows between two versions.

    `added` are files whose rows are new, and whose partitions did not change otherwise; they may have been
    merged into others since. In the partitions `changed` rows were removed. `reason` as in `CommitDid`.
    """

    added: tuple[DataFile, ...] = ()
    changed: frozenset[PartitionValues] = frozenset()
    reason: str = ""


class TableChanges:
    """Of the table that has this log."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._commits: OrderedDict[SeenVersion, CommitDid] = OrderedDict()
        self._marks: OrderedDict[SeenVersion, str] = OrderedDict()

    def mark(self, version: int, expected: SeenVersion | None = None) -> str:
        """Tells the commit of this version from any other that has its number, in this table or another one
        in its place. Empty if there is none, or not the expected one.
        """
        seen = self._log.seen(version)
        if seen.file is None or (expected is not None and seen != expected):
            return ""
        mark = self._marks.get(seen)
        if mark is None:
            try:
                content = self._log.files.read(f"{LOG_FOLDER}/{self._log.commit_file(version).name}")
            except FileNotFoundError:
                return ""
            if self._log.seen(version) != seen:
                return ""
            mark = hashlib.sha256(content).hexdigest()
            _keep(self._marks, seen, mark)
        return mark

    def between(self, since: int, to: int, definition: RollupDefinition, *, table_id: str) -> Changes:
        """What the commits after `since` up to `to` did to what this rollup keeps."""
        added: list[DataFile] = []
        changed: set[PartitionValues] = set()
        for version in range(since + 1, to + 1):
            did = self._did(version)
            reason = did.reason or next(
                filter(None, (_unfit(each, definition, table_id) for each in did.definitions)), ""
            )
            if reason:
                return Changes(reason=f"{reason} (version {version})")
            # A file that is added again has the place of the former one.
            known = {file.name for file in added}
            changed |= {file.partition for file in did.added if file.name in known}
            added += did.added
            changed |= did.changed
        return Changes(
            added=tuple(file for file in added if file.partition not in changed), changed=frozenset(changed)
        )

    def _did(self, version: int) -> CommitDid:
        seen = self._log.seen(version)
        if seen.file is None:
            return CommitDid(reason="the log no longer has a commit")
        did = self._commits.get(seen)
        if did is None:
            try:
                did = _did(self._log.actions(version))
            except (FileNotFoundError, ValueError) as error:
                return CommitDid(reason=f"a commit cannot be read: {error}")
            _keep(self._commits, seen, did)
        return did


def _did(actions: list[dict[str, Any]]) -> CommitDid:
    added: list[DataFile] = []
    changed: set[PartitionValues] = set()
    definitions: list[str] = []
    reason = ""
    for action in actions:
        if (add := action.get("add")) is not None:
            file = data_file(add)
            if file.has_deletions:
                reason = "files have deletion vectors"
            elif add.get("dataChange", True):
                added.append(file)
        elif (remove := action.get("remove")) is not None:
            if not remove.get("dataChange", True):
                continue
            if remove.get("partitionValues") is None:
                reason = reason or "a file was removed from a partition that the log does not tell"
            else:
                changed.add(_partition(remove["partitionValues"]))
        elif (metadata := action.get("metaData")) is not None:
            definitions.append(json.dumps(metadata))
    return CommitDid(
        added=tuple(added), changed=frozenset(changed), definitions=tuple(definitions), reason=reason
    )


def unfit(metadata: Mapping[str, Any], definition: RollupDefinition) -> str:
    """Why a table with this definition is not the one that the rollup was defined for; empty if it is."""
    try:
        columns = struct_of(metadata["schemaString"], table=definition.table)
    except HeadraceError as error:
        return error.message
    if not definition.fits(columns, tuple(metadata.get("partitionColumns") or ())):
        return "columns or partitions of the table are others"
    return ""


def _unfit(metadata: str, definition: RollupDefinition, table_id: str) -> str:
    content = json.loads(metadata)
    if content.get("id") != table_id:
        return "another table is in its place"
    return unfit(content, definition)


def _partition(values: Mapping[str, str | None]) -> PartitionValues:
    return tuple(sorted((name, value or None) for name, value in values.items()))


def _keep(known: OrderedDict[SeenVersion, Any], seen: SeenVersion, what: object) -> None:
    known[seen] = what
    if len(known) > _MOST_COMMITS:
        known.popitem(last=False)
