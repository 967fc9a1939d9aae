"""Incremental fetch sessions (KIP-227): the broker remembers which partitions a client fetches.

A full fetch with epoch 0 opens a session. Each further request names the session and the next epoch and
carries only what changed. Its reply carries only partitions with news: records, an error, another high-water
mark or another log start offset.

Invariants: there are at most `slots` sessions. When all are taken, the least recently used one is evicted if
it has been idle long enough; otherwise the client gets no session and continues with full fetches. Partitions
that had records move to the back of their session, so that all get their turn when replies are limited. Never
reads a log and never waits.
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
    """What the client asked for, and what the last reply told it."""

    __slots__ = ("fetch", "high_water_mark", "log_start_offset")

    def __init__(self, fetch: PartitionFetch) -> None:
        self.fetch = fetch
        self.high_water_mark = -1
        self.log_start_offset = -1

    def is_news(self, reply: PartitionReply) -> bool:
        """Whether the reply has news for the client. From now on the client knows it."""
        if reply.error_code:
            # Anything that follows an error is news.
            self.high_water_mark = -1
            return True
        changed = (
            reply.high_water_mark != self.high_water_mark or reply.log_start_offset != self.log_start_offset
        )
        self.high_water_mark = reply.high_water_mark
        self.log_start_offset = reply.log_start_offset
        return changed or reply.size > 0


class FetchSession:
    """One client's session. `session_id` 0 means no session: every fetch is a full one."""

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
        """The partitions for the reply: all of them at first, later those with news."""
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
        """The session of the request, updated from it. Raises ApiError."""
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
            # The client switched between names and ids: it has to start a new session.
            raise ApiError(ErrorCode.fetch_session_topic_id_error)
        session.update(request)
        session.advance()
        self._sessions.move_to_end(request.session_id)
        if not session:
            del self._sessions[request.session_id]
            return FetchSession(0, by_id=by_id)
        return session

    def _free_id(self) -> int:
        """A random unused id, or 0 if there is no room."""
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()))
            if self._clock() - oldest.last_used < EVICTION_SECONDS:
                return 0
            del self._sessions[oldest.session_id]
        while True:
            session_id = random.randint(1, HIGHEST_EPOCH)
            if session_id not in self._sessions:
                return session_id
