"""Lanes and marks: what the lake already contains, so that what arrives twice is written once.

A *lane* is (query, source topic id, source partition, partition of the topic that the lake reads). Source
offsets only increase along a lane, unless something upstream was repeated. The *mark* of a lane is its
highest position in the lake; a row at or below its lane's mark was written before and is dropped.

Marks belong to one *topic layout* (id and partition count of the topic that the lake reads). When that topic
is recreated with a different number of partitions, keys move, and a repeated record may arrive along another
lane. Then the old marks become *bounds*: the highest position per source partition across all its lanes. A
row above the bound is certainly new; a row at or below it but above its lane's mark is a *suspect*, which
must be looked up among the rows themselves. The same applies if the marks were computed from the rows, which
do not record the layout under which they arrived.

The rows are the truth. The JSON of `as_metadata`, kept in a commit's `userMetadata`, is a cache of it:

    {"headrace": 1, "layout": "<topic id>:<partitions>", "lanes": [["query", "topic id", 3, 0, 18254, 0], …],
     "bounds": [["query", "topic id", 3, 990, 0], …]}

Pure values: no file, no Spark, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """A position along a lane."""

    offset: int
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One partition of one source, as one query reads it."""

    query: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A source together with the partition of the topic that the lake reads."""

    source: Source
    topic_partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The highest position per lane of one layout, and the bounds left by older layouts."""

    layout: str = ""
    lanes: Mapping[Lane, Position] = field(default_factory=dict)
    bounds: Mapping[Source, Position] = field(default_factory=dict)

    def for_layout(self, layout: str) -> Marks:
        """The same knowledge under `layout`: unchanged if the marks already belong to it."""
        if layout == self.layout:
            return self
        bounds = dict(self.bounds)
        for lane, position in self.lanes.items():
            _raise_to(bounds, lane.source, position)
        return Marks(layout=layout, lanes={}, bounds=bounds)

    def advanced(self, highest: Mapping[Lane, Position]) -> Marks:
        """The marks after rows up to `highest` were written. A mark never decreases."""
        lanes = dict(self.lanes)
        for lane, position in highest.items():
            _raise_to(lanes, lane, position)
        return Marks(layout=self.layout, lanes=lanes, bounds=self.bounds)

    def holds(self, lane: Lane, position: Position) -> bool | None:
        """True: written before. False: certainly new. None: a suspect, only the rows can tell."""
        mark = self.lanes.get(lane)
        if mark is not None and position <= mark:
            return True
        bound = self.bounds.get(lane.source)
        return False if bound is None or position > bound else None

    def as_metadata(self) -> str:
        lanes = [
            [*_source_parts(lane.source), lane.topic_partition, *_position_parts(p)]
            for lane, p in self.lanes.items()
        ]
        bounds = [[*_source_parts(source), *_position_parts(p)] for source, p in self.bounds.items()]
        content = {"headrace": _FORMAT, "layout": self.layout, "lanes": lanes, "bounds": bounds}
        return json.dumps(content, separators=(",", ":"))


def marks_from_metadata(text: str | None) -> Marks | None:
    """The inverse of `as_metadata`; None if the text is not ours (someone else's commit)."""
    try:
        content: Any = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("headrace") != _FORMAT:
        return None
    lanes = {
        Lane(
            source=Source(query=query, topic_id=topic_id, partition=partition),
            topic_partition=topic_partition,
        ): Position(offset=offset, ordinal=ordinal)
        for query, topic_id, partition, topic_partition, offset, ordinal in content["lanes"]
    }
    bounds = {
        Source(query=query, topic_id=topic_id, partition=partition): Position(offset=offset, ordinal=ordinal)
        for query, topic_id, partition, offset, ordinal in content["bounds"]
    }
    return Marks(layout=content["layout"], lanes=lanes, bounds=bounds)


def marks_from_rows(highest: Mapping[Source, Position]) -> Marks:
    """What the rows alone reveal: bounds, since a row does not record the layout under which it arrived."""
    return Marks(bounds=dict(highest))


def _raise_to(positions: dict[Any, Position], key: Any, position: Position) -> None:
    known = positions.get(key)
    if known is None or position > known:
        positions[key] = position


def _source_parts(source: Source) -> tuple[str, str, int]:
    return source.query, source.topic_id, source.partition


def _position_parts(position: Position) -> tuple[int, int]:
    return position.offset, position.ordinal
