"""Source coordinates: where a derived record comes from, as a record header and as columns of the lake.

Format of the header `headrace-source`, UTF-8 text: `<query>/<source topic
id>/<partition>/<offset>/<ordinal>`, for example `csas_target_json/3Zk0c9mDQ8uJ1x5vX0qg5A/3/18254/0`. It has
the topic's *id*, not its name: a topic that is deleted and recreated is another source. The ordinal
distinguishes the records derived from one source record; it is 0 if there is only one. Neither a query's name
nor a topic id contains a slash.

A row of a query that keeps state (an aggregate, a join of streams or of tables) comes from many records. Its
header is `<query>/<checkpoint id>/batch/<batch number>/<origin>`: no source coordinates, and many rows of a
batch may have the same (`pipeline/spark/stateful/`). Such a row is identified by its place in its topic.

Never reads or writes a topic: the writers and readers of the header are in `pipeline/spark/` and `query/`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

SOURCE_HEADER: Final = "headrace-source"
POSTED_AT_HEADER: Final = "headrace-posted-at"
ERROR_HEADER: Final = "headrace-error"
# The time of a row in milliseconds, as text: Spark's Kafka sink cannot set a record's timestamp.
ROWTIME_HEADER: Final = "headrace-rowtime"

# Everything in a header behind the query: anybody can write one, so numbers have as many digits as fit an INT
# or a BIGINT. Java reads these patterns, too.
PLACE_PATTERN: Final = r"([^/]+)/([0-9]{1,9})/([0-9]{1,18})/([0-9]{1,9})"
SOURCE_PATTERN: Final = rf"([^/]*)/{PLACE_PATTERN}"
_SOURCE: Final = re.compile(SOURCE_PATTERN)
_BATCH: Final = "batch"
_BATCH_NUMBER: Final = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCoordinates:
    """Query, source topic id, partition, offset and ordinal of one derived record."""

    query: str
    topic_id: str
    partition: int
    offset: int
    ordinal: int

    def as_header(self) -> bytes:
        return f"{self.query}/{self.topic_id}/{self.partition}/{self.offset}/{self.ordinal}".encode()


def parse_source(header: bytes) -> SourceCoordinates:
    """The inverse of `as_header`. Raises ValueError on anything else."""
    found = _SOURCE.fullmatch(header.decode("utf-8"))
    if found is None:
        raise ValueError(f"not a source header: {header[:200]!r}")
    query, topic_id, partition, offset, ordinal = found.groups()
    return SourceCoordinates(
        query=query, topic_id=topic_id, partition=int(partition), offset=int(offset), ordinal=int(ordinal)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrigin:
    """The checkpoint and the batch that a row of a stateful query comes from."""

    query: str
    checkpoint: str
    batch: int

    def as_prefix(self) -> str:
        """The header without its last part, the origin of the row."""
        return f"{self.query}/{self.checkpoint}/{_BATCH}/{self.batch}/"


def parse_batch(header: bytes) -> BatchOrigin | None:
    """None if it is not the header of such a row."""
    parts = header.decode("utf-8", "replace").split("/")
    if len(parts) != 5 or parts[2] != _BATCH or not _BATCH_NUMBER.fullmatch(parts[3]):
        return None
    return BatchOrigin(query=parts[0], checkpoint=parts[1], batch=int(parts[3]))
