"""The cache of Java artifacts: `<cache_dir>/artifacts/<group>/<artifact>-<version>.jar`.

Invariants: a file gets its final name only when complete (verified, then renamed), so a kill leaves nothing
but a scratch folder, which the next download removes; every jar returned has just been checked against its
SHA-256, and a damaged one is downloaded again; when all jars are present, nothing uses the network or writes
to the cache. If two processes need the same missing group, one downloads it and the other waits (on a file
lock, which the kernel releases on a kill). Never follows dependencies: the pinned list is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.java.download import Downloader, is_whole
from headrace.java.pinned import PinnedArtifact, PinnedList, read_pinned_list

DOWNLOAD_THREADS: Final = 8
SCRATCH_PREFIX: Final = ".scratch-"
# What the pipeline process has on its class path.
SPARK_GROUPS: Final = ("spark", "s3")


class Artifacts:
    """The jars of each group, downloaded when first needed."""

    def __init__(self, cache_dir: Path, pinned: PinnedList | None = None) -> None:
        self._folder = cache_dir.expanduser() / "artifacts"
        self._pinned = read_pinned_list() if pinned is None else pinned

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self._pinned)

    def jars(self, group: str, *, progress: bool = False) -> list[Path]:
        """The jars of a group in class-path order, each verified."""
        artifacts = self._artifacts(group)
        folder = self._folder / group
        try:
            if self._not_whole(folder, artifacts):
                self._fill(group, artifacts, progress=progress)
        except OSError as error:
            raise HeadraceError(
                "artifacts_unreachable",
                f"Cannot use the artifact cache {folder}: {error}.",
                remedy="Free some space, or set cache_dir to a folder that you can write to.",
            ) from error
        return [folder / artifact.file_name for artifact in artifacts]

    def spark_jars(self) -> list[Path]:
        """The jars of the pipeline process."""
        return [jar for group in SPARK_GROUPS for jar in self.jars(group)]

    def missing(self, group: str) -> int:
        """How many jars of the group are missing or damaged."""
        return len(self._not_whole(self._folder / group, self._artifacts(group)))

    def classpath(self, group: str, *, progress: bool = False) -> str:
        return os.pathsep.join(str(jar) for jar in self.jars(group, progress=progress))

    def _artifacts(self, group: str) -> tuple[PinnedArtifact, ...]:
        if group not in self._pinned:
            raise HeadraceError(
                "artifact_unknown_group",
                f"There is no artifact group `{group}`.",
                remedy="The groups are " + ", ".join(f"`{name}`" for name in self._pinned) + ".",
            )
        return self._pinned[group]

    @staticmethod
    def _not_whole(folder: Path, artifacts: tuple[PinnedArtifact, ...]) -> list[PinnedArtifact]:
        # Hashing a whole group takes less than a tenth of a second, so timestamps are not used as a shortcut.
        return [artifact for artifact in artifacts if not is_whole(folder / artifact.file_name, artifact)]

    def _fill(self, group: str, artifacts: tuple[PinnedArtifact, ...], *, progress: bool) -> None:
        folder = self._folder / group
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / ".lock"):
            for orphan in folder.glob(SCRATCH_PREFIX + "*"):
                shutil.rmtree(orphan)
            # Check again: the previous holder of the lock may have downloaded them.
            missing = self._not_whole(folder, artifacts)
            if not missing:
                return
            scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=folder))
            try:
                with _progress(group, missing, shown=progress) as advance:
                    _fetch_all(Downloader(scratch, advance), missing, folder)
            finally:
                shutil.rmtree(scratch)


def _fetch_all(downloader: Downloader, missing: list[PinnedArtifact], folder: Path) -> None:
    with ThreadPoolExecutor(DOWNLOAD_THREADS, thread_name_prefix="artifacts") as pool:
        running = {pool.submit(downloader.fetch, artifact): artifact for artifact in missing}
        try:
            for done in as_completed(running):
                done.result().replace(folder / running[done].file_name)
        except BaseException:
            downloader.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _progress(group: str, missing: list[PinnedArtifact], *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, one line elsewhere, nothing if not asked for; on stderr: stdout is for results."""
    size = sum(artifact.size for artifact in missing)
    title = f"Downloading {len(missing)} Java artifacts ({group}, {size / 1e6:.0f} MB)"
    if not shown:
        yield lambda _count: None
        return
    if not sys.stderr.isatty():
        print(title, file=sys.stderr, flush=True)
        yield lambda _count: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=size)
        yield lambda count: bar.advance(task, count)
