"""One client connection: takes bytes in, passes frames to the dispatcher, sends replies in request order.

Replies can be ready out of order (a fetch waits, the produce request behind it does not). So each request
takes a place in a queue, and the reply at the head goes out when it is ready. Records in replies are parts of
files. While the transport has nothing to write, the kernel copies them to the socket (sendfile). When the
socket is full, the connection reads one chunk for the transport, which waits for room. So a reply of 50 MB is
never held in memory.

Back-pressure: while the client does not read, or has too many open requests, the connection reads nothing
more from it. So a connection holds at most one receive buffer, `MOST_OPEN` replies without their records, and
a few chunks.

Invariants: a reply is sent whole or the connection ends; nothing is dispatched after `close`. Never
interprets a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from headrace.broker.errors import CloseConnectionError
from headrace.wire.errors import WireError
from headrace.wire.framing import FrameBuffer
from headrace.wire.pieces import FilePart, Pieces

_log = logging.getLogger(__name__)

MOST_OPEN: Final = 64
# How much of a file is read when the socket is full. The transport holds it until there is room; the kernel
# copies the rest. A smaller chunk copies less, but below this size librdkafka's throughput drops (see
# docs/benchmarks.md).
CHUNK_BYTES: Final = 64 * 1024
# Smaller parts of files are read at once and sent together with their surroundings.
SMALL_PART: Final = 64 * 1024
LINGER_SECONDS: Final = 2.0
# Replies to requests that arrived together go out together, up to this many bytes.
GATHERED_BYTES: Final = 1024

Reply = Pieces | asyncio.Future[Pieces]
Dispatch = Callable[[memoryview, "Connection"], Reply]


class _Place:
    """A request's place in the order of replies."""

    __slots__ = ("pieces", "ready")

    def __init__(self) -> None:
        self.ready = False
        self.pieces: Pieces = None


