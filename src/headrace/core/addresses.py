"""Addresses of this machine as they are given to others.

Never looks anything up on the network.
"""

from __future__ import annotations

import socket
from typing import Final

WILDCARD_HOSTS: Final = ("0.0.0.0", "::")


def bracketed(host: str) -> str:
    """The host as written before a colon and a port."""
    return f"[{host}]" if ":" in host else host


def reachable_host(host: str, advertised_host: str = "") -> str:
    """What clients are told to connect to: for a wildcard address, this machine's name."""
    return advertised_host or (socket.gethostname() if host in WILDCARD_HOSTS else host)
