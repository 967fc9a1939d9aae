"""The state machine of committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, expiry.

Records of type 1 are durable (`offset_records.py`). A commit in a transaction is a record in a transactional
batch of its producer. It is *pending* until the marker of the transaction reaches the same partition; then it
counts or is dropped (KIP-98). While it is pending, a fetch that requires stable offsets has to be repeated
(KIP-447).

Offsets expire as `offsets.retention.minutes` says (KIP-211). If nobody subscribes to its topic, an offset is
deleted one retention after its group became empty. In a group that never had members, or in a stable group
that no longer subscribes to the topic, it is deleted one retention after the commit. A retention that the
commit itself asked for (OffsetCommit 2 to 4) takes precedence. An empty group goes with its last offset.

Invariants: of a commit and a pending commit for the same partition, the one written later counts, whenever
the marker arrives. Time passes only through `now_ms`.
Never: checks whether a topic exists; the API files do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.coordination import offset_records
from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.decision import Decision, Record, Timer, TimerKey
from headrace.coordination.group import Groups
from headrace.coordination.offset_records import CommittedOffset
from headrace.coordination.replies import (
    CommitReply,
    DeleteOffsetsReply,
    FetchedOffset,
    FetchOffsetsReply,
    NoReply,
    PartitionResult,
)
from headrace.coordination.requests import (
    CommitRequest,
    DeleteOffsetsRequest,
    FetchOffsetsRequest,
    OffsetToCommit,
)

MACHINE: Final = "offsets"
NO_PRODUCER: Final = -1
_ABOUT_AN_EPOCH: Final = (ErrorCode.stale_member_epoch, ErrorCode.illegal_generation)

_Partition = tuple[str, int]
# A commit, preceded by its position in the order of writing.
_Entry = tuple[int, CommittedOffset]
_GroupOffsets = dict[_Partition, _Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSettings:
    """The broker's settings for offsets (`offset.metadata.max.bytes`, `offsets.*`), with Kafka's defaults."""

    metadata_max_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_check_interval_ms: int = 10 * 60 * 1000


class Offsets:
    """The offsets of the groups in one partition of `__consumer_offsets` (`shard`)."""

    __slots__ = ("_committed", "_groups", "_open", "_pending", "_settings", "_shard", "_written")

    def __init__(self, groups: Groups, settings: OffsetSettings | None = None, *, shard: int = 0) -> None:
        self._groups = groups
        self._settings = settings or OffsetSettings()
        self._shard = shard
        self._committed: dict[str, _GroupOffsets] = {}
        # By producer id, then by group. `_open` has the producers with an open transaction in a group.
        self._pending: dict[int, dict[str, _GroupOffsets]] = {}
        self._open: dict[str, set[int]] = {}
        self._written = 0

    def committed(self, group_id: str) -> dict[tuple[str, int], CommittedOffset]:
        """The offsets that count now, by topic and partition."""
        return {place: entry[1] for place, entry in self._committed.get(group_id, {}).items()}

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change this offset."""
        return any(
            (topic, partition) in self._pending[producer_id].get(group_id, {})
            for producer_id in self._open.get(group_id, ())
        )

    def has_open_transactions(self, group_id: str) -> bool:
        return group_id in self._open

    # Requests.

    def decide_commit(self, request: CommitRequest, *, now_ms: int) -> Decision[CommitReply]:
        """OffsetCommit, or with a producer TxnOffsetCommit, whose records wait for the producer's marker."""
        error = self._commit_error(request)
        if error is not ErrorCode.none:
            return Decision(
                reply=CommitReply(
                    partitions=tuple(
                        PartitionResult(topic=one.topic, partition=one.partition, error=error)
                        for one in request.offsets
                    )
                )
            )
        timers: tuple[Timer, ...] = ()
        group = self._groups.get(request.group_id)
        if group is not None and request.producer is None:
            timers = group.sign_of_life(request.committer.member_id, now_ms)
        expires_ms = None if request.retention_ms is None else now_ms + request.retention_ms
        records = []
        results = []
        for one in request.offsets:
            error = ErrorCode.none
            if self._too_long(one):
                error = ErrorCode.offset_metadata_too_large
            else:
                records.append(self._record(request.group_id, one, now_ms, expires_ms))
            results.append(PartitionResult(topic=one.topic, partition=one.partition, error=error))
        return Decision(
            records=tuple(records),
            reply=CommitReply(partitions=tuple(results)),
            timers=timers,
            producer=request.producer,
        )

    def _too_long(self, one: OffsetToCommit) -> bool:
        return one.metadata is not None and len(one.metadata) > self._settings.metadata_max_bytes

    def _commit_error(self, request: CommitRequest) -> ErrorCode:
        committer = request.committer
        transactional = request.producer is not None
        if transactional and not request.group_id:
            # Plain commits accept an empty group id, for clients older than this rule.
            return ErrorCode.invalid_group_id
        group = self._groups.get(request.group_id)
        if group is None:
            if committer.generation < 0:
                return ErrorCode.none
            known = committer.knows_epochs and not transactional
            return ErrorCode.group_id_not_found if known else ErrorCode.illegal_generation
        error = group.commit_error(committer)
        if error in _ABOUT_AN_EPOCH and all(
            group.may_still_commit(committer, one.topic_id, one.partition)
            for one in request.offsets
            if not self._too_long(one)
        ):
            return ErrorCode.none
        if transactional and error is ErrorCode.stale_member_epoch:
            return ErrorCode.illegal_generation
        return error

    @staticmethod
    def _record(group_id: str, one: OffsetToCommit, now_ms: int, expires_ms: int | None) -> Record:
        committed = CommittedOffset(
            offset=one.offset,
            leader_epoch=one.leader_epoch,
            metadata=one.metadata or "",
            committed_ms=now_ms,
            expires_ms=expires_ms,
            topic_id=one.topic_id,
        )
        return offset_records.commit_record(group_id, one.topic, one.partition, committed)

    def fetch(self, request: FetchOffsetsRequest) -> FetchOffsetsReply:
        """OffsetFetch for some partitions or for all. An unknown group has no offsets."""
        group = self._groups.get(request.group_id)
        if group is not None:
            error = group.fetch_error(request.member_id, request.member_epoch)
            if error is not ErrorCode.none:
                return FetchOffsetsReply(group_id=request.group_id, error=error)
        committed = self._committed.get(request.group_id, {})
        places = tuple(committed) if request.partitions is None else request.partitions
        fetched = []
        for topic, partition in places:
            entry = committed.get((topic, partition))
            if request.require_stable and self.is_pending(request.group_id, topic, partition):
                unstable = ErrorCode.unstable_offset_commit
                fetched.append(FetchedOffset(topic=topic, partition=partition, error=unstable))
            elif entry is None:
                fetched.append(FetchedOffset(topic=topic, partition=partition))
            else:
                fetched.append(
                    FetchedOffset(
                        topic=topic,
                        partition=partition,
                        offset=entry[1].offset,
                        leader_epoch=entry[1].leader_epoch,
                        metadata=entry[1].metadata,
                        topic_id=entry[1].topic_id,
                    )
                )
        return FetchOffsetsReply(group_id=request.group_id, partitions=tuple(fetched))

    def decide_delete(self, request: DeleteOffsetsRequest) -> Decision[DeleteOffsetsReply]:
        """OffsetDelete (KIP-496): offsets of topics that nobody in the group subscribes to."""
        group = self._groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.invalid_group_id
        elif group is None:
            error = ErrorCode.group_id_not_found
        else:
            error = group.delete_offsets_error()
        if error is not ErrorCode.none or group is None:
            return Decision(reply=DeleteOffsetsReply(error=error))
        records = []
        results = []
        for topic, partition in request.partitions:
            error = ErrorCode.none
            if group.subscribed_to(topic):
                error = ErrorCode.group_subscribed_to_topic
            elif self._known(request.group_id, topic, partition):
                records.append(offset_records.tombstone(request.group_id, topic, partition))
            results.append(PartitionResult(topic=topic, partition=partition, error=error))
        return Decision(records=tuple(records), reply=DeleteOffsetsReply(partitions=tuple(results)))

    def _known(self, group_id: str, topic: str, partition: int) -> bool:
        committed = (topic, partition) in self._committed.get(group_id, {})
        return committed or self.is_pending(group_id, topic, partition)

    def tombstones(self, group_id: str) -> tuple[Record, ...]:
        """The records that delete all offsets of a group, including pending ones."""
        places = dict.fromkeys(self._committed.get(group_id, {}))
        for producer_id in sorted(self._open.get(group_id, ())):
            places.update(dict.fromkeys(self._pending[producer_id].get(group_id, {})))
        return tuple(offset_records.tombstone(group_id, topic, partition) for topic, partition in places)

    # Without a request.

    def decide_topics_deleted(self, topics: frozenset[str]) -> Decision[NoReply]:
        """Delete the offsets of deleted topics, even if members still subscribe to them."""
        places: dict[tuple[str, str, int], None] = {}
        for by_group in (self._committed, *self._pending.values()):
            for group_id, offsets in by_group.items():
                for topic, partition in offsets:
                    if topic in topics:
                        places[group_id, topic, partition] = None
        return Decision(records=tuple(offset_records.tombstone(*place) for place in places))

    def loaded(self, now_ms: int) -> Decision[NoReply]:
        """All records of the partition have been replayed: begin to check for expired offsets."""
        return Decision(timers=(self._next_check(now_ms),))

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[NoReply]:  # noqa: ARG002 - there is one timer
        """Delete expired offsets, and groups that have nothing left."""
        records: list[Record] = []
        for group_id in list(self._groups):
            records += self._expired(group_id, now_ms)
        return Decision(records=tuple(records), timers=(self._next_check(now_ms),))

    def _next_check(self, now_ms: int) -> Timer:
        key = (MACHINE, "expiry", self._shard)
        return Timer(key=key, at_ms=now_ms + self._settings.retention_check_interval_ms)

    def _expired(self, group_id: str, now_ms: int) -> list[Record]:
        group = self._groups[group_id]
        offsets = self._committed.get(group_id, {})
        records = []
        for (topic, partition), (_, committed) in offsets.items():
            if group.subscribed_to(topic) or self.is_pending(group_id, topic, partition):
                continue
            starts_ms = group.retention_starts(committed.committed_ms)
            if starts_ms is None:
                continue
            if committed.expires_ms is not None:
                over = now_ms >= committed.expires_ms
            else:
                over = now_ms - starts_ms >= self._settings.retention_ms
            if over:
                records.append(offset_records.tombstone(group_id, topic, partition))
        unused = len(records) == len(offsets) and group_id not in self._open
        if unused and group.deletable_when_unused:
            records += group.tombstones()
        return records

    # Records.

    def replay(self, key: bytes, value: bytes | None, *, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record of type 1, live or at load. `producer_id` only for transactional batches."""
        self._written += 1
        place = offset_records.read_key(key)
        group_id, partition = place.group_id, (place.topic, place.partition)
        if value is None:
            self._forget(group_id, partition)
            return
        if group_id not in self._groups:
            # A group may consist of its offsets alone, if its consumers assign partitions to themselves.
            group = self._groups[group_id] = ClassicGroup(group_id)
            group.written = True
        entry = (self._written, offset_records.read_value(value))
        if producer_id == NO_PRODUCER:
            self._committed.setdefault(group_id, {})[partition] = entry
        else:
            self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = entry
            self._open.setdefault(group_id, set()).add(producer_id)

    def _forget(self, group_id: str, partition: _Partition) -> None:
        offsets = self._committed.get(group_id)
        if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
            del self._committed[group_id]
        for producer_id in self._open.get(group_id, ()):
            self._pending[producer_id].get(group_id, {}).pop(partition, None)

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction in this partition."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            open_here = self._open[group_id]
            open_here.discard(producer_id)
            if not open_here:
                del self._open[group_id]
            if not committed:
                continue
            for partition, entry in offsets.items():
                ours = self._committed.setdefault(group_id, {})
                earlier = ours.get(partition)
                if earlier is None or earlier[0] < entry[0]:
                    ours[partition] = entry