class Connection(asyncio.BufferedProtocol):
    """`dispatch` answers a frame; `opened` and `closed` are called when the connection starts and ends."""

    def __init__(
        self,
        dispatch: Dispatch,
        limit: int,
        opened: Callable[[Connection], None],
        closed: Callable[[Connection], None],
    ) -> None:
        self._dispatch = dispatch
        self._opened = opened
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(limit)
        self._transport: asyncio.Transport | None = None
        self._places: deque[_Place] = deque()
        self._futures: set[asyncio.Future[Pieces]] = set()
        # Buffers, and parts of files with how much of them has been sent.
        self._outbox: deque[bytearray | tuple[FilePart, int]] = deque()
        # Small replies not written yet; None while no requests are being taken.
        self._gathered: bytearray | None = None
        self._client_is_slow = False
        self._reading = True
        self._closing = False
        self._said_goodbye = False
        self._holds = 0
        self._descriptor = -1
        self.last_active = self._loop.time()
        self.address = ""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because transports of uvloop are not instances of the class.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        if (sock := transport.get_extra_info("socket")) is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Encrypted bytes must go through the transport.
            if transport.get_extra_info("ssl_object") is None:
                self._descriptor = sock.fileno()
        # The client counts as slow from the first byte that the socket refuses until it has taken everything,
        # so that nothing is overtaken. It also makes uvloop write at once.
        self._transport.set_write_buffer_limits(high=0, low=0)
        self._opened(self)

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, count: int) -> None:
        if self._closing:
            return  # Drop what still arrives.
        self.last_active = self._loop.time()
        self._frames.received(count)
        self._work()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._client_is_slow = True

    def resume_writing(self) -> None:
        self._client_is_slow = False
        self.last_active = self._loop.time()
        self._send()
        self._work()

    def connection_lost(self, _error: Exception | None) -> None:
        self._closing = True
        self._transport = None
        for future in tuple(self._futures):
            future.cancel()
        self._places.clear()
        self._outbox.clear()
        self._closed(self)

    # Called by the server.

    @property
    def busy(self) -> bool:
        """Whether the client still waits for a reply."""
        return bool(self._places or self._outbox)

    def close(self) -> None:
        """Take no more requests, and disconnect once all replies have gone out."""
        if not self._closing:
            self._closing = True
            self._end_if_idle()

    def abort(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # Requests.

    def _held_back(self) -> bool:
        return (
            self._client_is_slow
            or bool(self._outbox)
            or len(self._places) >= MOST_OPEN
            or self._closing
            or self._holds > 0
        )

    def hold_until(self, future: asyncio.Future[None]) -> None:
        """Take no further requests until this is done, because they must not overtake an earlier one."""
        self._holds += 1

        def release(_future: asyncio.Future[None]) -> None:
            self._holds -= 1
            self._work()

        future.add_done_callback(release)

    def _work(self) -> None:
        """Take frames for as long as the client keeps up."""
        if self._gathered is not None:
            return  # the call that is running goes on
        self._gathered = bytearray()
        try:
            try:
                next_frame, take = self._frames.next_frame, self._take
                while not self._held_back():
                    if (frame := next_frame()) is None:
                        break
                    take(frame)
            finally:
                gathered, self._gathered = self._gathered, None
                if gathered and self._transport is not None:
                    self._transport.write(gathered)
        except (WireError, CloseConnectionError, ConnectionError) as error:
            _log.info("closing the connection of %s: %s", self.address, error)
            self.abort()
            return
        except Exception:
            _log.exception("a request of %s failed, closing its connection", self.address)
            self.abort()
            return
        self._control_reading()

    def _take(self, frame: memoryview) -> None:
        reply = self._dispatch(frame, self)
        if reply is None:
            return
        if isinstance(reply, asyncio.Future):
            self._await(reply)
        elif self._places:
            place = _Place()
            place.ready = True
            place.pieces = reply
            self._places.append(place)
        else:
            self._put(reply)

    def _await(self, future: asyncio.Future[Pieces]) -> None:
        place = _Place()
        self._places.append(place)
        self._futures.add(future)

        def done(finished: asyncio.Future[Pieces]) -> None:
            self._futures.discard(finished)
            if self._transport is None or finished.cancelled():
                return
            if (error := finished.exception()) is not None:
                if not isinstance(error, CloseConnectionError):
                    _log.error("a request of %s failed, closing its connection", self.address, exc_info=error)
                self.abort()
                return
            place.ready = True
            place.pieces = finished.result()
            self._send()
            self._work()

        future.add_done_callback(done)

    def _control_reading(self) -> None:
        if self._held_back() != self._reading:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._reading = not self._reading
        if self._reading:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # Replies.

    def _send(self) -> None:
        """Send the replies that are ready at the head of the queue."""
        try:
            self._drain()
            while self._places and self._places[0].ready and not self._outbox and not self._client_is_slow:
                self._put(self._places.popleft().pieces)
        except ConnectionError:
            self.abort()
            return
        except OSError:
            _log.exception("records for %s cannot be read, closing its connection", self.address)
            self.abort()
            return
        self._end_if_idle()

    def _put(self, pieces: Pieces) -> None:
        transport = self._transport
        if not pieces or transport is None:
            return
        gathered = self._gathered
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            if gathered is None:
                transport.write(pieces[0])
            else:
                gathered += pieces[0]
                if len(gathered) >= GATHERED_BYTES:
                    self._gathered = bytearray()
                    transport.write(gathered)
            return
        if gathered is None:
            gathered = bytearray()
        else:
            self._gathered = bytearray()
        for piece in pieces:
            if isinstance(piece, bytes | bytearray | memoryview):
                gathered += piece
            elif piece.size <= SMALL_PART:
                gathered += _read(piece, 0, piece.size)
            else:
                self._outbox.append(gathered)
                self._outbox.append((piece, 0))
                gathered = bytearray()
        self._outbox.append(gathered)
        self._drain()

    def _drain(self) -> None:
        """Write until the client is slow."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return  # its descriptor may belong to another connection by now
        outbox = self._outbox
        while outbox and not self._client_is_slow:
            item = outbox.popleft()
            if isinstance(item, bytearray):
                self._write(transport, item)
                continue
            part, sent = item
            if (moved := self._move(transport, part, sent)) == 0:
                moved = min(CHUNK_BYTES, part.size - sent)
                transport.write(_read(part, sent, moved))
            if sent + moved < part.size:
                outbox.appendleft((part, sent + moved))

    def _write(self, transport: asyncio.Transport, data: bytearray) -> None:
        """Bypass the transport if its buffer is empty, so that a part of a file can follow at once."""
        written = 0
        if self._descriptor >= 0 and not transport.get_write_buffer_size():
            with contextlib.suppress(BlockingIOError):
                written = os.write(self._descriptor, data)
        if written < len(data):
            transport.write(data[written:] if written else data)

    def _move(self, transport: asyncio.Transport, part: FilePart, sent: int) -> int:
        """Have the kernel copy from the file to the socket. Returns how much it copied, 0 if it could not."""
        source = part.file.fileno()
        if self._descriptor < 0 or source < 0 or transport.get_write_buffer_size():
            return 0
        try:
            moved = os.sendfile(self._descriptor, source, part.position + sent, part.size - sent)
        except BlockingIOError:
            return 0  # the transport gets the next chunk and waits for room
        if moved == 0:
            raise OSError(f"a segment ends unexpectedly at {part.position + sent}")
        return moved

    def _end_if_idle(self) -> None:
        """Disconnect a closing connection once all replies are sent.

        Closing a socket with unread bytes resets it, and the client could lose replies that it has not read
        yet. So the client is told first that nothing more will come, and gets a moment to disconnect itself.
        """
        transport = self._transport
        if not self._closing or transport is None or self.busy or self._said_goodbye:
            return
        self._said_goodbye = True
        transport.write_eof()
        if not self._reading:
            self._reading = True
            transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self.abort)


def _read(part: FilePart, start: int, size: int) -> bytes:
    data = part.file.pread(size, part.position + start)
    if len(data) != size:
        raise OSError(f"a segment ends {size - len(data)} bytes too early at {part.position + start}")
    return data
