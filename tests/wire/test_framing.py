"""Frames come out whole and in order, however the bytes arrive."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.errors import FrameTooLargeError
from headrace.wire.framing import BELIEVED_BYTES, INITIAL_BYTES, KEPT_BYTES, FrameBuffer

LIMIT = 3 * KEPT_BYTES


def receive(buffer: FrameBuffer, data: bytes, steps: list[int]) -> list[bytes]:
    """Bring bytes in as a socket does: at most `step` at a time, never more than there is room for."""
    frames = []
    position = turn = 0
    while position < len(data):
        room = buffer.writable()
        assert len(room) > 0
        count = min(len(room), len(data) - position, steps[turn % len(steps)])
        room[:count] = data[position : position + count]
        buffer.received(count)
        position += count
        turn += 1
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    bodies=st.lists(
        st.binary(max_size=300) | st.integers(0, 60_000).map(lambda size: b"x" * size), max_size=20
    ),
    steps=st.lists(st.integers(1, 40_000), min_size=1, max_size=5),
)
def test_frames_are_what_was_sent(bodies: list[bytes], steps: list[int]) -> None:
    buffer = FrameBuffer(LIMIT)
    assert receive(buffer, framed(*bodies), steps) == bodies
    assert buffer.held == 0


@pytest.mark.parametrize("size", [INITIAL_BYTES - 4, INITIAL_BYTES, INITIAL_BYTES + 1, KEPT_BYTES + 1, LIMIT])
def test_frames_around_the_sizes_of_the_buffer(size: int) -> None:
    buffer = FrameBuffer(LIMIT)
    body = bytes(range(256)) * (size // 256) + b"!" * (size % 256)
    assert receive(buffer, framed(b"first", body, b"last"), [100_000]) == [b"first", body, b"last"]


def test_a_large_buffer_is_given_back_when_it_is_empty() -> None:
    buffer = FrameBuffer(LIMIT)
    receive(buffer, framed(b"x" * LIMIT), [LIMIT])
    assert len(buffer.writable()) == INITIAL_BYTES


def test_room_is_made_for_bytes_that_came_not_for_bytes_that_were_announced() -> None:
    buffer = FrameBuffer(2**30)
    data = struct.pack(">i", 2**30) + b"x" * LIMIT
    received = 0
    while received < len(data):
        room = buffer.writable()
        assert received + len(room) <= max(BELIEVED_BYTES, 4 * received)
        count = min(len(room), 100_000)
        room[:count] = data[received : received + count].ljust(count, b"x")
        buffer.received(count)
        received += count
    assert buffer.next_frame() is None


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_frame_that_is_too_large_is_refused_by_its_size_alone(size: int) -> None:
    buffer = FrameBuffer(LIMIT)
    room = buffer.writable()
    room[:4] = struct.pack(">i", size)
    buffer.received(4)
    with pytest.raises(FrameTooLargeError, match=str(size)):
        buffer.next_frame()


def test_an_empty_frame_is_a_frame() -> None:
    assert receive(FrameBuffer(LIMIT), framed(b"", b"a", b""), [1]) == [b"", b"a", b""]
