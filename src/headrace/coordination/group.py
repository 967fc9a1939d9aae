"""What offsets, listing and deleting ask of a group, whichever protocol its members speak.

A classic group and a group of the consumer protocol (KIP-848) both look like this. They live in one
dictionary by id, `Groups`, which their machines share: an id belongs to one group of one kind.

Invariants: a question changes nothing. An error code is the answer, `ErrorCode.none` means yes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.decision import Record, Timer

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"

NO_MEMBER: Final = ""
"""The member id of somebody who has none yet, and of a commit from outside of a group."""

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits offsets. `generation` is a classic group's generation or a consumer group's member epoch.

    `knows_epochs` says that the request is of a version (OffsetCommit 9 and newer, TxnOffsetCommit of any)
    whose sender understands errors about member epochs.
    """

    member_id: str = NO_MEMBER
    instance_id: str | None = None
    generation: int = NO_GENERATION
    transactional: bool = False
    knows_epochs: bool = True


class Group(Protocol):
    """A group of any kind."""

    group_id: str

    @property
    def kind(self) -> str:
        """CLASSIC or CONSUMER."""
        ...

    @property
    def state_name(self) -> str:
        """The state as ListGroups shows it: Empty, Stable, PreparingRebalance, Assigning and so on."""
        ...

    @property
    def protocol_name_listed(self) -> str:
        """The protocol type as ListGroups shows it."""
        ...

    @property
    def deletable_when_unused(self) -> bool:
        """Whether it has no members, nor anybody about to become one: it goes with its last offset."""
        ...

    def commit_error(self, committer: Committer) -> ErrorCode:
        """Whether this one may commit offsets now."""
        ...

    def may_still_commit(self, committer: Committer, topic_id: UUID | None, partition: int) -> bool:
        """Whether a commit that is refused for its older epoch counts for this partition all the same."""
        ...

    def sign_of_life(self, member_id: str, now_ms: int) -> tuple[Timer, ...]:
        """The timers that a commit by this member moves: in a classic group it counts as a heartbeat."""
        ...

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether this one may read the offsets (member and epoch from OffsetFetch 9 on)."""
        ...

    def delete_offsets_error(self) -> ErrorCode:
        """Whether single offsets may be deleted now."""
        ...

    def delete_error(self) -> ErrorCode:
        """Whether the group may be deleted now."""
        ...

    def subscribed_to(self, topic: str) -> bool:
        """Whether the offsets of this topic are in use: they neither expire nor can be deleted."""
        ...

    def retention_starts(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset counts; None while the group keeps it alive."""
        ...

    def tombstones(self) -> tuple[Record, ...]:
        """The records that delete the group."""
        ...


Groups = dict[str, Group]
