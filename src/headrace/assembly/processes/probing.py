"""Asks an HTTP server of this machine whether it serves."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import socket
from typing import Final

_TIMEOUT_SECONDS: Final = 10


def trouble(host: str, port: int, path: str) -> str:
    """Why `GET path` of the server listening on `host` fails; empty if it succeeds."""
    try:
        server = http.client.HTTPConnection(reachable(host), port, timeout=_TIMEOUT_SECONDS)
        with contextlib.closing(server) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return f"no answer yet: {error}"
    if answer.status == http.HTTPStatus.OK:
        return ""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"GET {path} returned {answer.status}"


def address_of(host: str) -> str:
    """The address of a host name."""
    family_and_address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    return str(family_and_address[4][0])


def reachable(host: str) -> str:
    """An address at which a server listening on `host` can be reached."""
    address = ipaddress.ip_address(address_of(host))
    if not address.is_unspecified:
        return str(address)
    return "127.0.0.1" if address.version == 4 else "::1"
