"""The log of a table of plain files, and how its files get their names.

A table of plain files is a folder that everybody can read without knowing of this log: Parquet, Avro, JSON or
bytes below `<column>=<value>/` folders. Whoever lists the folder never finds a row twice, and each row once
as soon as its commit is published. Whoever reads the log knows which files there are at which version.

Format: `_headrace_log/<version in 20 digits>.commit` is one commit, a JSON object per line, in the words of a
Delta commit: `commitInfo` (with the positions as `userMetadata`), `metaData` (format, columns, folders) and
`add`. `_headrace_log/_published` has the newest version whose files all have their names. The endings are
such that no reader of data takes these files for data: DuckDB, for one, also looks into folders whose names
begin with an underscore. For that reason Spark writes outside of the table's folder, beside it:
`_headrace_staging/<table>/<id>/`. The tag `staged` of an `add` says where its file was written.

A commit in four steps, each durable before the next: the files are written where nobody looks; the commit is
added, which is when its rows count; the files get their names; the version is noted as published, and what is
left beside the table removed. The next commit follows after that.

Crash behaviour: before the commit nothing counts, and the files are removed later. After it, `open` finishes
what is not published. A commit whose answer was lost may appear late, so leftovers of former runs are removed
only after the next commit, which is the proof that it cannot appear any more.

Who may call: reading, everybody; all else, the process that is the one writer of the table.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LOG_FOLDER as DELTA_FOLDER
from headrace.lake.delta_log import DeltaLog, SeenVersion
from headrace.lake.delta_schema import schema_of, struct_of
from headrace.lake.location import Location
from headrace.lake.sink import FileFormat
from headrace.lake.storage.opening import files_at
from headrace.lake.storage.table_files import Publication, TableFiles
from headrace.lake.types import Struct

PLAIN_FOLDER: Final = "_headrace_log"
STAGING: Final = "_headrace_staging"
PUBLISHED: Final = "_published"
# The tag of an `add`: where the file was written, relative to the folder that the table is in.
STAGED: Final = "staged"

_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDefinition:
    """What a table has: `columns` of its records and its folders, without coordinates."""

    file_format: FileFormat
    columns: Struct
    partition_columns: tuple[str, ...]

    def as_action(self) -> str:
        content = {
            "id": str(uuid.uuid4()),
            "format": {"provider": self.file_format.value, "options": {}},
            "schemaString": schema_of(self.columns),
            "partitionColumns": list(self.partition_columns),
            "configuration": {},
            "createdTime": time.time_ns() // 1_000_000,
        }
        return json.dumps({"metaData": content}, separators=(",", ":"))


class PlainLog(DeltaLog):
    """The log of one table. `open` comes first."""

    log_folder: ClassVar[str] = PLAIN_FOLDER
    commit_ending: ClassVar[str] = ".commit"

    def __init__(self, table: Path | Location, *, opens: Callable[[Location], TableFiles] = files_at) -> None:
        super().__init__(table, opens=opens)
        # The folder that the table is in: names in it begin with that of the table, or with the staging's.
        self._place = opens(self.table.parent)
        self._staging = f"{STAGING}/{self.table.name}"
        self._leftovers: list[str] = []
        self._newest = _NONE
        self._definition = _NONE

    def open(self) -> PlainDefinition | None:
        """Finish what a former run has committed, and tell what the table has; None if there is no table.

        Raises lake_damaged, lake_unsupported.
        """
        self._leftovers = self._place.folders(self._staging)
        self._newest = self.newest_version()
        if self._newest == _NONE:
            return None
        info, definition = self._said(self._newest)
        self._definition = int(info["definition"])
        for version in range(self.published_version() + 1, self._newest + 1):
            self._publish(version, self.actions(version))
        return definition

    def published_version(self) -> int:
        """The newest version whose files all have their names; -1 if there is none."""
        try:
            return int(self.files.read(f"{self.log_folder}/{PUBLISHED}"))
        except FileNotFoundError:
            return _NONE

    @property
    def next_version(self) -> int:
        return self._newest + 1

    def create(self, definition: PlainDefinition) -> None:
        """Raises lake_unsupported if the folder has files already."""
        if self.files.names(DELTA_FOLDER):
            raise self._other_table("is a Delta table")
        if (found := next(iter(self.files.below("")), None)) is not None:
            raise self._other_table(f"has files that are not this table's ({found.name})")
        self.files.make_folder(self.log_folder)
        self._define("CREATE TABLE", definition, after=None)
        self.files.sync_table()

    def change(self, definition: PlainDefinition) -> None:
        """From now on, rows have these columns."""
        self._define("ADD COLUMNS", definition, after=self.seen(self._newest))

    def new_staging(self) -> str:
        """A folder beside the table that nobody uses, for the files of one write."""
        return f"{self._staging}/{uuid.uuid4().hex}"

    def staged_location(self, folder: str) -> Location:
        return self.table.parent / folder

    def staged_files(self, folder: str) -> list[tuple[str, int]]:
        """The data files in a folder of `new_staging`, relative to it, with their sizes."""
        found = ((file.name.removeprefix(f"{folder}/"), file.size) for file in self._place.below(folder))
        return sorted((name, size) for name, size in found if not _is_hidden(name))

    def forget_staged(self, folder: str) -> None:
        self._place.remove_folder(folder)

    def add_commit(
        self,
        version: int,
        info: Mapping[str, Any],
        actions: Sequence[str],
        *,
        after: SeenVersion | None = None,
    ) -> SeenVersion:
        """Commit and publish. An error after the commit is one that the next `open` finishes."""
        parsed = [json.loads(action) for action in actions]
        wanted = self._publications(parsed)
        for each in wanted:
            if self._place.identity(each.name) is not None:
                raise self._taken(each.name)
        self._place.sync(each.source for each in wanted)
        if any("metaData" in action for action in parsed):
            self._definition = version
        seen = self._add_synced(version, {"definition": self._definition, **info}, actions, after=after)
        self._newest = version
        self._publish(version, parsed)
        self._remove_leftovers()
        return seen

    def _define(self, operation: str, definition: PlainDefinition, *, after: SeenVersion | None) -> None:
        info = {"operation": operation, "operationParameters": {}, "timestamp": time.time_ns() // 1_000_000}
        self.add_commit(self.next_version, info, [definition.as_action()], after=after)

    def _publish(self, version: int, actions: Iterable[Mapping[str, Any]]) -> None:
        wanted = self._publications(actions)
        try:
            self._place.publish(wanted)
        except FileExistsError as error:
            raise self._taken(str(error.filename or error)) from error
        except FileNotFoundError as error:
            raise self._damaged(f"a file of version {version} is neither there nor in {STAGING}") from error
        self._place.sync(each.name for each in wanted)
        self.files.replace(f"{self.log_folder}/{PUBLISHED}", str(version).encode())
        for folder in {"/".join(each.source.split("/")[:3]) for each in wanted}:
            self._place.remove_folder(folder)

    def _remove_leftovers(self) -> None:
        """Of former runs, after a commit of this one: theirs cannot appear any more."""
        while self._leftovers:
            self._place.remove_folder(f"{self._staging}/{self._leftovers[-1]}")
            self._leftovers.pop()

    def _publications(self, actions: Iterable[Mapping[str, Any]]) -> list[Publication]:
        return [
            Publication(
                source=add["tags"][STAGED],
                name=f"{self.table.name}/{unquote(add['path'])}",
                size=int(add["size"]),
            )
            for action in actions
            if (add := action.get("add")) is not None
        ]

    def _said(self, version: int) -> tuple[Mapping[str, Any], PlainDefinition]:
        """What a commit says of itself, and the definition that it refers to."""
        try:
            info = _of_kind(self.actions(version), "commitInfo")
            metadata = _of_kind(self.actions(int(info["definition"])), "metaData")
            definition = PlainDefinition(
                file_format=FileFormat(metadata["format"]["provider"]),
                columns=struct_of(metadata["schemaString"], table=self.table.name),
                partition_columns=tuple(metadata["partitionColumns"]),
            )
        except (FileNotFoundError, LookupError, ValueError) as error:
            raise self._damaged(f"{self.commit_file(version)}: {error}") from error
        return info, definition

    def _damaged(self, how: str) -> HeadraceError:
        return HeadraceError(
            "lake_damaged",
            f"Table {self.table.name} at {self.table} cannot be continued: {how}.",
            remedy="Replace the folder by a copy, or move it away: the connector writes the table again from "
            "what its topic still has.",
        )

    def _taken(self, name: str) -> HeadraceError:
        return HeadraceError(
            "lake_unsupported",
            f"Table {self.table.name} cannot get the file {name}: there is one that is not the table's.",
            remedy="Move that file away, or let the connector write to another folder (topics.dir).",
        )

    def _other_table(self, what: str) -> HeadraceError:
        return HeadraceError(
            "lake_unsupported",
            f"Table {self.table.name} cannot be made of plain files: {self.table} {what}.",
            remedy="Let the connector write to another folder (topics.dir), or move that folder away.",
        )


def refuse_plain(table: Location) -> None:
    """Raise lake_unsupported if there is a table of plain files where a Delta table is wanted."""
    if files_at(table).names(PLAIN_FOLDER):
        raise HeadraceError(
            "lake_unsupported",
            f"{table} has a table of plain files, not a Delta table.",
            remedy="Set table.format to parquet, let the connector write to another folder (topics.dir), or "
            "move that folder away.",
        )


def _of_kind(actions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    for action in actions:
        if (found := action.get(kind)) is not None:
            content: Mapping[str, Any] = found
            return content
    raise ValueError(f"it has no {kind}")


def _is_hidden(name: str) -> bool:
    """Spark's own: checksums, what was written by tasks that have not ended, markers of folders."""
    if not name or name.endswith("/"):
        return True
    return any(part.startswith(("_temporary", ".")) for part in name.split("/")) or name.startswith(
        "_SUCCESS"
    )
