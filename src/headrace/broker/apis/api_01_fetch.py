"""Fetch (key 1), versions 4 to 18: records as they are in the segment files.

Behaviour: reads each partition up to the client's limits, but at least one whole batch per request so that no
client is stuck (KIP-74), and never past the high-water mark. With isolation level 1 (read committed) it reads
up to the last stable offset, where the first open transaction begins, and lists the aborted transactions so
that the client can skip their records (KIP-98). If it finds less than the client's minimum and no error, the
fetch waits in `broker/waiting_fetches.py` and reads again when there is enough or its time is up. Fetch
sessions (KIP-227) are in `broker/fetch_sessions.py`.

Version notes: 13 and later name topics by id (KIP-516). Replicas do not fetch here, so a replica id is
ignored. See `wire/fetch.py` for the fields of each version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Raw
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code, unknown_partition
from headrace.broker.fetch_sessions import Answered, FetchSession, Wanted
from headrace.broker.waiting_fetches import WaitingFetch
from headrace.log.errors import LogError, OffsetOutOfRangeError
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.fetch import (
    FLEXIBLE_FROM,
    FetchRequest,
    PartitionFetch,
    PartitionReply,
    read_request,
    write_reply,
)
from headrace.wire.pieces import Piece
from headrace.wire.produce import TopicKey

_TOPIC_IDS_FROM: Final = 13
_READ_COMMITTED: Final = 1


def handle(broker: Broker, body: memoryview, context: Context) -> list[Piece] | asyncio.Future[list[Piece]]:
    """Answer at once if there is enough to read; otherwise wait for more."""
    request = read_request(body, context.version)
    try:
        session = broker.sessions.open(request, by_id=context.version >= _TOPIC_IDS_FROM)
    except ApiError as error:
        return write_reply((), context.version, error_code=error.code)
    fetch = _Fetch(broker, request, session, context.version)
    replies, size, complete = fetch.read()
    if complete or size >= request.min_bytes or request.max_wait_ms <= 0:
        return fetch.reply(replies)
    return fetch.wait(request.min_bytes - size)


class _Fetch:
    """One request, while it is being answered."""

    __slots__ = ("_broker", "_committed", "_logs", "_request", "_session", "_version", "_wanted")

    def __init__(self, broker: Broker, request: FetchRequest, session: FetchSession, version: int) -> None:
        self._broker = broker
        self._request = request
        self._session = session
        self._version = version
        self._committed = request.isolation_level == _READ_COMMITTED
        self._wanted: list[Wanted] = session.wanted()
        self._logs: dict[PartitionLog, None] = {}

    def read(self) -> tuple[list[Answered], int, bool]:
        """The replies, their size in bytes, and whether waiting is pointless."""
        self._logs.clear()
        left = min(self._request.max_bytes, self._broker.configs.number("fetch.max.bytes"))
        size = 0
        failed = not self._wanted
        replies: list[Answered] = []
        for topic, fetch in self._wanted:
            reply = self._partition(topic, fetch, left, at_least_one=size == 0)
            failed = failed or reply.error_code != 0
            size += reply.size
            left = max(0, left - reply.size)
            replies.append((topic, reply))
        return replies, size, failed

    def wait(self, missing_bytes: int) -> asyncio.Future[list[Piece]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Piece]] = loop.create_future()
        until = loop.time() + self._request.max_wait_ms / 1000

        waiting: WaitingFetch | None = None

        def add(missing_bytes: int) -> None:
            nonlocal waiting
            waiting = self._broker.waiting.add(
                tuple(self._logs),
                missing_bytes=missing_bytes,
                seconds=until - loop.time(),
                complete=complete,
            )

        def cancel(_future: asyncio.Future[list[Piece]]) -> None:
            if waiting is not None:
                self._broker.waiting.cancel(waiting)

        def complete(time_is_up: bool) -> None:
            if future.done():
                return
            replies, size, failed = self.read()
            if time_is_up or failed or size >= self._request.min_bytes:
                future.set_result(self.reply(replies))
            else:
                add(self._request.min_bytes - size)

        add(missing_bytes)
        # A connection that ends cancels the futures it waits for.
        future.add_done_callback(cancel)
        return future

    def reply(self, replies: Iterable[Answered]) -> list[Piece]:
        grouped: dict[TopicKey, list[PartitionReply]] = {}
        for topic, reply in self._session.news(replies):
            grouped.setdefault(topic, []).append(reply)
        return write_reply(tuple(grouped.items()), self._version, session_id=self._session.session_id)

    def _partition(
        self, key: TopicKey, fetch: PartitionFetch, left: int, *, at_least_one: bool
    ) -> PartitionReply:
        topic = self._broker.find_topic(key)
        log = self._broker.partition(topic, fetch.partition)
        if log is None:
            # Kafka sends an empty list here for errors before a log is read.
            return _error(fetch, unknown_partition(key, topic), aborted=())
        if fetch.leader_epoch not in {-1, log.leader_epoch}:
            older = fetch.leader_epoch < log.leader_epoch
            return _error(fetch, ErrorCode.fenced_leader_epoch if older else ErrorCode.unknown_leader_epoch)
        self._logs[log] = None
        limit = min(fetch.max_bytes, left)
        aborted: Sequence[tuple[int, int]] | None = None
        try:
            if self._committed:
                found, stable, aborted = log.read_committed(fetch.offset, limit, at_least_one=at_least_one)
            else:
                found = log.read(fetch.offset, limit, at_least_one=at_least_one)
                # Computed only if it can differ: this runs for every partition of every fetch.
                unstable = log.shows_synced_only or log.has_open_transactions
                stable = log.last_stable_offset if unstable else found.high_water_mark
        except OffsetOutOfRangeError:
            return _error(fetch, ErrorCode.offset_out_of_range)
        except LogError as error:
            return _error(fetch, kafka_code(error))
        return PartitionReply(
            fetch.partition,
            0,
            found.high_water_mark,
            stable,
            found.start_offset,
            aborted,
            found.ranges,
            found.size,
        )


def _error(fetch: PartitionFetch, code: ErrorCode, aborted: tuple[()] | None = None) -> PartitionReply:
    return PartitionReply(fetch.partition, code, -1, -1, -1, aborted)


HANDLER = Raw(FLEXIBLE_FROM, handle)
