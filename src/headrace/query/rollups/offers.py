"""Which rollups can stand for a table at one version, and which newer files belong to them.

A rollup stands for a version of its table. If the commits since then up to the version of a question have
only added files, or moved rows between files, then the rows of that version are those of the rollup and those
of the added files, each once, whether or not the files have been merged since. Otherwise the rollup is of no
use until it has caught up. Reads commits once each, never a data file. Safe for several threads.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.lake.delta_log import DeltaLog
from headrace.lake.rollups.changes import TableChanges
from headrace.lake.rollups.definition import RollupDefinition, duckdb_type
from headrace.lake.rollups.stored import FOLDER, RollupVersion, StoredRollup
from headrace.query.table_snapshot import TableSnapshot

# Reading more commits than these would hold up questions.
_MOST_BEHIND: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupOffer:
    """A rollup at version `stands_for` of the table. `recent` are files of the table that came later."""

    definition: RollupDefinition
    stands_for: int
    folder: Path
    files: tuple[str, ...]
    rows: int
    recent: tuple[str, ...]


class LakeRollups:
    """The rollups in the lake's folder."""

    def __init__(self, lake_dir: Path) -> None:
        self._folder = lake_dir / FOLDER
        self._lock = threading.Lock()
        self._stored: dict[str, StoredRollup] = {}
        self._changes: dict[Path, TableChanges] = {}

    def offers(self, table: TableSnapshot) -> tuple[RollupOffer, ...]:
        """Those of this table that are good for its version, the smallest first. Never raises: what cannot be
        read is not offered.
        """
        if table.unreadable or not table.table_id or table.stored is not None:
            return ()
        with self._lock:
            found = [self._offer(stored, table) for stored in self._followed()]
        return tuple(sorted(filter(None, found), key=lambda offer: (offer.rows, offer.definition.name)))

    def _followed(self) -> list[StoredRollup]:
        try:
            names = {child.name for child in self._folder.iterdir() if not child.name.startswith(".")}
        except OSError:
            names = set()
        for gone in self._stored.keys() - names:
            del self._stored[gone]
        for new in names - self._stored.keys():
            self._stored[new] = StoredRollup(self._folder / new)
        return [stored for stored in self._stored.values() if stored.follow() is not None]

    def _offer(self, stored: StoredRollup, table: TableSnapshot) -> RollupOffer | None:
        for version in stored.remembered():
            if version.definition.table != table.name or version.stands_for.table_id != table.table_id:
                return None
            if version.stands_for.version <= table.version:
                return self._at(version, table)
        return None

    def _at(self, rollup: RollupVersion, table: TableSnapshot) -> RollupOffer | None:
        definition, stands_for = rollup.definition, rollup.stands_for
        if not _fits(definition, table) or table.version - stands_for.version > _MOST_BEHIND:
            return None
        changes = self._changes.setdefault(table.folder, TableChanges(DeltaLog(table.folder)))
        try:
            if changes.mark(stands_for.version) != stands_for.mark:
                return None
            since = changes.between(
                stands_for.version, table.version, definition, table_id=stands_for.table_id
            )
        except OSError:
            return None
        if since.reason or since.changed:
            return None
        recent = tuple(f"{table.folder}/{file.name}" for file in since.added)
        if any(not Path(file).exists() for file in set(recent).difference(table.files)):
            # Merged into others, and vacuumed.
            return None
        return RollupOffer(
            definition=definition,
            stands_for=stands_for.version,
            folder=rollup.folder,
            files=rollup.files,
            rows=rollup.rows,
            recent=recent,
        )


def _fits(definition: RollupDefinition, table: TableSnapshot) -> bool:
    types = {column.name: column.type.replace(" ", "") for column in table.columns}
    return definition.partition_columns == table.partition_columns and all(
        types.get(each.name) == duckdb_type(each.type).replace(" ", "") for each in definition.types
    )
