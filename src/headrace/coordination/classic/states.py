"""The states of a classic group, and the tables that decide what follows from what happens in each of them.

    Empty ──join──▶ PreparingRebalance ──all have joined──▶ CompletingRebalance ──leader assigns──▶ Stable
      ▲                 │        ▲  ▲                                │                                │
      └──all are gone───┘        │  └────a member comes, goes or changes───────────────────────────────┤
                                 └────────────────────────────────────┘

`STEPS` names the step for each event in each state; `rebalance.react` takes it. Nothing else begins or ends a
phase of a rebalance.

Stable and Empty are settled: a record says so, and after a load every group is in one of them. The two others
are transient, as in Kafka: a restart forgets them, and the members join again. No group is ever Dead:
DescribeGroups says so of groups that do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class Event(Enum):
    """What can happen to a group."""

    MEMBER_JOINED = "a member joined, came back or changed its protocols"
    MEMBER_LEFT = "members left, or clients that had an id and had not joined yet"
    MEMBER_EXPIRED = "the session of a member timed out"
    NEWCOMER_REFUSED = "a client was refused because the group is full"
    NEWCOMER_EXPIRED = "a client got an id and did not join with it in time"
    JOIN_TIME_OVER = "the time to join is over"
    SYNC_TIME_OVER = "members joined and did not ask for their assignment in time"
    RESTORED = "records created the group, and its members have to join again"


class Step(Enum):
    """What a group does about an event."""

    PREPARE = "asks all members to join again"
    COMPLETE_IF_JOINED = "completes the join phase if nobody is missing; a first one lasts for its delay"
    COMPLETE_EARLY_IF_JOINED = "the same, without waiting for the delay"
    COMPLETE_OR_WAIT_ON = "completes the join phase; a first one lasts while newcomers keep coming"


STEPS: Final[Mapping[Event, Mapping[State, Step]]] = {
    Event.MEMBER_JOINED: {
        State.EMPTY: Step.PREPARE,
        State.PREPARING_REBALANCE: Step.COMPLETE_IF_JOINED,
        State.COMPLETING_REBALANCE: Step.PREPARE,
        State.STABLE: Step.PREPARE,
    },
    Event.MEMBER_LEFT: {
        State.PREPARING_REBALANCE: Step.COMPLETE_IF_JOINED,
        State.COMPLETING_REBALANCE: Step.PREPARE,
        State.STABLE: Step.PREPARE,
    },
    Event.MEMBER_EXPIRED: {
        State.PREPARING_REBALANCE: Step.COMPLETE_EARLY_IF_JOINED,
        State.COMPLETING_REBALANCE: Step.PREPARE,
        State.STABLE: Step.PREPARE,
    },
    Event.NEWCOMER_REFUSED: {State.PREPARING_REBALANCE: Step.COMPLETE_IF_JOINED},
    Event.NEWCOMER_EXPIRED: {State.PREPARING_REBALANCE: Step.COMPLETE_EARLY_IF_JOINED},
    Event.JOIN_TIME_OVER: {State.PREPARING_REBALANCE: Step.COMPLETE_OR_WAIT_ON},
    Event.SYNC_TIME_OVER: {
        State.COMPLETING_REBALANCE: Step.PREPARE,
        State.STABLE: Step.PREPARE,
    },
    Event.RESTORED: {State.STABLE: Step.PREPARE},
}
"""A state that is not listed goes on as before."""

MUST_JOIN_AGAIN: Final[Mapping[State, ErrorCode]] = {
    State.EMPTY: ErrorCode.unknown_member_id,
    State.PREPARING_REBALANCE: ErrorCode.rebalance_in_progress,
    State.COMPLETING_REBALANCE: ErrorCode.none,
    State.STABLE: ErrorCode.none,
}
"""What a heartbeat or a SyncGroup of the right generation is told: whether the member has to join again."""

COMMIT_IS_A_SIGN_OF_LIFE: Final = frozenset({State.STABLE, State.PREPARING_REBALANCE})
WITH_MEMBERS: Final = frozenset({State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE})
