"""The interface of groups of both kinds, for committing, listing and deleting.

Classic groups and groups of the consumer protocol (KIP-848) implement it. Their machines share one dictionary
by id, `Groups`, so an id belongs to one group of one kind.

Invariants: no method changes anything. Where a method returns an error code, `ErrorCode.none` means yes.
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
"""The member id of a client that has none yet, and of a commit from outside the group."""

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits offsets. `generation` is the generation of a classic group, or the member epoch.

    `knows_epochs`: the sender understands errors about member epochs (OffsetCommit 9 and newer, every
    TxnOffsetCommit).
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
        """Whether it has neither members nor anybody about to join: it is deleted with its last offset."""
        ...

    def commit_error(self, committer: Committer) -> ErrorCode:
        """Whether this client may commit offsets now."""
        ...

    def may_still_commit(self, committer: Committer, topic_id: UUID | None, partition: int) -> bool:
        """Whether a commit with an outdated epoch still counts for this partition."""
        ...

    def sign_of_life(self, member_id: str, now_ms: int) -> tuple[Timer, ...]:
        """The timers that a commit by this member moves. In a classic group it counts as a heartbeat."""
        ...

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether this client may read the offsets (member and epoch since OffsetFetch 9)."""
        ...

    def delete_offsets_error(self) -> ErrorCode:
        """Whether single offsets may be deleted now."""
        ...

    def delete_error(self) -> ErrorCode:
        """Whether the group may be deleted now."""
        ...

    def subscribed_to(self, topic: str) -> bool:
        """Whether members read this topic. Its offsets then neither expire nor can be deleted."""
        ...

    def retention_starts(self, commit_timestamp_ms: int) -> int | None:
        """When the retention of an offset begins; None while the group keeps it alive."""
        ...

    def tombstones(self) -> tuple[Record, ...]:
        """The records that delete the group."""
        ...


Groups = dict[str, Group]
