"""Downloads one jar with `jgo`, from the repositories that this machine is configured for.

Order: the local Maven repository (`M2_REPO`, or `~/.m2/repository`) if its copy has the pinned hash, then the
repositories in jgo's configuration file, then Maven Central. Invariants: jgo writes only to the given scratch
folder (its writes are not atomic, so a partial file must never be taken for a complete one); the file
returned has the pinned SHA-256; the local Maven repository is only read. Never keeps an address.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.java.pinned import PinnedArtifact

ATTEMPTS: Final = 3
PAUSE_BETWEEN_ATTEMPTS: Final = 0.5
ANSWER_TIMEOUT: Final = 20

# The errors of requests, which jgo uses, are OSErrors or ValueErrors; jgo's own "not found" is a
# RuntimeError.
DOWNLOAD_ERRORS: Final = (OSError, ValueError, RuntimeError)

Advance = Callable[[int], None]
Progress = Callable[[str, int], contextlib.AbstractContextManager[Advance]]


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_whole(path: Path, artifact: PinnedArtifact) -> bool:
    """Whether the file exists and is, to the bit, what was pinned."""
    try:
        return path.stat().st_size == artifact.size and sha256_of(path) == artifact.sha256
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repositories:
    """Where this machine gets jars: its local Maven repository, and remote ones by name."""

    local: Path
    remote: dict[str, str]

    @classmethod
    def of_this_machine(cls) -> Repositories:
        # Imported here: jgo is needed only if something is missing, and takes a quarter of a second.
        from jgo.config import GlobalSettings  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415

        machine = GlobalSettings.load()
        return cls(
            local=Path(machine.repo_cache), remote={**MavenContext().remote_repos, **machine.repositories}
        )

    def download(self, coordinate: str, name: str, folder: Path, progress: Progress | None = None) -> Path:
        """The jar from the repository `name`, unverified, in `folder`. Raises one of DOWNLOAD_ERRORS."""
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415

        context = MavenContext(
            resolver=PythonResolver(progress_callback=progress),
            repo_cache=folder,
            remote_repos={name: self.remote[name]},
            timeout=ANSWER_TIMEOUT,
        )
        maven_group, artifact, version = coordinate.split(":")
        return Path(context.project(maven_group, artifact).at_version(version).artifact().resolve())


class Downloader:
    """Downloads jars to `scratch`; may be called from several threads for different artifacts."""

    def __init__(self, scratch: Path, advance: Advance) -> None:
        self._scratch = scratch
        self._advance = advance
        self._stopped = threading.Event()
        self._repositories = Repositories.of_this_machine()

    def stop(self) -> None:
        """Make the current attempts the last ones: one jar has failed, so the others are useless."""
        self._stopped.set()

    def fetch(self, artifact: PinnedArtifact) -> Path:
        """A verified copy in the scratch folder. Raises artifacts_unreachable or artifact_damaged."""
        if (copied := self._from_local_repository(artifact)) is not None:
            return copied
        failure = f"{artifact.coordinate} was not downloaded."
        damaged = False
        for attempt in range(ATTEMPTS):
            if attempt and self._stopped.wait(PAUSE_BETWEEN_ATTEMPTS):
                break
            for name in self._repositories.remote:
                folder = self._scratch / f"{artifact.file_name}.{name}.{attempt}"
                try:
                    path = self._repositories.download(artifact.coordinate, name, folder, self._progress)
                except DOWNLOAD_ERRORS as error:
                    failure = f"Cannot download {artifact.coordinate} from `{name}`: {_reason(error)}."
                    continue
                if is_whole(path, artifact):
                    return path
                damaged = True
                failure = (
                    f"{artifact.coordinate} from `{name}` has SHA-256 {sha256_of(path)}, "
                    f"but {artifact.sha256} is pinned."
                )
        if damaged:
            raise HeadraceError(
                "artifact_damaged",
                failure,
                remedy="The repository, or something on the way to it, alters files: try another network.",
            )
        raise HeadraceError(
            "artifacts_unreachable",
            failure,
            remedy="Connect to the network once (later runs need none), or add a reachable Maven repository "
            "under [repositories] in ~/.config/jgo.conf.",
        )

    def _from_local_repository(self, artifact: PinnedArtifact) -> Path | None:
        folder = self._repositories.local.joinpath(
            *artifact.maven_group.split("."), artifact.artifact, artifact.version
        )
        source = folder / artifact.file_name
        copy = self._scratch / artifact.file_name
        try:
            if not source.is_file() or source.stat().st_size != artifact.size:
                return None
            shutil.copyfile(source, copy)
        except PermissionError:
            return None
        if not is_whole(copy, artifact):
            copy.unlink()
            return None
        self._advance(artifact.size)
        return copy

    @contextlib.contextmanager
    def _progress(self, _file_name: str, _size: int) -> Iterator[Advance]:
        """The context that jgo expects: it counts bytes as they arrive, and takes them back on failure."""
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            if self._stopped.is_set():
                raise OSError("another artifact has failed")
            done += count
            self._advance(count)

        try:
            yield advance
        except BaseException:
            self._advance(-done)
            raise


def _reason(error: Any) -> str:
    """The innermost reason: requests wraps it three times and repeats the address in each."""
    if type(error) is RuntimeError:  # jgo's only one, which does not give the status
        return "the repository does not offer it"
    while error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    inner = getattr(error, "reason", None)
    text = str(inner if isinstance(inner, BaseException) else error)
    return text.rsplit(": ", 1)[-1].strip().rstrip(".")
