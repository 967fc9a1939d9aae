"""The states of a transaction as its coordinator sees it, and which may follow which, as tables.

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──┐
      │          ├──────▶ PrepareAbort ───▶ CompleteAbort ───┤──▶ Empty, Ongoing, PrepareAbort, Dead
      └──▶ Dead  └──────▶ PrepareEpochFence ──▶ PrepareAbort

Invariants: a transaction whose end is *prepared* is decided: its markers will be written, however often the
coordinator is stopped, and nothing can change the decision. Dead and PrepareEpochFence are never written: the
first is a tombstone, the second one step with PrepareAbort here, where nothing can come in between.

What EndTxn does depends on the version of the transaction protocol (KIP-890). In version 1 an epoch lasts as
long as a producer: a request of the same epoch that finds the transaction ended as it wishes is taken for a
repetition. In version 2 every transaction has an epoch of its own: a request of the epoch before is a
repetition, one of the epoch that the transaction left behind is a new one.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

EPOCH_BUMP_VERSION: Final = 2
"""The version of the protocol from which on ending a transaction raises the producer's epoch."""


class State(IntEnum):
    """With the numbers that Kafka's records have."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that Kafka's tools show and filter by."""
        return "".join(part.capitalize() for part in self.name.split("_"))


BY_TITLE: Final = {state.title: state for state in State}

_AT_REST: Final = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})

FOLLOWING: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: _AT_REST,
    State.ONGOING: frozenset(
        {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}
    ),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _AT_REST,
    State.COMPLETE_ABORT: _AT_REST,
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
}

PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
EXPIRING: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""An id that is unused in one of these for long enough is forgotten."""

COMPLETED_BY: Final = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}


class Ending(Enum):
    """What comes of a request to end a transaction."""

    PREPARE = "the end is decided"
    DONE = "it was done before"
    WAIT = "the end of an earlier one is under way"
    INVALID = "there is nothing to end, or it ended otherwise"
    FENCED = "another producer has taken over"


# Version 1, for a request of the current epoch: abort, commit.
ENDINGS_V1: Final[dict[State, tuple[Ending, Ending]]] = {
    State.EMPTY: (Ending.INVALID, Ending.INVALID),
    State.ONGOING: (Ending.PREPARE, Ending.PREPARE),
    State.PREPARE_COMMIT: (Ending.WAIT, Ending.WAIT),
    State.PREPARE_ABORT: (Ending.WAIT, Ending.WAIT),
    State.COMPLETE_COMMIT: (Ending.INVALID, Ending.DONE),
    State.COMPLETE_ABORT: (Ending.DONE, Ending.INVALID),
    State.DEAD: (Ending.INVALID, Ending.INVALID),
    State.PREPARE_EPOCH_FENCE: (Ending.INVALID, Ending.INVALID),
}

# Version 2: abort and commit of the current epoch, abort and commit of the one before. A producer that does
# not know whether the broker has begun its transaction may abort one that was not (KIP-890).
ENDINGS_V2: Final[dict[State, tuple[Ending, Ending, Ending, Ending]]] = {
    State.EMPTY: (Ending.PREPARE, Ending.INVALID, Ending.FENCED, Ending.FENCED),
    State.ONGOING: (Ending.PREPARE, Ending.PREPARE, Ending.FENCED, Ending.FENCED),
    State.PREPARE_COMMIT: (Ending.WAIT, Ending.WAIT, Ending.WAIT, Ending.WAIT),
    State.PREPARE_ABORT: (Ending.WAIT, Ending.WAIT, Ending.WAIT, Ending.WAIT),
    State.COMPLETE_COMMIT: (Ending.PREPARE, Ending.INVALID, Ending.INVALID, Ending.DONE),
    State.COMPLETE_ABORT: (Ending.PREPARE, Ending.INVALID, Ending.DONE, Ending.INVALID),
    State.DEAD: (Ending.INVALID, Ending.INVALID, Ending.FENCED, Ending.FENCED),
    State.PREPARE_EPOCH_FENCE: (Ending.INVALID, Ending.INVALID, Ending.FENCED, Ending.FENCED),
}
