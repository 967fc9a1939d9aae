"""Commits of Delta tables made by hand, as `resuming` reads them: ours and others'."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.lake.delta_log import Commit
from headrace.lake.positions import Progress


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
