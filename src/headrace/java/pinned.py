"""The pinned list of Java artifacts, `artifacts.toml`: which files, with their sizes and SHA-256.

Format: one table per group; a key is the Maven coordinate `group:artifact:version`, its value the size in
bytes and the SHA-256 of the jar. Invariants: no two artifacts of a group have the same file name; the order
in the file is the order of the class path. Never contains an address: where a jar comes from depends on the
machine.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Final

LIST_NAME: Final = "artifacts.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedArtifact:
    """One jar, known to the bit."""

    maven_group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def coordinate(self) -> str:
        return f"{self.maven_group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


PinnedList = dict[str, tuple[PinnedArtifact, ...]]


def read_pinned_list() -> PinnedList:
    """The list shipped with this package, by group."""
    return parse_pinned_list(resources.files(__package__).joinpath(LIST_NAME).read_text(encoding="utf-8"))


def parse_pinned_list(text: str) -> PinnedList:
    return {
        group: tuple(_artifact(coordinate, **pin) for coordinate, pin in entries.items())
        for group, entries in tomllib.loads(text).items()
    }


def _artifact(coordinate: str, *, size: int, sha256: str) -> PinnedArtifact:
    maven_group, artifact, version = coordinate.split(":")
    return PinnedArtifact(
        maven_group=maven_group, artifact=artifact, version=version, size=size, sha256=sha256
    )
