"""How far a table has read its topic: what a commit of the lake says besides its rows.

A commit's `userMetadata` has, as JSON:

    {"headrace": 2,
     "positions": {"<topic id>": {"0": 18255, …}},
     "dead_letters_from": {"<topic id>": {"0": 17, …}}, "dead_letters_to": {"<topic id>": {"0": 19, …}},
     "bounds": [["query", "source topic id", 3, 990, 0], …],
     "reads": {"value": "<schema of Spark>", "key": "<schema of Spark>"}}

- `positions`: the next offset of each partition of the topic. Every record before it is in the table, or in
  the dead letters, or was there already; no record from it on is in the table. Rows and positions are one
  commit, so that holds whatever crashes.
- `dead_letters_from`, `dead_letters_to`: the dead letters of records before the positions lie below the
  second in the dead-letter topic; those of later records lie at or above the first.
- `bounds`: the highest position of each source (query, source topic id, partition) at a time when the
  positions did not say what the table has: the topic was recreated or came back shorter, or somebody else
  wrote to the table. A row above its source's bound is certainly new. A row at or below it is a *suspect*,
  which is looked up by its source coordinates, in the table and in the batch. Without bounds nothing is
  looked up.
- `reads`: as what the run reads records before it transforms them (`read_columns.py`), if it does.

Pure values: no file, no Spark, no clock.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.lake.read_columns import ReadColumns, read_columns

_FORMAT: Final = 2

# Partition → offset.
Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """The position of a row in its source."""

    offset: int
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One partition of one source, as one query reads it."""

    query: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Offsets in the partitions of one incarnation of a topic."""

    topic_id: str = ""
    offsets: Offsets = field(default_factory=dict)

    def of(self, topic_id: str) -> Offsets:
        """The offsets if they are of that incarnation, otherwise none."""
        return self.offsets if topic_id == self.topic_id else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one commit says; without values, that of an empty table."""

    positions: Reached = field(default_factory=Reached)
    dead_letters_from: Reached = field(default_factory=Reached)
    dead_letters_to: Reached = field(default_factory=Reached)
    bounds: Mapping[Source, Position] = field(default_factory=dict)
    reads: ReadColumns | None = None

    def at(self, positions: Reached) -> Progress:
        return dataclasses.replace(self, positions=positions)

    def advanced(self, highest: Mapping[int, int]) -> Progress:
        """After a batch whose highest offsets these are. A position never falls."""
        offsets = dict(self.positions.offsets)
        for partition, offset in highest.items():
            offsets[partition] = max(offsets.get(partition, 0), offset + 1)
        return self.at(Reached(topic_id=self.positions.topic_id, offsets=offsets))

    def begun(self, starts: Offsets) -> Progress:
        """With the beginning of each partition that has no position: what expired before is no gap."""
        offsets = {**starts, **self.positions.offsets}
        return self.at(Reached(topic_id=self.positions.topic_id, offsets=offsets))

    def with_dead_letters(self, *, begin: Reached, end: Reached) -> Progress:
        return dataclasses.replace(self, dead_letters_from=begin, dead_letters_to=end)

    def bounded(self, rows: Mapping[Source, Position]) -> Progress:
        """With the rows of the table as bounds; `rows` has the highest position of each source in it."""
        return dataclasses.replace(self, bounds=dict(rows))

    def reading(self, columns: ReadColumns | None) -> Progress:
        """Of a run that reads records so; None if its rows have the fields of their records."""
        return dataclasses.replace(self, reads=columns)

    def is_suspect(self, source: Source, position: Position) -> bool:
        """Whether only the rows of the table can tell if it has this row."""
        bound = self.bounds.get(source)
        return bound is not None and position <= bound

    def as_metadata(self) -> str:
        content: dict[str, Any] = {
            "headrace": _FORMAT,
            "positions": _as_json(self.positions),
            "dead_letters_from": _as_json(self.dead_letters_from),
            "dead_letters_to": _as_json(self.dead_letters_to),
            "bounds": [
                [source.query, source.topic_id, source.partition, position.offset, position.ordinal]
                for source, position in self.bounds.items()
            ],
        }
        if self.reads is not None:
            content["reads"] = self.reads.as_json()
        return json.dumps(content, separators=(",", ":"))


def progress_from_metadata(text: str | None) -> Progress | None:
    """The inverse of `as_metadata`; None if the text is not ours (someone else's commit)."""
    try:
        content: Any = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("headrace") != _FORMAT:
        return None
    return Progress(
        positions=_from_json(content["positions"]),
        dead_letters_from=_from_json(content["dead_letters_from"]),
        dead_letters_to=_from_json(content["dead_letters_to"]),
        bounds=_bounds(content["bounds"]),
        reads=read_columns(content.get("reads")),
    )


def _as_json(reached: Reached) -> dict[str, dict[str, int]]:
    if not reached.topic_id:
        return {}
    return {reached.topic_id: {str(number): offset for number, offset in sorted(reached.offsets.items())}}


def _from_json(content: Mapping[str, Mapping[str, int]]) -> Reached:
    for topic_id, offsets in content.items():
        return Reached(topic_id=topic_id, offsets={int(number): offset for number, offset in offsets.items()})
    return Reached()


def _bounds(content: Iterable[Any]) -> dict[Source, Position]:
    return {
        Source(query=query, topic_id=topic_id, partition=partition): Position(offset=offset, ordinal=ordinal)
        for query, topic_id, partition, offset, ordinal in content
    }
