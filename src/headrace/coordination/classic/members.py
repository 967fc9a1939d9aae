"""The members of a classic group, and its settled generation.

Invariants: both are values. A settled generation contains what its record says, and the protocols that
members offered besides the chosen one, which are not in the record, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.coordination.classic import embedded
from headrace.coordination.classic.records import StoredGroup, StoredMember
from headrace.coordination.requests import OfferedProtocol

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member. It is static if it has an instance id (KIP-345)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    assignment: bytes = b""

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription in the format of this protocol."""
        for offered in self.protocols:
            if offered.name == protocol:
                return offered.metadata
        raise AssertionError(f"member {self.member_id} never offered the protocol {protocol}")


def protocols_of_all(members: Iterable[Member]) -> frozenset[str]:
    """The names that every member offers; none if there are no members."""
    names: frozenset[str] | None = None
    for member in members:
        offered = frozenset(protocol.name for protocol in member.protocols)
        names = offered if names is None else names & offered
    return names or frozenset()


def chosen_protocol(members: Mapping[str, Member]) -> str:
    """The protocol with the most votes. Each member votes for its favourite among those that all support."""
    candidates = protocols_of_all(members.values())
    votes = Counter(
        next(protocol.name for protocol in member.protocols if protocol.name in candidates)
        for member in members.values()
    )
    # In a tie the first in alphabetical order wins, so that the choice does not depend on who joined first.
    return min(votes, key=lambda name: (-votes[name], name))


def subscribed_topics(
    protocol_type: str | None, protocol: str | None, members: Mapping[str, Member]
) -> frozenset[str] | None:
    """The topics that a generation of consumers reads; None if unknown."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not members:
        return frozenset()
    if protocol is None:
        return None
    topics: set[str] = set()
    for member in members.values():
        theirs = embedded.subscribed_topics(member.metadata(protocol))
        if theirs is None:
            return None
        topics |= theirs
    return frozenset(topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A written generation: stable if it has members, else empty. A new group has generation 0."""

    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_since_ms: int | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    topics: frozenset[str] | None = None


def _rebalance_timeout_ms(member: StoredMember) -> int:
    # Old records have no rebalance timeout; the session timeout serves for both.
    return member.session_timeout_ms if member.rebalance_timeout_ms == -1 else member.rebalance_timeout_ms


def settled_from(stored: StoredGroup, offered: Mapping[str, tuple[OfferedProtocol, ...]]) -> Settled:
    """The generation in a record; `offered` has the protocols that members are known to have offered."""
    members = {}
    for member in stored.members:
        known = offered.get(member.member_id)
        chosen = OfferedProtocol(name=stored.protocol or "", metadata=member.subscription)
        members[member.member_id] = Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=_rebalance_timeout_ms(member),
            session_timeout_ms=member.session_timeout_ms,
            protocols=known if known is not None and chosen in known else (chosen,),
            assignment=member.assignment,
        )
    protocol_type = stored.protocol_type or None
    return Settled(
        generation=stored.generation,
        protocol_type=protocol_type,
        protocol=stored.protocol,
        # Kafka writes former consumer groups (KIP-848) without a leader: the first member leads.
        leader=stored.leader if stored.leader in members else next(iter(members), None),
        state_since_ms=None if stored.state_since_ms == -1 else stored.state_since_ms,
        members=members,
        topics=subscribed_topics(protocol_type, stored.protocol, members),
    )


def stored_from(
    *,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    leader: str | None,
    members: Mapping[str, Member],
    assignments: Mapping[str, bytes],
    now_ms: int,
) -> StoredGroup:
    """A generation in the form of its record. Members without an assignment get an empty one."""
    return StoredGroup(
        protocol_type=protocol_type or "",
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_since_ms=now_ms,
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in members.values()
        ),
    )
