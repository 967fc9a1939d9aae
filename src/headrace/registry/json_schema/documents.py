"""Finds what a `$ref` refers to: in the document that has it, or in one that a reference names.

Knows the bases of relative URIs, `$id`, and anchors. Never fetches anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from headrace.registry.json_schema.keywords import OPAQUE

_META_SCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
# Stands for a document that says no `$id`, so that relative URIs can be joined.
_NAMELESS: Final = "headrace://schema/"


class Documents:
    """The documents of one schema: its own, and those of its references by name."""

    def __init__(self, own: Any, named: Mapping[str, Any]) -> None:
        # By URI, with the anchor after a `#`.
        self._places: dict[str, Any] = {}
        # By identity of the object; the documents keep the objects alive.
        self._bases: dict[int, str] = {}
        self._root = _NAMELESS
        for name, document in named.items():
            base = urljoin(_NAMELESS, name)
            self._scan(document, base)
            self._places.setdefault(base, document)
            self._places.setdefault(name, document)
        self._root = self._scan(own, _NAMELESS)
        for name, document in named.items():
            # A relative name is relative to the schema that uses it.
            self._places.setdefault(urljoin(self._root, name), document)

    def find(self, reference: str, holder: Any) -> Any:
        """The schema that a `$ref` in the object `holder` leads to. Raises KeyError."""
        base = self._bases.get(id(holder), self._root)
        bare, _, fragment = reference.partition("#")
        uri = _joined(base, bare)
        if uri not in self._places and bare in self._places:
            uri = bare
        if uri not in self._places:
            if uri.startswith(_META_SCHEMAS):
                return {}
            raise KeyError(reference)
        if fragment and not fragment.startswith("/"):
            return self._places[f"{uri}#{fragment}"]
        return _pointed(self._places[uri], unquote(fragment))

    def _scan(self, document: Any, base: str) -> str:
        """Notes what the document defines; its base."""
        first = ""
        ahead: list[tuple[Any, str]] = [(document, base)]
        self._places[base] = document
        while ahead:
            content, here = ahead.pop()
            if isinstance(content, list):
                ahead += [(each, here) for each in content]
            if not isinstance(content, dict):
                continue
            here = self._noted(content, here)
            first = first or here
            ahead += [(each, here) for name, each in content.items() if name not in OPAQUE]
        return first or base

    def _noted(self, schema: dict[str, Any], base: str) -> str:
        for name in ("$id", "id"):
            own = schema.get(name)
            # A `$ref` makes its neighbours meaningless; `id` may be the name of a property.
            if not isinstance(own, str) or (
                name == "id" and not own.startswith(("http:", "https:", "#", "urn:"))
            ):
                continue
            uri, fragment = urldefrag(_joined(base, own))
            if fragment:
                self._places.setdefault(f"{uri}#{fragment}", schema)
            else:
                base = uri
                self._places.setdefault(base, schema)
            break
        self._bases[id(schema)] = base
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(name), str):
                self._places.setdefault(f"{base}#{schema[name]}", schema)
        return base


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference) if reference else base
    except ValueError:
        # Such as one half of an IPv6 address.
        return reference


def _pointed(document: Any, pointer: str) -> Any:
    """Raises KeyError."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document[key]
        elif isinstance(document, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(document):
            document = document[int(key[:9])]
        else:
            raise KeyError(pointer)
    return document
