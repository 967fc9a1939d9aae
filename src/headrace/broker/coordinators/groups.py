"""The group coordinator: the requests of API files about groups and their offsets.

Every method takes a request as a value and returns the reply, or a future of it if it has to wait for other
members or for the disk. `shard.py` carries out the decisions.

Invariants: a request goes to the shard of its group, and there to the machine of the group's kind. Offsets in
a transaction are written only if its coordinator knows their partition (KIP-890).
Methods raise ApiError if the group's shard does not exist (COORDINATOR_NOT_AVAILABLE) or is not loaded yet
(COORDINATOR_LOAD_IN_PROGRESS).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer
from headrace.broker.coordinators.group_machines import GroupMachines, group_settings
from headrace.broker.coordinators.shard import Shard
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.topics import BrokerTopics
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.topic_names import CONSUMER_OFFSETS
from headrace.coordination import administration
from headrace.coordination.consumer.requests import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
)
from headrace.coordination.replies import (
    CommitReply,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    DescribedGroup,
    FetchOffsetsReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    ListedGroup,
    PartitionResult,
    SyncReply,
)
from headrace.coordination.requests import (
    CommitRequest,
    DeleteOffsetsRequest,
    FetchOffsetsRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)
from headrace.coordination.transactions.records import TopicPartition
from headrace.coordination.transactions.requests import AddPartitions, AddPartitionsReply
from headrace.coordination.transactions.states import EPOCH_BUMP_VERSION
from headrace.log.errors import LogError
from headrace.log.folder.topic_catalogue import encode_id
from headrace.log.producers.verification import Guard

if TYPE_CHECKING:
    from headrace.broker.node import Node

_Said = TypeVar("_Said")


class GroupCoordinator:
    """Coordinates all groups, since there is one node."""

    def __init__(
        self, node: Node, add_partitions: Callable[[AddPartitions], Answer[AddPartitionsReply]]
    ) -> None:
        """`add_partitions` asks the coordinator of transactions."""
        self._node: Final = node
        self._add_partitions: Final = add_partitions
        topics = BrokerTopics(node)
        self.shards: Final = Shards(
            node,
            CONSUMER_OFFSETS,
            lambda number: GroupMachines(group_settings(node.configs), topics, number),
        )

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return self.shards.number_of(group_id)

    # Members.

    def join(self, request: JoinRequest) -> Answer[JoinReply]:
        """JoinGroup."""
        shard = self.shards.of(request.group_id)
        unique, now_ms = uuid.uuid4(), self._node.now_ms()
        return shard.ask(
            lambda waiting_id: shard.machines.decide_join(
                request, waiting_id=waiting_id, unique=unique, now_ms=now_ms
            ),
            request.group_id,
        )

    def sync(self, request: SyncRequest) -> Answer[SyncReply]:
        """SyncGroup."""
        shard = self.shards.of(request.group_id)
        now_ms = self._node.now_ms()
        return shard.ask(
            lambda waiting_id: shard.machines.decide_sync(request, waiting_id=waiting_id, now_ms=now_ms),
            request.group_id,
        )

    def heartbeat(self, request: HeartbeatRequest) -> Answer[HeartbeatReply]:
        """Heartbeat of the classic protocol."""
        shard = self.shards.of(request.group_id)
        decision = shard.machines.decide_heartbeat(request, now_ms=self._node.now_ms())
        return _now(shard.carry_out(decision, request.group_id))

    def leave(self, request: LeaveRequest) -> Answer[LeaveReply]:
        """LeaveGroup."""
        shard = self.shards.of(request.group_id)
        decision = shard.machines.decide_leave(request, now_ms=self._node.now_ms())
        return _now(shard.carry_out(decision, request.group_id))

    def consumer_heartbeat(self, request: ConsumerHeartbeatRequest) -> Answer[ConsumerHeartbeatReply]:
        """ConsumerGroupHeartbeat (KIP-848)."""
        shard = self.shards.of(request.group_id)
        decision = shard.machines.consumer.decide_consumer_heartbeat(
            request, unique=encode_id(uuid.uuid4()), now_ms=self._node.now_ms()
        )
        return _now(shard.carry_out(decision, request.group_id))

    # Offsets.

    def commit(self, request: CommitRequest) -> Answer[CommitReply]:
        """OffsetCommit."""
        shard = self.shards.of(request.group_id)
        decision = shard.machines.offsets.decide_commit(request, now_ms=self._node.now_ms())
        return _now(shard.carry_out(decision))

    def commit_in_transaction(
        self, request: CommitRequest, *, transactional_id: str, client_version: int
    ) -> Answer[CommitReply]:
        """TxnOffsetCommit. Since version 2 of the protocol it adds its partition by itself (KIP-890)."""
        shard = self.shards.of(request.group_id)
        producer = request.producer
        assert producer is not None
        bumps = client_version >= EPOCH_BUMP_VERSION

        def write(error: ErrorCode, guard: Guard | None) -> Answer[CommitReply]:
            if error is not ErrorCode.none:
                return refused_commit(request, error)
            # Decide only now: the state may have changed while the coordinator of transactions was asked.
            decision = shard.machines.offsets.decide_commit(request, now_ms=self._node.now_ms())
            return _now(shard.carry_out(decision, guard=guard))

        if not request.group_id:
            # The machine refuses this. Kafka checks it first, too.
            return write(ErrorCode.none, None)
        try:
            guard = shard.log.begin_verification(
                producer.producer_id,
                -1,
                producer.producer_epoch,
                epoch_bump=bumps,
                now_ms=self._node.now_ms(),
            )
        except LogError as error:
            return refused_commit(request, kafka_code(error))
        if guard is None:
            return write(ErrorCode.none, None)
        answer = self._add_partitions(
            AddPartitions(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                partitions=frozenset({TopicPartition(CONSUMER_OFFSETS, shard.number)}),
                verify_only=not bumps,
                client_version=client_version,
            )
        )
        if not isinstance(answer, asyncio.Future):
            return write(answer.error, guard)

        async def write_later(asked: asyncio.Future[AddPartitionsReply]) -> CommitReply:
            reply = write((await asked).error, guard)
            return await reply if isinstance(reply, asyncio.Future) else reply

        return asyncio.shield(shard.own(write_later(answer)))

    def fetch_offsets(self, request: FetchOffsetsRequest) -> Answer[FetchOffsetsReply]:
        """OffsetFetch of one group. It returns only offsets that survive a crash."""
        shard = self.shards.of(request.group_id)
        reply = shard.machines.offsets.fetch(request)
        settled = shard.settled()
        if settled is None:
            return reply

        async def later() -> FetchOffsetsReply:
            try:
                await settled
            except LogError:
                return reply.failed(ErrorCode.coordinator_not_available)
            return reply

        return shard.own(later())

    def delete_offsets(self, request: DeleteOffsetsRequest) -> Answer[DeleteOffsetsReply]:
        """OffsetDelete (KIP-496)."""
        shard = self.shards.of(request.group_id)
        return _now(shard.carry_out(shard.machines.offsets.decide_delete(request)))

    # Administration.

    def describe(self, group_id: str) -> DescribedGroup:
        """DescribeGroups of one group."""
        return administration.describe(self.shards.of(group_id).machines.groups, group_id)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe of one group."""
        return self.shards.of(group_id).machines.consumer.describe(group_id)

    def list(self, *, states: Collection[str] = (), kinds: Collection[str] = ()) -> tuple[ListedGroup, ...]:
        """ListGroups. Raises ApiError while groups are being loaded, since the list would have gaps."""
        if self.shards.loading:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        return tuple(
            group
            for shard in self.shards
            for group in administration.list_groups(shard.machines.groups, states=states, kinds=kinds)
        )

    def delete(self, group_ids: Iterable[str]) -> Answer[DeleteGroupsReply]:
        """DeleteGroups, in any number of shards."""
        by_shard: defaultdict[Shard[GroupMachines], list[str]] = defaultdict(list)
        refused: list[tuple[str, ErrorCode]] = []
        for group_id in dict.fromkeys(group_ids):
            try:
                by_shard[self.shards.of(group_id)].append(group_id)
            except ApiError as error:
                refused.append((group_id, error.code))
        answers = [_now(self._delete(shard, of_shard)) for shard, of_shard in by_shard.items()]
        known = [answer for answer in answers if not isinstance(answer, asyncio.Future)]
        if len(known) == len(answers):
            return _joined(refused, known)

        async def later() -> DeleteGroupsReply:
            return _joined(
                refused, [await each if isinstance(each, asyncio.Future) else each for each in answers]
            )

        return asyncio.ensure_future(later())

    @staticmethod
    def _delete(shard: Shard[GroupMachines], group_ids: Iterable[str]) -> Answer[DeleteGroupsReply] | None:
        machines = shard.machines
        return shard.carry_out(
            administration.decide_delete_groups(machines.groups, machines.offsets, group_ids)
        )

    # Events in the broker.

    def topics_deleted(self, topics: frozenset[str]) -> None:
        """Delete the offsets of deleted topics."""
        for shard in self.shards:
            shard.carry_out(shard.machines.offsets.decide_topics_deleted(topics))

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A marker was written to a partition of `__consumer_offsets`."""
        shard = self.shards.at(partition)
        if shard is not None and shard.loaded:
            shard.machines.replay_marker(producer_id, committed=committed)


def _now(reply: Answer[_Said] | None) -> Answer[_Said]:
    """For decisions that always have a reply."""
    assert reply is not None
    return reply


def refused_commit(request: CommitRequest, error: ErrorCode) -> CommitReply:
    return CommitReply(
        partitions=tuple(
            PartitionResult(topic=each.topic, partition=each.partition, error=error)
            for each in request.offsets
        )
    )


def _joined(refused: list[tuple[str, ErrorCode]], replies: Iterable[DeleteGroupsReply]) -> DeleteGroupsReply:
    return DeleteGroupsReply(groups=(*refused, *(each for reply in replies for each in reply.groups)))
