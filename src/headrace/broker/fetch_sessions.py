"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, not said each time.

A session is opened by a full fetch with epoch 0. Each further request names the session and the next epoch
and carries only what changed; its reply carries only partitions that have something new: records, an error,
another high-water mark or another log start.

Invariants: at most `slots` sessions; when all are taken, the one that was unused for the longest time makes
room if that was long enough, otherwise the client gets no session and goes on with full fetches. Partitions
that had records go to the back of their session, so that all get their turn when replies are limited.
Never reads a log and never waits.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError
from headrace.wire.fetch import FetchRequest, PartitionFetch, PartitionReply
from headrace.wire.produce import TopicKey

FULL_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
HIGHEST_EPOCH: Final = 2**31 - 1
# Kafka's max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms.
SLOTS: Final = 1_000
EVICTION_SECONDS: Final = 120.0

Wanted = tuple[TopicKey, PartitionFetch]
Answered = tuple[TopicKey, PartitionReply]


class _Partition:
    """What the client asked for, and what it was told last."""

    __slots__ = ("fetch", "high_water_mark", "log_start_offset")

    def __init__(self, fetch: PartitionFetch) -> None:
        self.fetch = fetch
        self.high_water_mark = -1
        self.log_start_offset = -1

    def is_news(self, reply: PartitionReply) -> bool:
        """Whether the client has to hear of it; from now on it has."""
        if reply.error_code:
            # Whatever comes after an error is news.
            self.high_water_mark = -1
            return True
        changed = (
            reply.high_water_mark != self.high_water_mark or reply.log_start_offset != self.log_start_offset
        )
        self.high_water_mark = reply.high_water_mark
        self.log_start_offset = reply.log_start_offset
        return changed or reply.size > 0


class FetchSession:
    """One client's session. `session_id` 0 is no session: everything is asked for and answered each time."""

    __slots__ = ("_incremental", "_partitions", "by_id", "epoch", "last_used", "session_id")

    def __init__(self, session_id: int, *, by_id: bool) -> None:
        self.session_id = session_id
        self.epoch = FIRST_EPOCH + 1
        self.by_id = by_id
        self.last_used = time.monotonic()
        self._incremental = False
        self._partitions: dict[tuple[TopicKey, int], _Partition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def wanted(self) -> list[Wanted]:
        return [(topic, partition.fetch) for (topic, _index), partition in self._partitions.items()]

    def update(self, request: FetchRequest) -> None:
        for topic, fetches in request.topics:
            for fetch in fetches:
                key = (topic, fetch.partition)
                if (known := self._partitions.get(key)) is None:
                    self._partitions[key] = _Partition(fetch)
                else:
                    known.fetch = fetch
        for topic, indexes in request.forgotten:
            for index in indexes:
                self._partitions.pop((topic, index), None)

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == HIGHEST_EPOCH else self.epoch + 1
        self.last_used = time.monotonic()
        self._incremental = True

    def news(self, replies: Iterable[Answered]) -> list[Answered]:
        """What goes into the reply: everything at first, later what the client does not know yet."""
        selected = []
        for topic, reply in replies:
            key = (topic, reply.partition)
            if (partition := self._partitions.get(key)) is None:
                continue
            if partition.is_news(reply) or not self._incremental:
                selected.append((topic, reply))
                if reply.size:
                    self._partitions[key] = self._partitions.pop(key)
        return selected


class FetchSessions:
    """The sessions of all clients."""

    def __init__(self, slots: int = SLOTS, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._clock = clock
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, by_id: bool) -> FetchSession:
        """The session that the request belongs to, up to date with it. Raises ApiError."""
        if request.session_epoch in (FULL_EPOCH, FIRST_EPOCH):
            self._sessions.pop(request.session_id, None)
            session_id = self._free_id() if request.session_epoch == FIRST_EPOCH else 0
            session = FetchSession(session_id, by_id=by_id)
            session.update(request)
            if session_id:
                self._sessions[session_id] = session
            return session
        return self._continue(request, by_id=by_id)

    def _continue(self, request: FetchRequest, *, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            # The client learnt or lost topic ids in between: it starts a new session.
            raise ApiError(ErrorCode.fetch_session_topic_id_error)
        session.update(request)
        session.advance()
        self._sessions.move_to_end(request.session_id)
        if not session:
            del self._sessions[request.session_id]
            return FetchSession(0, by_id=by_id)
        return session

    def _free_id(self) -> int:
        """An id that is hard to meet by accident, or 0 when there is no room."""
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()))
            if self._clock() - oldest.last_used < EVICTION_SECONDS:
                return 0
            del self._sessions[oldest.session_id]
        while True:
            session_id = random.randint(1, HIGHEST_EPOCH)
            if session_id not in self._sessions:
                return session_id
