"""Ports that are free on the loopback, for tests that start servers.

They lie below those that the system gives to connections and to servers that ask for any port. Otherwise such
a one could get the port between the moment it was found free and the moment it is used, or while a killed
server's clients still knock on it.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from typing import Final

_FIRST: Final = 20_000
_END: Final = 32_000
# Tests in several processes choose at the same time; hypothesis seeds the usual generator alike in each.
_RANDOM: Final = random.SystemRandom()


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different free ports; held together until all are found, so that none comes twice."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = _RANDOM.randrange(_FIRST, _END)
            each = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found
