"""Delta tables made by hand: commits of ours, of others, and damaged ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.lake.delta_log import Commit, DeltaLog
from headrace.lake.positions import Progress


def add_action(table: Path, name: str, content: bytes = b"PAR1 rows PAR1") -> str:
    """A data file, and the action that adds it."""
    file = table / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return json.dumps({"add": {"path": name, "size": len(content), "dataChange": True}})


def written_table(folder: Path, versions: int) -> DeltaLog:
    """A table with so many commits, each with a data file."""
    log = DeltaLog(folder)
    log.folder.mkdir(parents=True)
    for version in range(versions):
        log.add_commit(version, {"operation": "WRITE"}, [add_action(folder, f"k=a/{version}.parquet")])
    return log


@dataclass
class MadeCommits:
    """Commits in memory, as `resuming` reads them."""

    commits: list[Commit] = field(default_factory=list)

    def newest_version(self) -> int:
        return len(self.commits) - 1

    def commit(self, version: int) -> Commit | None:
        return self.commits[version]

    def add(self, operation: str, progress: Progress | None = None, **parameters: Any) -> int:
        version = len(self.commits)
        text = None if progress is None else progress.as_metadata()
        self.commits.append(
            Commit(version=version, operation=operation, parameters=parameters, user_metadata=text)
        )
        return version

    def redefine(self, operation: str) -> None:
        """Another's commit that changes columns, settings or the protocol, and no files."""
        self.commits.append(
            Commit(
                version=len(self.commits),
                operation=operation,
                parameters={},
                user_metadata=None,
                changes_definition=True,
                changes_files=False,
            )
        )
