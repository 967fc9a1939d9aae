"""Follows a topic from one beginning on and keeps its rows as chunks, for the versions of a table that begin
at or behind it.

Two threads: one fetches whole batches by long polling, the other decodes what has come and merges small
chunks. Records are decoded as soon as somebody waits for them, otherwise in larger portions. What cannot be
read now (the log or the registry does not answer, the storage is full) stays pending and is tried again.

Invariants: a chunk is published only after its file is whole; `Stretch` says what a partition's chunks have.
A line never goes back: whoever needs older offsets begins another one. A line whose topic came back shorter
is broken and never used again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from headrace.client.batches import BatchReader
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.sources import TailChunk, TailView
from headrace.query.tail.chunk_files import ChunkFiles, FullError
from headrace.query.tail.decoding import BatchDecoder
from headrace.query.tail.pending import Pending, joined
from headrace.query.tail.stretch import Stretch
from headrace.wire.errors import CorruptBatchError

_log = logging.getLogger(__name__)

# How long a fetch waits for records.
_WAIT_MS: Final = 250
# Between fetches, if nobody waits: a fetch for every few records takes most of its time for itself.
_PACE_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 0.25
# Records wait for being decoded at most so long if nobody waits for them, longer if nobody asked for a while,
# and at most so many bytes.
_OLDEST_SECONDS: Final = 0.1
_OLDEST_UNASKED_SECONDS: Final = 0.5
_UNASKED_SECONDS: Final = 1.0
_DUE_BYTES: Final = 1024 * 1024
_MOST_PENDING_BYTES: Final = 16 * 1024 * 1024
# With more chunks of a partition, they are merged although somebody waits.
_MOST_CHUNKS: Final = 32


class TailLine:
    """One line of one table. `begins` has the first offset of each partition.

    `on_disturbed` is called if the log may have lost records.
    """

    def __init__(
        self,
        topic: TopicIdentity,
        begins: Mapping[int, int],
        *,
        decoder: BatchDecoder,
        files: ChunkFiles,
        open_reader: Callable[[], BatchReader],
        on_disturbed: Callable[[], None],
        keep_seconds: float,
    ) -> None:
        self._topic = topic
        self._decoder = decoder
        self._files = files
        self._open_reader = open_reader
        self._on_disturbed = on_disturbed
        self._keep_seconds = keep_seconds
        self._changed = threading.Condition()
        self._stretches = {number: Stretch(begun=at, end=at) for number, at in begins.items()}
        self._fetched = dict(begins)
        self._pending: list[Pending] = []
        self._pending_since = 0.0
        self._waiting = 0
        self._is_full = False
        self._log_trouble = ""
        self._trouble = ""
        self._broken = ""
        self._is_stopping = False
        self._asked = time.monotonic()
        # Where the newest versions begin, and since when they are asked for.
        self._begun: deque[tuple[float, Mapping[int, int]]] = deque()
        self._threads = [
            threading.Thread(target=work, name=f"{what} {topic.name}", daemon=True)
            for what, work in (("tail of", self._follow), ("rows of", self._decode_all))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        with self._changed:
            for stretch in self._stretches.values():
                self._files.remove(stretch.jump(stretch.end), time.monotonic())

    @property
    def is_broken(self) -> bool:
        return bool(self._broken)

    def break_off(self) -> None:
        """The topic has lost what was read."""
        with self._changed:
            self._broken = "the topic came back shorter"
            self._changed.notify_all()

    def read_to(self) -> dict[int, int]:
        """Behind the last offset that was read of each partition, where any was."""
        with self._changed:
            return {
                number: stretch.end
                for number, stretch in self._stretches.items()
                if stretch.end > stretch.begun or stretch.chunks
            }

    def idle_seconds(self, now: float) -> float:
        """Since somebody asked."""
        return now - self._asked if not self._waiting else 0.0

    def reaches(self, starts: Mapping[int, int]) -> int | None:
        """How many offsets it has behind these; None if it does not have all of them."""
        with self._changed:
            known = [(self._stretches[at], start) for at, start in starts.items() if at in self._stretches]
            if any(stretch.begun > start for stretch, start in known):
                return None
            return sum(max(stretch.end - start, 0) for stretch, start in known)

    def view(
        self, starts: Mapping[int, int], ends: Mapping[int, int], *, deadline: float, newest: bool
    ) -> TailView | None:
        """What it has from these offsets on, once it has read up to the ends, or the deadline has come.

        None if it does not have all of it any more. `newest`: no newer version was asked for.
        """
        with self._changed:
            self._asked = time.monotonic()
            if newest:
                self._note(starts, self._asked)
            self._advance(starts)
            self._waiting += 1
            self._changed.notify_all()
            try:
                while (left := deadline - time.monotonic()) > 0:
                    if self._is_stopping or self._broken or self._is_full or self._has_read(ends):
                        break
                    self._changed.wait(left)
            finally:
                self._waiting -= 1
            self._asked = time.monotonic()
            if any(self._stretches[number].begun > start for number, start in starts.items()):
                return None
            return None if self._broken or self._is_stopping else self._view(starts, ends)

    def evict(self, now: float) -> None:
        """Remove the chunks that no version needs that was the newest a moment ago."""
        with self._changed:
            before: Mapping[int, int] = {}
            while self._begun and self._begun[0][0] <= now - self._keep_seconds:
                _, before = self._begun.popleft()
            for number, start in before.items():
                self._files.remove(self._stretches[number].evict(start), now)
            if before and not self._begun:
                self._begun.append((now, before))

    def _view(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> TailView:
        chunks: list[TailChunk] = []
        behind = 0
        stopped = ""
        withheld: dict[str, int] = {}
        for number, start in sorted(starts.items()):
            stretch = self._stretches[number]
            chunks += stretch.from_offset(start)
            lacking = max(ends.get(number, 0) - max(stretch.end, start), 0)
            behind += lacking
            if lacking and stretch.stopped:
                stopped = stretch.stopped
            for each in stretch.withheld_from(start):
                withheld[each.reason] = withheld.get(each.reason, 0) + each.count
        reasons = [f"{count} records are left to the lake: {reason}" for reason, count in withheld.items()]
        if behind:
            reasons.insert(0, self._why_behind(stopped))
        return TailView(
            chunks=tuple(chunks),
            starts=dict(starts),
            reached={number: max(self._stretches[number].end, start) for number, start in starts.items()},
            behind=behind + sum(withheld.values()),
            reason="; ".join(reasons),
        )

    def _why_behind(self, stopped: str) -> str:
        if stopped:
            return stopped
        if self._is_full:
            return "the tails of all tables take as many bytes as they may"
        return self._log_trouble or self._trouble or f"topic {self._topic.name} is still being read"

    def _has_read(self, ends: Mapping[int, int]) -> bool:
        return all(
            stretch.end >= ends.get(number, 0) or stretch.stopped
            for number, stretch in self._stretches.items()
        )

    def _note(self, starts: Mapping[int, int], now: float) -> None:
        if self._begun:
            last = self._begun[-1][1]
            if last == starts:
                return
            if any(starts.get(number, 0) < start for number, start in last.items()):
                # The table was restored: what was before these is needed again.
                self._begun.clear()
        self._begun.append((now, dict(starts)))

    def _advance(self, starts: Mapping[int, int]) -> None:
        """Go on behind what the table has got meanwhile, and with partitions that are new."""
        for number, start in starts.items():
            stretch = self._stretches.get(number)
            if stretch is None:
                self._stretches[number] = Stretch(begun=start, end=start)
                self._fetched[number] = start
            elif start > self._fetched[number] or (stretch.stopped and start > stretch.end):
                self._files.remove(stretch.jump(start), time.monotonic())
                self._fetched[number] = start
                self._pending = [each for each in self._pending if each.partition != number]

    # Fetching.

    def _follow(self) -> None:
        reader = self._open_reader()
        try:
            while not self._is_stopping:
                try:
                    has_any = self._fetch(reader)
                    self._log_trouble = ""
                except HeadraceError as error:
                    self._log_trouble = error.message
                    self._on_disturbed()
                    self._pause(_RETRY_SECONDS)
                    continue
                except Exception as error:
                    # A thread that ended here would leave every view waiting, and say nothing.
                    self._log_trouble = self._told("fetched", error, before=self._log_trouble)
                    self._pause(_RETRY_SECONDS)
                    continue
                if has_any:
                    with self._changed:
                        self._changed.wait_for(lambda: self._waiting or self._is_stopping, _PACE_SECONDS)
        finally:
            reader.close()

    def _fetch(self, reader: BatchReader) -> bool:
        """Whether any records came. Raises log_unavailable."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room or self._is_stopping, _RETRY_SECONDS)
            if not self._has_room or self._is_stopping:
                return False
            wanted = (
                {}
                if self._broken
                else {
                    number: at for number, at in self._fetched.items() if not self._stretches[number].stopped
                }
            )
        found = reader.record_sets(self._topic, wanted, wait_ms=_WAIT_MS) if wanted else {}
        if not found:
            # Also if the topic was deleted: the next view will say so.
            self._pause(_RETRY_SECONDS)
            return False
        has_any = False
        with self._changed:
            for number, records in found.items():
                first = wanted[number]
                if self._fetched[number] != first or self._stretches[number].stopped:
                    continue
                if records.is_out_of_range and records.end < first:
                    self._broken = "the topic came back shorter"
                    self._on_disturbed()
                elif records.position > first:
                    # Also without batches: what is in between has expired, or was never there.
                    self._take(Pending(partition=number, first=first, records=records))
                    has_any = True
            if has_any or self._broken:
                self._changed.notify_all()
        return has_any

    def _take(self, pending: Pending) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending.append(pending)
        self._fetched[pending.partition] = pending.records.position

    @property
    def _has_room(self) -> bool:
        return self._pending_bytes < _MOST_PENDING_BYTES

    @property
    def _pending_bytes(self) -> int:
        return sum(len(each.records.content) for each in self._pending)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, seconds)

    # Decoding.

    def _decode_all(self) -> None:
        while not self._is_stopping:
            with self._changed:
                self._changed.wait_for(lambda: self._is_due or self._is_stopping, self._seconds_until_due)
                pending = list(self._pending) if self._is_due else []
            try:
                for each in joined(pending):
                    self._decode(each)
                self._trouble, self._is_full = "", False
                self._merge()
            except FullError:
                with self._changed:
                    self._is_full = True
                    self._changed.notify_all()
                self._pause(_RETRY_SECONDS)
            except (HeadraceError, OSError, CorruptBatchError) as error:
                self._trouble = error.message if isinstance(error, HeadraceError) else str(error)
                self._pause(_RETRY_SECONDS)
            except Exception as error:
                self._trouble = self._told("decoded", error, before=self._trouble)
                self._pause(_RETRY_SECONDS)

    def _told(self, what: str, error: Exception, *, before: str) -> str:
        """The reason for whoever asks; the log gets the whole error, once."""
        reason = (
            f"records of topic {self._topic.name} cannot be {what}: {type(error).__name__}; "
            "the log file of the query process says more"
        )
        if reason != before:
            _log.error("Records of topic %s cannot be %s.", self._topic.name, what, exc_info=error)
        return reason

    @property
    def _is_due(self) -> bool:
        if not self._pending:
            return False
        is_large = self._pending_bytes >= _DUE_BYTES
        return bool(self._waiting) or is_large or not self._seconds_until_due

    @property
    def _seconds_until_due(self) -> float:
        if not self._pending:
            return _RETRY_SECONDS
        now = time.monotonic()
        is_unasked = now > self._asked + _UNASKED_SECONDS
        oldest = _OLDEST_UNASKED_SECONDS if is_unasked else _OLDEST_SECONDS
        return max(self._pending_since + oldest - now, 0.0)

    def _decode(self, pending: Pending) -> None:
        number, records = pending.partition, pending.records
        decoded = self._decoder.decode(records, partition=number, first=pending.first)
        end = records.position if decoded.stopped_at is None else decoded.stopped_at
        file = None
        if len(decoded.rows):
            file = self._files.write(
                decoded.rows, partition=number, first=pending.first, end=end, folders=self._decoder.folders
            )
        with self._changed:
            stretch = self._stretches[number]
            if stretch.end != pending.first:
                # It has jumped meanwhile.
                self._files.remove([file] if file else [], time.monotonic())
                return
            stretch.append(file, end=end)
            if decoded.withheld:
                stretch.withhold(decoded.withheld, end=decoded.withheld_end, reason=decoded.reason)
            self._pending = [
                each for each in self._pending if each.partition != number or each.first >= records.position
            ]
            if decoded.stopped_at is not None:
                stretch.stopped = (
                    f"the connector stops at offset {end} of partition {number}: {decoded.reason}"
                )
                self._pending = [each for each in self._pending if each.partition != number]
                self._fetched[number] = end
            self._pending_since = time.monotonic()
            self._changed.notify_all()

    def _merge(self) -> None:
        """One merge for each partition: a question must not wait for many."""
        for number in list(self._stretches):
            with self._changed:
                if self._waiting and len(self._stretches[number].chunks) < _MOST_CHUNKS:
                    return
                files = self._stretches[number].mergeable()
            if not files:
                continue
            try:
                merged = self._files.merge(files, self._decoder.schema, self._decoder.folders)
            except FullError:
                return
            with self._changed:
                is_replaced = self._stretches[number].replace(files, merged)
            self._files.remove(files if is_replaced else [merged], time.monotonic())
