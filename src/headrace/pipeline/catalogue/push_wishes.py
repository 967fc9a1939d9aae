"""Push queries as wishes: how the pipeline process learns what to run, and how the rows come back.

A wish is a record of the compacted topic `_push_queries`: the query, and the topic for its rows. The gateway
writes it (`serving/push_queries.py`). The pipeline process follows the topic (`PushWishes`), runs each query
into its own topic like any other query, and stops it when the wish is withdrawn (a record without a value) or
not renewed in time, because its gateway has died.

Rows are JSON objects by column name, without keys, in a topic of one partition; `rows_sink` is that topic as
a sink. A record with the header `headrace.end` ends the query; its value is the reason if it failed, and
empty otherwise. The gateway creates the topic before the wish, and deletes it at the end.

Invariant: a topic of rows belongs to one query, and its name is never used again.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from dataclasses import dataclass
from typing import Final

from headrace.client.cluster import Cluster
from headrace.client.reading import TopicReader
from headrace.client.topics import COMPACTED
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, Source
from headrace.pipeline.statements.tree import SourceKind

_log = logging.getLogger(__name__)

WISHES_TOPIC: Final = "_push_queries"
ROWS_PREFIX: Final = "_push_rows_"
END_HEADER: Final = "headrace.end"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushWish:
    """`alive_until`, in milliseconds since 1970: the wish is valid until then, unless it is renewed."""

    id: str
    statement: str
    properties: tuple[tuple[str, str], ...]
    topic: str
    alive_until: int


def encode_wish(wish: PushWish) -> bytes:
    return json.dumps(dataclasses.asdict(wish)).encode()


def decode_wish(value: bytes) -> PushWish | None:
    """None if the value is not a wish."""
    try:
        content = json.loads(value)
        properties = tuple((name, text) for name, text in content.pop("properties"))
        return PushWish(properties=properties, **content)
    except (ValueError, TypeError, KeyError):
        return None


def rows_sink(topic: str, columns: tuple[Column, ...]) -> Source:
    """Where the rows of a wish go: all columns in the value, in JSON."""
    return Source(
        name=topic,
        kind=SourceKind.STREAM,
        topic=topic,
        key=(),
        value=columns,
        key_encoding=Encoding(format=Format.NONE),
        value_encoding=Encoding(format=Format.JSON),
    )


class PushWishes:
    """The running side: the valid wishes. For one thread."""

    def __init__(self, cluster: Cluster) -> None:
        ensure_wishes_topic(cluster)
        self._cluster = cluster
        self._reader = TopicReader(cluster.bootstrap, WISHES_TOPIC, 1, from_beginning=True)
        self._known: dict[str, PushWish] = {}

    def poll(self, timeout: float, now_ms: int | None = None) -> dict[str, PushWish]:
        """Read new records, and return the valid wishes by id."""
        for record in self._reader.poll(timeout):
            key, value = (record.key() or b"").decode(), record.value()
            wish = decode_wish(value) if value is not None else None
            if wish is None:
                self._known.pop(key, None)
            else:
                self._known[key] = wish
        now = now_ms if now_ms is not None else time.time_ns() // 1_000_000
        return {name: wish for name, wish in self._known.items() if wish.alive_until > now}

    def end(self, wish: PushWish, reason: str) -> None:
        """Tell the asking side, if it is still there, that no more rows will come, and why."""
        try:
            # Writing to a deleted topic would wait in vain for it to appear.
            if self._cluster.topic(wish.topic) is not None:
                self._cluster.produce(wish.topic, None, reason.encode(), headers=((END_HEADER, b""),))
        except HeadraceError as error:
            _log.warning("the end of the push query %s could not be sent: %s", wish.id, error)

    def close(self) -> None:
        self._reader.close()


def ensure_wishes_topic(cluster: Cluster) -> None:
    cluster.create_topic(WISHES_TOPIC, partitions=1, config=COMPACTED)
