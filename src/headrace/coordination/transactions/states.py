"""The states of a transaction, and the tables that decide what follows from what happens in each of them.

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──┐
      │          └──────▶ PrepareAbort ───▶ CompleteAbort ───┤──▶ Empty, Ongoing, PrepareAbort
      └─────────────────▶ PrepareAbort

States come from `following` only. What is not in `TRANSITIONS` cannot happen; requests for it are refused.

Invariants: a transaction whose end is *prepared* is decided: its markers will be written, however often the
coordinator stops, and nothing can change the decision. Kafka's Dead and PrepareEpochFence are never entered:
a tombstone takes the place of the first, and fencing goes to PrepareAbort in one step.

What EndTxn does depends on the version of the transaction protocol (KIP-890). In version 1 an epoch lasts as
long as a producer: if the transaction has already ended as a request of the same epoch wishes, the request is
a repetition. In version 2 every transaction has its own epoch: a request of the previous epoch is a
repetition, one of the current epoch is a new request.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import Final

EPOCH_BUMP_VERSION: Final = 2
"""Since this version of the protocol, ending a transaction raises the producer's epoch."""


class State(IntEnum):
    """The states, with the numbers in Kafka's records."""

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


class Event(Enum):
    """What happens to a transaction."""

    INITIALIZED = auto()
    """A producer begins to use the id: InitProducerId."""
    EXTENDED = auto()
    """Partitions are added."""
    COMMITTED = auto()
    ABORTED = auto()
    TIMED_OUT = auto()
    """It was open longer than its producer allowed."""
    MARKED = auto()
    """All its markers are written."""


_AT_REST: Final = {
    Event.INITIALIZED: State.EMPTY,
    Event.EXTENDED: State.ONGOING,
    # Only in version 2 of the protocol, for a transaction that never began: see ENDINGS_V2.
    Event.ABORTED: State.PREPARE_ABORT,
}

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.EMPTY: _AT_REST,
    State.ONGOING: {
        Event.INITIALIZED: State.PREPARE_ABORT,
        Event.EXTENDED: State.ONGOING,
        Event.COMMITTED: State.PREPARE_COMMIT,
        Event.ABORTED: State.PREPARE_ABORT,
        Event.TIMED_OUT: State.PREPARE_ABORT,
    },
    State.PREPARE_COMMIT: {Event.MARKED: State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {Event.MARKED: State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: _AT_REST,
    State.COMPLETE_ABORT: _AT_REST,
    State.DEAD: {},
    State.PREPARE_EPOCH_FENCE: {},
}

AT_REST: Final = frozenset(state for state, after in TRANSITIONS.items() if after is _AT_REST)
"""Nothing is open: the id is free for the next transaction, and expires if it is not used."""


def can(event: Event, state: State) -> bool:
    """Whether this can happen to a transaction in this state."""
    return event in TRANSITIONS[state]


def following(state: State, event: Event) -> State:
    """The state after the event, which must be possible."""
    return TRANSITIONS[state][event]


class Ending(Enum):
    """The outcome of a request to end a transaction."""

    PREPARE = "the end is decided"
    DONE = "it was done before"
    WAIT = "an earlier end is in progress"
    INVALID = "there is nothing to end, or it ended otherwise"
    FENCED = "another producer has taken over"


# Version 1: abort and commit with the current epoch.
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

# Version 2: abort and commit with the current epoch, abort and commit with the previous one. A producer that
# does not know whether the broker has begun its transaction may abort one that has not begun (KIP-890).
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
