"""The states of a classic group, and what each of them means, as tables.

    Empty ──join──▶ PreparingRebalance ──all have joined──▶ CompletingRebalance ──leader assigns──▶ Stable
      ▲                 │        ▲  ▲                                │                                │
      └──all are gone───┘        │  └────a member comes, goes or changes───────────────────────────────┤
                                 └────────────────────────────────────┘

Stable and Empty are settled: a record says so, and a group is in one of them after a load. The two between
are transient, as in Kafka: a restart forgets them and the members join again. Dead is no state that a group
is in here: it is what DescribeGroups says of a group that there is not.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kio.schema.errors import ErrorCode


class State(Enum):
    """The states by the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


FOLLOWING: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset({State.DEAD}),
}
"""Which states can follow which."""

HEARTBEAT_ANSWER: Final[dict[State, ErrorCode]] = {
    State.EMPTY: ErrorCode.unknown_member_id,
    State.PREPARING_REBALANCE: ErrorCode.rebalance_in_progress,
    State.COMPLETING_REBALANCE: ErrorCode.none,
    State.STABLE: ErrorCode.none,
}
"""What a member of the right generation hears. During a rebalance it hears that it has to join again."""

SETTLED: Final = frozenset({State.EMPTY, State.STABLE})
COMMIT_IS_A_SIGN_OF_LIFE: Final = frozenset({State.STABLE, State.PREPARING_REBALANCE})
WITH_MEMBERS: Final = frozenset({State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE})


def can_rebalance(state: State) -> bool:
    """Whether a rebalance can begin, or begin anew, in this state."""
    return State.PREPARING_REBALANCE in FOLLOWING[state]


def check_transition(before: State, after: State) -> None:
    """A transition that is not in the table is a fault of this program."""
    if after not in FOLLOWING[before]:
        raise AssertionError(f"no way leads from {before.value} to {after.value}")
