"""The headers of a dead letter, that is, of a record in `<topic>_dlq`.

Its key and value are those of a record that could not be read, or whose result could not be written, byte
for byte. A result of several records has an entry of its own: the row as JSON, without `headrace-read-from`.
The headers, UTF-8 text:

| header | meaning |
|---|---|
| `headrace-error` | why it could not be read or written |
| `headrace-query` | the id of the query that could not read or write it |
| `headrace-position` | where its statement names the source: `line 3, column 8`; none for the lake's query |
| `headrace-read-from` | the record itself: `<topic>/<topic id>/<partition>/<offset>` |
| `headrace-attempts` | how often it has failed: 1, or more if a repaired record failed again |
| `headrace-original-<name>` | a header `<name>` of the record, unchanged |

It also has the headers of every derived record (`coordinates.py`). A record that was repaired and sent back
to its source has `headrace-repaired-from` (`<dead-letter topic>/<partition>/<offset>`), and in
`headrace-attempts` how often it had failed by then.

Never reads or writes a topic: `pipeline/spark/` writes dead letters, `dead_letters/` reads and repairs
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QUERY_HEADER: Final = "headrace-query"
POSITION_HEADER: Final = "headrace-position"
READ_FROM_HEADER: Final = "headrace-read-from"
ATTEMPTS_HEADER: Final = "headrace-attempts"
REPAIRED_FROM_HEADER: Final = "headrace-repaired-from"
ORIGINAL_PREFIX: Final = "headrace-original-"

DEAD_LETTER_SUFFIX: Final = "_dlq"


def dead_letter_topic(topic: str) -> str:
    """The topic for a topic's unreadable records."""
    return topic + DEAD_LETTER_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """Where a record is, and in which incarnation of its topic. No part contains a slash."""

    topic: str
    topic_id: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.topic_id}/{self.partition}/{self.offset}"


def parse_place(text: str) -> RecordPlace:
    """The inverse of `str`. Raises ValueError on anything else."""
    parts = text.split("/")
    if len(parts) != 4:
        raise ValueError(f"a place must have four parts, not {len(parts)}: {text!r}")
    topic, topic_id, partition, offset = parts
    return RecordPlace(topic=topic, topic_id=topic_id, partition=int(partition), offset=int(offset))
