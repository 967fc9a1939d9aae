"""Where a table goes on reading its topic: decided from the commits of its Delta log, the topic, and the
dead-letter topic.

The newest commit of ours tells the positions. Commits of others since then:

- those that only move rows between files or change the table's columns or settings, and deletions and
  updates, leave the positions as they are: deleted rows must not come back;
- a RESTORE goes on with what the commits up to the restored version say: what came later is read again. One
  of ours (`restoring.py`) says it itself, since the log forgets old commits;
- somebody else's rows leave the positions, but make them *doubtful*: the rows may be records that the table
  has yet to read;
- anything else (an overwritten or replaced table, a cleaned-up log) leaves nothing that can be relied on: the
  topic is read from its beginning, and all its rows are doubtful.

The positions of one incarnation mean nothing in another. A partition that no longer has the last record
before its position came back shorter, for example after a power failure: it is read from an older position
whose record is still there. In both cases rows are doubtful. So are they if the dead-letter topic came back
shorter: then an older commit counts, so that dead letters that were lost are sent again.

Doubtful rows are looked up (`positions.py`), so reading too much is never wrong, only slow. Pure: what the
topics have is asked through `TopicNow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.lake.delta_log import Commit
from headrace.lake.positions import Offsets, Progress, Reached, progress_from_metadata

# Our commit of a partition that was read again from the topic: the same rows.
REBUILD: Final = "REBUILD"
RESTORE: Final = "RESTORE"

# Commits that move rows between files, or remove or change rows.
_KEEPS_POSITIONS: Final = frozenset(
    {
        *("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "CLUSTER BY", "COMPUTE STATS"),
        *("DELETE", "UPDATE", "TRUNCATE", REBUILD),
    }
)
# How the names of commits begin that make the table another one, even if it has no rows to lose.
_BEGINS_ANEW: Final = ("CREATE", "REPLACE TABLE", "CLONE", "CONVERT", "WRITE")
_ADDS_ROWS: Final = frozenset({"WRITE", "STREAMING UPDATE", "MERGE", "COPY INTO"})
_MAKES_EMPTY: Final = "CREATE TABLE"


class Commits(Protocol):
    def newest_version(self) -> int: ...

    def commit(self, version: int) -> Commit | None: ...


class TopicNow(Protocol):
    """A topic as it is now."""

    @property
    def topic_id(self) -> str: ...

    @property
    def starts(self) -> Offsets:
        """The first offset that each partition still has."""
        ...

    def lacking(self, offsets: Offsets) -> AbstractSet[int]:
        """Those of the given partitions that have no record at their offset."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """`progress` has the positions to go on from: 0 in partitions that were added since the topic was first
    read, none in those that must be read again from their beginning.

    If it is doubtful, the rows of the table must become its bounds.
    """

    progress: Progress
    is_doubtful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a commit says, and whether rows of others came after it."""

    progress: Progress
    is_doubtful: bool


def resume(commits: Commits, *, topic: TopicNow, dead_letters: TopicNow) -> Resumption:
    """Where to go on."""
    is_doubtful = False
    resumed: Progress | None = None
    # Dead letters of everything that is read again lie from here on.
    letters_from = Reached()
    offsets: dict[int, int] = {}
    pending: set[int] = set()
    for said in history(commits):
        progress = said.progress
        letters_from = progress.dead_letters_from
        if progress.positions.topic_id not in ("", topic.topic_id):
            # Nothing of the present incarnation was read before this commit.
            pending.clear()
            is_doubtful = True
            break
        is_doubtful = is_doubtful or said.is_doubtful
        if resumed is None:
            if shorter_partitions(dead_letters, progress.dead_letters_to.of(dead_letters.topic_id)):
                is_doubtful = True
                continue
            resumed = progress
            pending = set(progress.positions.offsets)
        # A partition that had not been read at this commit is read from its beginning.
        known = {number: at for number, at in progress.positions.offsets.items() if number in pending}
        shorter = shorter_partitions(topic, known)
        offsets |= {number: at for number, at in known.items() if number not in shorter}
        is_doubtful = is_doubtful or bool(shorter)
        pending = set(shorter)
        if not pending:
            break
    else:
        # There is no commit, or none that can be relied on for all partitions.
        is_doubtful = True
        letters_from = Reached()
    found = resumed or Progress()
    if found.positions.topic_id == topic.topic_id:
        # Partitions of which nothing was read yet: whatever expires before that is a gap.
        offsets |= {number: 0 for number in topic.starts if number not in found.positions.offsets}
    return Resumption(
        progress=found.at(Reached(topic_id=topic.topic_id, offsets=offsets)).with_dead_letters(
            begin=letters_from, end=found.dead_letters_to
        ),
        is_doubtful=is_doubtful,
    )


def history(commits: Commits, version: int | None = None) -> Iterator[Said]:
    """What our commits up to this version, or all, say: the newest first, as far back as they can be relied
    on.
    """
    is_doubtful = False
    version = commits.newest_version() if version is None else version
    while version >= 0:
        commit = commits.commit(version)
        if commit is None:
            return
        progress = progress_from_metadata(commit.user_metadata)
        if progress is not None:
            yield Said(progress=progress, is_doubtful=is_doubtful)
        elif commit.operation == _MAKES_EMPTY:
            yield Said(progress=Progress(), is_doubtful=is_doubtful)
            return
        if commit.operation == RESTORE:
            # What is between the two versions is not in the table.
            restored = commit.parameters.get("version")
            if restored is None or not str(restored).isdecimal() or int(restored) >= version:
                return
            version = int(restored)
            continue
        if progress is None:
            if commit.operation in _ADDS_ROWS and commit.parameters.get("mode", "Append") == "Append":
                is_doubtful = True
            elif commit.operation not in _KEEPS_POSITIONS and not _only_changes_definition(commit):
                return
        version -= 1


def keeps_positions(commit: Commit) -> bool:
    """Whether a running writer may go on after this commit of somebody else.

    Not if the table's columns, settings or protocol are others: its data files would be those of before.
    """
    return commit.operation in _KEEPS_POSITIONS and not commit.changes_definition


def _only_changes_definition(commit: Commit) -> bool:
    is_only = commit.changes_definition and not commit.changes_files
    return is_only and not commit.operation.startswith(_BEGINS_ANEW)


def shorter_partitions(topic: TopicNow, positions: Offsets) -> AbstractSet[int]:
    """The partitions that no longer have the last record before their position, although it cannot have
    expired.
    """
    last = {number: at - 1 for number, at in positions.items() if at > topic.starts.get(number, 0)}
    return topic.lacking(last) if last else frozenset()
