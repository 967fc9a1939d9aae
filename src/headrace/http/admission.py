"""Which requests an HTTP door admits: those meant for this server that no other site's page has sent.

There are no passwords: whoever reaches a port may use it. A browser on that machine also reaches it, and runs
pages from anywhere. Three checks keep such pages out, in this order (docs/decisions/0016):

1. `Host` is a name of this server. A page whose name was redirected to our address (DNS rebinding) sends
   that name.
2. A page that calls us comes from this server, or from an origin that the operator has listed. Browsers say
   which page it was, in `Origin` and `Sec-Fetch-Site`; no script can change these headers.
3. What may change something has a content type that a browser does not send to another site without asking
   first. Where a product's users send others, they are accepted from clients that are no browsers.

Invariants: a request without browser headers to an address or to `localhost` always passes the first two;
verdicts on hosts and origins are kept, so a request costs a few look-ups. Never looks up a name, and never
believes `X-Forwarded-…` headers.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
NO_TYPE: Final = ""
# What a page may send to another site without a preflight request, as far as its type is concerned.
_SENT_UNASKED: Final = frozenset({FORM, "multipart/form-data", "text/plain", NO_TYPE})
_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# An address in brackets, or a name with an optional dot at its end; then an optional port.
_AUTHORITY: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_.-]+?)\.?)(?::[0-9]*)?")
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_VERDICTS_KEPT: Final = 1024
_MOST_SHOWN: Final = 200

Headers = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refused request's response, in the format of the door's API."""

    status: int
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRules:
    """What differs between doors. `media_types` are accepted besides JSON; those that a page can send
    unasked, only from clients that are no browsers. The routes at `checked_by_route` check the content type
    themselves.
    """

    refusal: Callable[[HeadraceError], Refusal]
    media_types: frozenset[str] = frozenset()
    checked_by_route: frozenset[str] = frozenset()


class Admission:
    """The checks. `hosts` are names without ports; `*.` stands for any subdomain, `*` for any host."""

    def __init__(self, *, hosts: Iterable[str], origins: Iterable[str] = ()) -> None:
        names = {host.lower().rstrip(".") for host in hosts if host}
        self._any_host = "*" in names
        self._names = frozenset(name for name in names if "*" not in name)
        self._endings = tuple(name.removeprefix("*") for name in names if name.startswith("*."))
        self._origins = frozenset(origin.lower().encode() for origin in origins)
        self._is_known = functools.lru_cache(_VERDICTS_KEPT)(self._is_known_host)
        self._is_same = functools.lru_cache(_VERDICTS_KEPT)(_is_same_origin)

    @classmethod
    def of(cls, settings: Settings, *, machine_name: str | None = None) -> Self:
        """The names under which a server with these settings is reached. The machine's own name is one of
        them only if other machines can connect.
        """
        hosts = {"localhost", settings.host, settings.advertised_host, *_listed(settings.allowed_hosts)}
        if not _is_loopback(settings.host):
            name = socket.gethostname() if machine_name is None else machine_name
            hosts |= {name, name.partition(".")[0]}
        return cls(hosts=hosts, origins=_listed(settings.allowed_origins))

    def check_caller(self, method: str, headers: Headers) -> None:
        """Raises forbidden_host or forbidden_origin."""
        host = headers.get(b"host", b"")
        # Clients of HTTP/1.0 send none, such as the health checks of load balancers. Browsers always do.
        if host and not self._is_known(host):
            raise _forbidden_host(host)
        origin = headers.get(b"origin")
        site = headers.get(b"sec-fetch-site", b"none")
        if (origin is None and site == b"none") or site == b"same-origin":
            return
        if origin is not None:
            if not self.lists(origin) and not self._is_same(origin, host):
                raise _forbidden_origin(f"A page of {_shown(origin)}")
        elif not _is_link(method, headers):
            raise _forbidden_origin("A page of another site")

    def lists(self, origin: bytes) -> bool:
        """Whether the operator has listed the origin."""
        return origin.lower() in self._origins

    def _is_known_host(self, host: bytes) -> bool:
        if self._any_host:
            return True
        found = _AUTHORITY.fullmatch(host.decode("latin-1").lower())
        if found is None:
            return False
        name = found[1] or found[2]
        # No page has an address as its name, except one that is served from there.
        return name in self._names or name.endswith(self._endings) or _is_address(name)


def check_media_type(method: str, path: str, headers: Headers, rules: DoorRules) -> None:
    """Raises unsupported_media_type."""
    if method in _READING_METHODS or path in rules.checked_by_route:
        return
    given = headers.get(b"content-type")
    if given is None and not _has_body(headers):
        return
    media_type = (given or b"").decode("latin-1").partition(";")[0].strip().lower()
    if media_type == JSON or (media_type.startswith("application/") and media_type.endswith("+json")):
        return
    if media_type not in rules.media_types:
        raise _unsupported(media_type)
    if media_type in _SENT_UNASKED and _is_browser(headers):
        raise _unsupported(media_type)


def _has_body(headers: Headers) -> bool:
    """HTTP/2 needs neither header, but browsers use it only with TLS."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _is_browser(headers: Headers) -> bool:
    """Also of old browsers, and of those told to hide where a request comes from."""
    return (
        b"origin" in headers
        or b"sec-fetch-site" in headers
        or headers.get(b"user-agent", b"").startswith(b"Mozilla/")
    )


def _is_link(method: str, headers: Headers) -> bool:
    """Whether somebody followed a link on another site: the page that opens is ours."""
    return method in _READING_METHODS and headers.get(b"sec-fetch-mode") == b"navigate"


def _is_same_origin(origin: bytes, host: bytes) -> bool:
    """Whether the page came from the host that it calls. The scheme may differ: a proxy may speak TLS."""
    scheme, separator, authority = origin.decode("latin-1").lower().partition("://")
    port = _DEFAULT_PORTS.get(scheme, "")
    own = host.decode("latin-1").lower()
    return bool(separator and own) and authority.removesuffix(port) == own.removesuffix(port)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback if _is_address(host) else host.lower() == "localhost"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _shown(value: bytes) -> str:
    return value.decode("latin-1")[:_MOST_SHOWN]


def _forbidden_host(host: bytes) -> HeadraceError:
    return HeadraceError(
        "forbidden_host",
        f"This server is not known as {_shown(host)}.",
        remedy="Use localhost or an IP address, or add the host name to the setting `allowed_hosts`.",
    )


def _forbidden_origin(who: str) -> HeadraceError:
    return HeadraceError(
        "forbidden_origin",
        f"{who} may not use this server.",
        remedy="If you trust it, add its origin (such as https://app.example.com) to the setting "
        "`allowed_origins`.",
    )


def _unsupported(media_type: str) -> HeadraceError:
    given = f"The content type {media_type[:_MOST_SHOWN]}" if media_type else "A body without a content type"
    return HeadraceError(
        "unsupported_media_type",
        f"{given} is not supported here.",
        remedy=f"Send JSON with the header `Content-Type: {JSON}`.",
    )
