"""The checkpoints of one stateful query, one after the other: its *generations*.

A generation is a folder `<topic ids>.<number>-<id>` with Spark's files and, in `headrace/`, ours: its origin,
a note for each of the newest batches, the copies of tables, and the batches whose state Spark refused. The
one with the highest number is in use. A damaged checkpoint is never mended in place: the next generation
takes what is sound of it, and the former stays beside it, unchanged, until there is yet another.

The id is part of the header of each row (`lake/coordinates.py`): with it, the number of a batch means one
range of records and one state. A generation that goes back to an earlier batch gets a new id.

Crash behaviour: a generation appears under its name when it is complete. A note is written as a whole, after
the rows of its batch and before Spark commits the batch; one that is cut off counts as missing. One writer:
the run of the query.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.stateful.checkpoint_files import batches_in, copy_up_to, is_whole

# As many as Spark keeps of its own files.
KEPT_BATCHES: Final = 100
# If Spark refuses the state of so many batches, the rest will be no better.
_MOST_REFUSED: Final = 2
_OURS: Final = "headrace"
_ORIGIN: Final = "origin.json"
_UNFINISHED: Final = ".unfinished"
_FOLDER: Final = re.compile(r"(.+)\.(\d+)-([0-9a-f]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a generation began: behind a batch of the one before, or at the beginning (batch -1).

    If it `repeats`, the sinks hold rows of former generations, from `base.sinks_from` on, that this one
    derives again.
    """

    base: Commit
    repeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    folder: Path
    number: int
    id: str
    origin: Origin

    def note(self, commit: Commit) -> None:
        """Say where the sources and the sinks stand behind a batch."""
        folder = self._notes
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / str(commit.batch), msgspec.json.encode(commit))
        (folder / str(commit.batch - KEPT_BATCHES)).unlink(missing_ok=True)

    def noted(self, batch: int) -> Commit | None:
        """None if there is no readable note of this batch."""
        if batch == self.origin.base.batch:
            return self.origin.base
        try:
            return msgspec.json.decode((self._notes / str(batch)).read_bytes(), type=Commit)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def refuse(self, batch: int) -> None:
        """Remember that Spark could not load the state behind this batch, however sound it looks."""
        self._refused.mkdir(parents=True, exist_ok=True)
        (self._refused / str(batch)).touch()

    @property
    def refused(self) -> int:
        return len(list(self._refused.glob("*")))

    def has_refused(self, batch: int) -> bool:
        return (self._refused / str(batch)).exists()

    @property
    def newest_batch(self) -> int:
        """The newest of which there is any trace; -1 if there is none."""
        logs = (self.folder / "offsets", self.folder / "commits")
        return max((batch for log in logs for batch in batches_in(log)), default=-1)

    def copy_of(self, topic_id: str) -> Path:
        """The folder for the copy of a table."""
        return self.folder / _OURS / "copies" / topic_id

    @property
    def aside(self) -> Path:
        """For entries that cannot be read."""
        return self.folder / _OURS / "aside"

    @property
    def _notes(self) -> Path:
        return self.folder / _OURS / "notes"

    @property
    def _refused(self) -> Path:
        return self.folder / _OURS / "refused"


class Generations:
    """`checkpoint` is the path with the ids of the topics, to which the generation is appended."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    @property
    def current(self) -> Generation | None:
        return max(self._all(), key=lambda each: each.number, default=None)

    def begin(self, origin: Origin, *, former: Generation | None) -> Generation:
        """A new generation, with what `former` has up to the batch where it begins."""
        number = max((each.number for each in self._all()), default=-1) + 1
        made = uuid.uuid4().hex[:12]
        folder = self._checkpoint.with_name(f"{self._checkpoint.name}.{number}-{made}")
        unfinished = folder.with_name(folder.name + _UNFINISHED)
        if former is not None and origin.base.batch >= 0:
            copy_up_to(former.folder, unfinished, origin.base.batch)
        (unfinished / _OURS).mkdir(parents=True, exist_ok=True)
        _write(unfinished / _OURS / _ORIGIN, msgspec.json.encode(origin))
        unfinished.rename(folder)
        self._remove_before(former)
        return Generation(folder=folder, number=number, id=made, origin=origin)

    def _remove_before(self, former: Generation | None) -> None:
        """Keep only the former generation; remove older ones, and what was never finished."""
        for path in self._checkpoint.parent.glob(f"{self._checkpoint.name}.*{_UNFINISHED}"):
            shutil.rmtree(path)
        for each in self._all():
            if former is not None and each.number < former.number:
                shutil.rmtree(each.folder)

    def _all(self) -> Iterator[Generation]:
        for path in self._checkpoint.parent.glob(f"{self._checkpoint.name}.*"):
            named = _FOLDER.fullmatch(path.name)
            if named is None or named[1] != self._checkpoint.name:
                continue
            origin = _origin(path)
            if origin is not None:
                yield Generation(folder=path, number=int(named[2]), id=named[3], origin=origin)


def sound_batches(generation: Generation) -> Iterator[int]:
    """The batches that the generation can be gone on from, the newest first; -1 is its beginning."""
    if generation.refused >= _MOST_REFUSED:
        return
    newest = generation.newest_batch
    for batch in range(newest, max(-1, newest - KEPT_BATCHES) - 1, -1):
        if not generation.has_refused(batch) and is_whole(generation.folder, batch):
            yield batch


def _origin(folder: Path) -> Origin | None:
    try:
        return msgspec.json.decode((folder / _OURS / _ORIGIN).read_bytes(), type=Origin)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}{_UNFINISHED}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
