"""Schemas by their ids, in a worker: those of the plan, and others from the registry.

A topic's records may have schemas of other subjects than its own. An id always means the same schema, so none
is asked for twice, whatever the question. A registry that does not answer is an error, since a record that
cannot be decoded today could be tomorrow. Belongs to one thread at a time.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from headrace.core.errors import HeadraceError

_SECONDS: Final = 3.0
_MOST_KEPT: Final = 10_000


class Schemas:
    """Of all registries."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], str | None] = {}

    def learn(self, url: str, schemas: Mapping[int, str]) -> None:
        self._found |= {(url, schema_id): text for schema_id, text in schemas.items()}

    def by_id(self, url: str, schema_id: int) -> str | None:
        """None if the registry has none, or none in Avro. Raises log_unavailable."""
        key = (url, schema_id)
        if key not in self._found:
            if len(self._found) > _MOST_KEPT:
                self._found.clear()
            found = _asked(url, schema_id) if url else None
            if found is None:
                # It may be registered later.
                return None
            self._found[key] = found
        return self._found[key]


def _asked(url: str, schema_id: int) -> str | None:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/schemas/ids/{schema_id}")
        response = connection.getresponse()
        body = response.read()
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK:
            raise OSError(f"it answered {response.status}")
        content = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HeadraceError(
            "log_unavailable",
            f"The schema registry at {url} does not give schema {schema_id}: {error}.",
            remedy="Check that the gateway is running (`headrace status`).",
        ) from error
    finally:
        connection.close()
    return str(content["schema"]) if content.get("schemaType", "AVRO") == "AVRO" else None
