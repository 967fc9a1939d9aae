"""Where a run of a stateful query goes on: decided from its checkpoint and from what the sinks still hold.

The checkpoint alone is not the truth. A batch counts as finished only if Spark can go on behind it, and if
the sinks still have the last record that they had at its end (its *witness*): a log loses records only at its
end, so then all rows of the batch are there, and of those before it.

- Behind the newest batch, or with its successor begun, the run continues. Rows of the begun batch may be in
  the sinks; Spark repeats that batch with the same records and the same state.
- If batches behind the one to go on from must be dropped, or if the sinks hold rows of batches that the
  checkpoint knows nothing of, the run goes back: the next batch covers other records than the one of that
  number did before.
- If no batch is left, the run begins at the beginning.

Pure: the sinks are asked by calling functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from headrace.pipeline.runs.commits import Commit


class Course(Enum):
    CONTINUE = "continue"
    GO_BACK = "go back"
    BEGIN_ANEW = "begin anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint: its id, the newest batch with any trace, and whether a begun batch can be repeated.

    `notes` are those of the batches that Spark can go on from, the newest first.
    """

    id: str
    newest: int
    notes: Iterable[Commit]
    # Whether Spark has a readable entry of the batch, and has not committed it.
    is_begun: Callable[[int], bool]
    # Whether this batch derives rows that former checkpoints have written already.
    repeats: Callable[[int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`base` is where the run begins; None at the beginning of everything."""

    course: Course
    base: Commit | None


# A checkpoint and the number of one of its batches.
Origin = tuple[str, int]


def decide(
    kept: Kept | None,
    *,
    is_usable: Callable[[Commit], bool],
    rows_behind: Callable[[Commit], frozenset[Origin]],
) -> Decision:
    """`is_usable` tells whether sources and sinks have what the note counts on; `rows_behind` from which
    batches the query's rows are that the sinks hold behind it.
    """
    if kept is None:
        return Decision(course=Course.BEGIN_ANEW, base=None)
    base = next((note for note in kept.notes if is_usable(note)), None)
    if base is None:
        return Decision(course=Course.BEGIN_ANEW, base=None)
    following = base.batch + 1
    can_repeat = kept.newest == following and kept.is_begun(following)
    if kept.newest > base.batch and not can_repeat:
        return Decision(course=Course.GO_BACK, base=base)
    # Finished batches of this checkpoint lie behind the base while it compares rows with former ones.
    unexplained = {origin for origin in rows_behind(base) if origin[0] != kept.id or origin[1] > base.batch}
    if can_repeat:
        unexplained -= {(kept.id, following)}
    if kept.repeats(following):
        # Rows of former checkpoints are compared; those of this one must be of the batch that is repeated.
        unexplained = {origin for origin in unexplained if origin[0] == kept.id}
    course = Course.GO_BACK if unexplained else Course.CONTINUE
    return Decision(course=course, base=base)
