"""The machines of groups in one shard, which share one dictionary of groups. Sends each request, record and
timer to the right one.

Invariants: an id belongs to one group of one kind. The machine of consumer groups also answers requests of
the classic protocol about them (KIP-848). Never: I/O.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.configs.store import ConfigStore
from headrace.coordination.classic.groups import ClassicGroups
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.consumer.groups import ConsumerGroups
from headrace.coordination.consumer.records import CONSUMER_GROUP_KEYS
from headrace.coordination.consumer.requests import ConsumerSettings, MigrationPolicy
from headrace.coordination.decision import Decision, TimerKey, WaitingId
from headrace.coordination.fields import CorruptRecordError, record_type
from headrace.coordination.group import CONSUMER, Groups
from headrace.coordination.offsets import MACHINE as OFFSETS
from headrace.coordination.offsets import Offsets, OffsetSettings
from headrace.coordination.replies import HeartbeatReply, JoinReply, LeaveReply, SyncReply
from headrace.coordination.requests import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from headrace.coordination.topics import Topics
from headrace.log.folder.topic_catalogue import encode_id

_OFFSET_KEYS: Final = (0, 1)
_CLASSIC_KEY: Final = 2
_CLASSIC: Final = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of all these machines."""

    classic: ClassicSettings = field(default_factory=ClassicSettings)
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    offsets: OffsetSettings = field(default_factory=OffsetSettings)


class GroupMachines:
    """The machines of the groups in one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, topics: Topics, shard: int) -> None:
        self.groups: Final[Groups] = {}
        self.classic: Final = ClassicGroups(self.groups, settings.classic)
        self.consumer: Final = ConsumerGroups(
            self.groups,
            topics,
            self.classic,
            settings=lambda _group_id: settings.consumer,
            classic_settings=settings.classic,
        )
        self.offsets: Final = Offsets(self.groups, settings.offsets, shard=shard)

    # Requests of the classic protocol, about groups of both kinds.

    def decide_join(
        self, request: JoinRequest, *, waiting_id: WaitingId, unique: uuid.UUID, now_ms: int
    ) -> Decision[JoinReply]:
        """JoinGroup. `unique` becomes part of the id of a new member, in the form of the group's kind."""
        if self.is_consumer_group(request.group_id):
            return self.consumer.decide_join(
                request, waiting_id=waiting_id, unique=encode_id(unique), now_ms=now_ms
            )
        return self.classic.decide_join(request, waiting_id=waiting_id, unique=str(unique), now_ms=now_ms)

    def decide_sync(self, request: SyncRequest, *, waiting_id: WaitingId, now_ms: int) -> Decision[SyncReply]:
        """SyncGroup. Only members of a classic group may have to wait."""
        if self.is_consumer_group(request.group_id):
            return self.consumer.decide_sync(request, now_ms=now_ms)
        return self.classic.decide_sync(request, waiting_id=waiting_id, now_ms=now_ms)

    def decide_heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> Decision[HeartbeatReply]:
        """Heartbeat."""
        return self._machine(request.group_id).decide_heartbeat(request, now_ms=now_ms)

    def decide_leave(self, request: LeaveRequest, *, now_ms: int) -> Decision[LeaveReply]:
        """LeaveGroup."""
        return self._machine(request.group_id).decide_leave(request, now_ms=now_ms)

    def _machine(self, group_id: str) -> ClassicGroups | ConsumerGroups:
        return self.consumer if self.is_consumer_group(group_id) else self.classic

    # The interface for the runtime.

    def is_consumer_group(self, group_id: str) -> bool:
        group = self.groups.get(group_id)
        return group is not None and group.kind == CONSUMER

    def replay(self, key: bytes, value: bytes | None, producer_id: int) -> None:
        """Raises CorruptRecordError."""
        kind = record_type(key)
        if kind in _OFFSET_KEYS:
            self.offsets.replay(key, value, producer_id=producer_id)
        elif kind == _CLASSIC_KEY:
            self.classic.replay(key, value)
        elif kind in CONSUMER_GROUP_KEYS:
            self.consumer.replay(key, value)
        else:
            raise CorruptRecordError(f"the type {kind} is unknown")

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.replay_marker(producer_id, committed=committed)

    def loaded(self, now_ms: int) -> Iterable[Decision[Any]]:
        return (self.classic.loaded(now_ms), self.consumer.loaded(now_ms), self.offsets.loaded(now_ms))

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[Any]:
        if key[0] == OFFSETS:
            return self.offsets.timed_out(key, now_ms)
        if key[0] == _CLASSIC:
            return self.classic.timed_out(key, now_ms)
        return self.consumer.timed_out(key, now_ms)

    def write_failed(
        self, about: str, decision: Decision[Any], error: ErrorCode, now_ms: int
    ) -> Decision[Any]:
        return self.consumer.write_failed(about, decision, error, now_ms)


def group_settings(configs: ConfigStore) -> GroupSettings:
    """The settings in the broker's configuration."""
    return GroupSettings(
        classic=_classic_settings(configs),
        consumer=_consumer_settings(configs),
        offsets=_offset_settings(configs),
    )


def _classic_settings(configs: ConfigStore) -> ClassicSettings:
    return ClassicSettings(
        initial_rebalance_delay_ms=configs.number("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=configs.number("group.min.session.timeout.ms"),
        max_session_timeout_ms=configs.number("group.max.session.timeout.ms"),
        max_size=configs.number("group.max.size"),
    )


def _consumer_settings(configs: ConfigStore) -> ConsumerSettings:
    assignors = configs.broker("group.consumer.assignors")
    assert isinstance(assignors, tuple)
    return ConsumerSettings(
        session_timeout_ms=configs.number("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=configs.number("group.consumer.heartbeat.interval.ms"),
        max_size=configs.number("group.consumer.max.size"),
        assignors=assignors,
        migration_policy=MigrationPolicy(str(configs.broker("group.consumer.migration.policy")).lower()),
    )


def _offset_settings(configs: ConfigStore) -> OffsetSettings:
    return OffsetSettings(
        metadata_max_bytes=configs.number("offset.metadata.max.bytes"),
        retention_ms=configs.number("offsets.retention.minutes") * 60_000,
        retention_check_interval_ms=configs.number("offsets.retention.check.interval.ms"),
    )
