"""Checks that the platform's ports are free, before anything starts.

Invariant: if a port is taken, the error names the port, its setting and, where the system allows it, the
process that holds it. Never reserves a port: one that is free now may be taken a moment later; then the
process that binds it reports the error.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

import psutil

from headrace.assembly.process_specs import ProcessSpec
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, environment_name, flag_name, listening_ports


def check_ports(settings: Settings, specs: Iterable[ProcessSpec]) -> None:
    """Raise `port_in_use` for the first port of these processes that cannot be bound."""
    ports = listening_ports(settings)
    for spec in specs:
        for name in spec.ports:
            # With an external log, no process here binds the log's port.
            for port in ports.get(name, ()):
                _check(settings.host, port, name)


def _check(host: str, port: int, name: str) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise HeadraceError(
            "invalid_setting", f"Setting `host` = '{host}' is not an address: {error.strerror}."
        ) from error
    with socket.socket(family, kind, protocol) as probe:
        # As servers do: connections of an earlier run in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise _refusal(host, port, name, error) from error


def _refusal(host: str, port: int, name: str, error: OSError) -> HeadraceError:
    if error.errno == errno.EADDRNOTAVAIL:
        return HeadraceError(
            "invalid_setting",
            f"Setting `host` = '{host}' is not an address of this machine.",
            remedy="Use 127.0.0.1, 0.0.0.0 or an address of one of its interfaces.",
        )
    remedy = f"Choose another with {flag_name(name)} or {environment_name(name)}."
    if error.errno == errno.EADDRINUSE:
        return HeadraceError(
            "port_in_use", f"Port {port} (setting `{name}`) is in use{_holder_of(port)}.", remedy=remedy
        )
    return HeadraceError(
        "invalid_setting", f"Port {port} (setting `{name}`) cannot be used: {error.strerror}.", remedy=remedy
    )


def _holder_of(port: int) -> str:
    """` by pid … (name)`, where the system allows it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        # Helpful, but not every system tells every user.
        return ""
    return ""
