"""Which records a table of plain files has, when its newest commit alone does not say it.

Rows of plain files have no coordinates, so they cannot be looked up. But a record of the topic that lies
before the newest positions was read: it is a row, or a dead letter, or was dropped on purpose. So if the
topic or the dead letters came back shorter, and a run reads from older positions, it skips the records before
the newest ones (`read` bounds).

A record that was *derived* from another topic (it has our source header) may come again under another offset:
a statement writes again what its topic lost. Only coordinates in the rows could tell. So in a topic that came
back shorter or was recreated, derived records are refused: nothing is doubled or lost, and the error says
what to do. Records without such a header are new if their offset is.

Both are kept with the positions, as bounds whose queries no statement can have: `*` with the last offset of a
partition that was read, `?` with the topic whose derived records are refused. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.positions import Offsets, Position, Progress, Source
from headrace.lake.resuming import TopicNow, shorter_partitions

_READ: Final = "*"
_REFUSED: Final = "?"
_NO_PARTITION: Final = -1


def resumed(progress: Progress, newest: Progress | None, topic: TopicNow) -> Progress:
    """Where a run goes on: `progress`, as `resuming.py` tells it, with bounds. `newest` is what the newest
    commit says, None if none says anything.
    """
    bounds = dict(newest.bounds) if newest is not None else {}
    if newest is not None and newest.positions.topic_id:
        if newest.positions.topic_id != topic.topic_id:
            bounds[_refused(topic.topic_id)] = Position(offset=0, ordinal=0)
        else:
            if shorter_partitions(topic, newest.positions.offsets):
                bounds[_refused(topic.topic_id)] = Position(offset=0, ordinal=0)
            for number, end in newest.positions.offsets.items():
                source = Source(query=_READ, topic_id=topic.topic_id, partition=number)
                bounds[source] = max(Position(offset=end - 1, ordinal=0), bounds.get(source, _NOWHERE))
    positions = progress.positions.offsets
    needed = {
        source: position
        for source, position in bounds.items()
        if source.topic_id == topic.topic_id
        and (source.query != _READ or position.offset >= positions.get(source.partition, 0))
    }
    return dataclasses.replace(progress, bounds=needed)


def read_before(bounds: Mapping[Source, Position]) -> Offsets:
    """By partition, the offset before which all records were read already."""
    return {
        source.partition: position.offset + 1 for source, position in bounds.items() if source.query == _READ
    }


def refuses_derived(bounds: Mapping[Source, Position]) -> bool:
    """Whether it cannot be told if the table has a derived record."""
    return any(source.query == _REFUSED for source in bounds)


def undecidable(table: str, topic: str) -> HeadraceError:
    return HeadraceError(
        "lake_unsupported",
        f"Topic {topic} was recreated, or came back with fewer records than table {table} has read. Its "
        "records are derived by a statement, which may have written some of them again, and the rows of "
        "plain files do not say which records they are.",
        remedy="Move the table's folder away, so that the connector writes it again from what the topic has; "
        "or use table.format=delta, whose rows can be looked up.",
    )


_NOWHERE: Final = Position(offset=-1, ordinal=0)


def _refused(topic_id: str) -> Source:
    return Source(query=_REFUSED, topic_id=topic_id, partition=_NO_PARTITION)
