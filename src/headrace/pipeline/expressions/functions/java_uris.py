"""Parses URIs like Java's `java.net.URI`: RFC 2396, plus visible characters outside ASCII.

`parse` returns the parts as written, or None if Java would raise an error. An authority that is not a server
(`//a_b/`) has no host and no port.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

_ALPHANUM: Final = "A-Za-z0-9"
_UNRESERVED: Final = _ALPHANUM + r"\-_.!~*'()"
_OTHER: Final = r"\u0081-\U0010FFFF"


def _characters(allowed: str) -> re.Pattern[str]:
    """Matches these characters, escapes, and characters outside ASCII (which `_is_visible` checks)."""
    return re.compile(rf"(?:[{allowed}{_OTHER}]|%[0-9A-Fa-f]{{2}})*")


_URIC: Final = _characters(_UNRESERVED + r";/?:@&=+$,\[\]")
_PATH: Final = _characters(_UNRESERVED + ":@&=+$,;/")
_REGISTRY: Final = _characters(_UNRESERVED + "$,;:@&=+")
_USER: Final = _characters(_UNRESERVED + ";:&=+$,")
_SCHEME: Final = re.compile(rf"([A-Za-z][{_ALPHANUM}+\-.]*):(.*)", re.DOTALL)
_PARTS: Final = re.compile(r"(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_LABEL: Final = rf"[{_ALPHANUM}](?:[{_ALPHANUM}\-]*[{_ALPHANUM}])?"
_HOST_NAME: Final = re.compile(rf"(?:{_LABEL}\.)*(?:{_LABEL}\.?)")
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2}|0+[0-9]{1,3})"
_IPV4: Final = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
_SERVER: Final = re.compile(r"(?:([^@]*)@)?(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?", re.DOTALL)
_LARGEST_PORT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Uri:
    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def parse(text: str) -> Uri | None:
    scheme, rest = None, text
    colon = re.match(r"[^/?#:]*:", text)
    if colon is not None:
        found = _SCHEME.fullmatch(text)
        if found is None:
            return None
        scheme, rest = found.groups()
        if not rest.startswith("/"):
            return _opaque(scheme, rest)
    return _hierarchical(scheme, rest)


def _opaque(scheme: str, rest: str) -> Uri | None:
    own, mark, fragment = rest.partition("#")
    if not own or not _consists(own, _URIC) or not _consists(fragment, _URIC):
        return None
    return Uri(scheme=scheme, fragment=fragment if mark else None)


def _hierarchical(scheme: str | None, rest: str) -> Uri | None:
    parts = _PARTS.fullmatch(rest)
    assert parts is not None, rest
    authority, path, query, fragment = parts.groups()
    server: tuple[str | None, int | None] | None = (None, None)
    if authority:
        server = _server(authority)
    elif authority is not None and len(rest) == len("//"):
        return None
    is_legal = _consists(path, _PATH) and _consists(query or "", _URIC) and _consists(fragment or "", _URIC)
    if server is None or not is_legal:
        return None
    host, port = server
    return Uri(scheme=scheme, host=host, port=port, path=path, query=query, fragment=fragment)


def _server(authority: str) -> tuple[str | None, int | None] | None:
    """Host and port; (None, None) if the authority is not a server, None if it is invalid."""
    found = _SERVER.fullmatch(authority)
    if found is not None:
        user, host, port = found.groups()
        number = int(port) if port else None
        is_port = number is None or number <= _LARGEST_PORT
        if _is_host(host) and is_port and (user is None or _consists(user, _USER)):
            return host, number
    return (None, None) if _consists(authority, _REGISTRY) else None


def _is_host(host: str) -> bool:
    if host.startswith("["):
        return _is_ipv6(host[1:-1])
    if _IPV4.fullmatch(host):
        return all(int(each) <= 255 for each in host.split("."))
    if _HOST_NAME.fullmatch(host) is None:
        return False
    *before, last = host.removesuffix(".").split(".")
    return not before or last[0].isalpha()


def _is_ipv6(address: str) -> bool:
    address, mark, zone = address.partition("%")
    if mark and (not zone or re.fullmatch(rf"[{_ALPHANUM}\-_.!~*'()]+", zone) is None):
        return False
    try:
        return ipaddress.IPv6Address(address) is not None
    except ValueError:
        return False


def _consists(text: str, allowed: re.Pattern[str]) -> bool:
    return allowed.fullmatch(text) is not None and all(map(_is_visible, text))


def _is_visible(character: str) -> bool:
    return character < "\x80" or not (
        unicodedata.category(character).startswith("Z") or "\x80" <= character <= "\x9f"
    )
