"""A client that only commits offsets: shows what a broker can handle where a real client would be busy.

OffsetCommit version 7, the last that is not flexible, outside of a group's generations, like a consumer with
manually assigned partitions. All requests are sent without waiting for answers.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Final

from side_by_side.engines import HOST

KEY: Final = 8
VERSION: Final = 7
NO_GENERATION: Final = -1
RECEIVED_AT_ONCE: Final = 256 * 1024


def commit_all(port: int, group: str, topic: str, commits: int) -> None:
    """Commit the offsets from 0 on, one per request, and wait for all answers."""
    requests = b"".join(_request(group, topic, offset) for offset in range(commits))
    # Size, correlation id, throttling, one topic, its name, one partition, its number, the error.
    answer_size = 4 + 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4 + 2
    answers = bytearray()
    with socket.create_connection((HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender = threading.Thread(target=connection.sendall, args=(requests,), daemon=True)
        sender.start()
        while len(answers) < commits * answer_size:
            data = connection.recv(RECEIVED_AT_ONCE)
            if not data:
                raise RuntimeError(f"the broker disconnected after {len(answers) // answer_size} commits")
            answers += data
        sender.join()
    for end in range(answer_size, len(answers) + 1, answer_size):
        (error,) = struct.unpack_from(">h", answers, end - 2)
        if error:
            raise RuntimeError(f"a commit was refused: error {error}")


def _request(group: str, topic: str, offset: int) -> bytes:
    header = struct.pack(">hhih", KEY, VERSION, offset, -1)
    # No member, no static member; one topic, one partition, the offset, no leader epoch, no metadata.
    member = struct.pack(">ihh", NO_GENERATION, 0, -1)
    partition = struct.pack(">iiqih", 1, 0, offset, -1, 0)
    request = header + _string(group) + member + struct.pack(">i", 1) + _string(topic) + partition
    return struct.pack(">i", len(request)) + request


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
