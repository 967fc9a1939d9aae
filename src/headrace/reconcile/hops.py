"""The steps of an event's way, and what of each can be compared by coordinates.

Pure: made from plans, without looking at the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.plan import (
    Aggregate,
    Explode,
    Filter,
    QueryPlan,
    StreamJoin,
    TableJoin,
    TableLookup,
    reads_of,
    steps_of,
)
from headrace.pipeline.statements.queries import JoinKind
from headrace.pipeline.statements.tree import SourceKind


class Relation(Enum):
    """What a query makes of one source record."""

    # Exactly one record or one dead letter: a source record without either is missing.
    ONE = "one"
    # Any number of records, each with the coordinates of its source: doubles can be found.
    ANY = "any"
    # Its records come from many source records.
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryHop:
    """From the topic whose records become results to the topic of the results. `reason` says what the
    relation comes from, unless it is `ONE`.
    """

    query: str
    source: str
    sink: str
    relation: Relation
    reason: str = ""

    @property
    def dead_letters(self) -> str:
        return dead_letter_topic(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeHop:
    """From a topic to a table in a folder of this machine: each record becomes one row or one dead letter.

    `drops` says why some records become neither; empty if all do.
    """

    query: str
    source: str
    table: str
    folder: Path
    dead_letters: str
    drops: str = ""


def hop_of(query: str, plan: QueryPlan) -> QueryHop:
    relation, reason = _relation(plan)
    # In a look-up the stream, whose records become results, comes first.
    first = reads_of(plan.root)[0]
    return QueryHop(
        query=query, source=first.source.topic, sink=plan.sink.topic, relation=relation, reason=reason
    )


def _relation(plan: QueryPlan) -> tuple[Relation, str]:
    found = (Relation.ONE, "")
    for step in steps_of(plan.root):
        match step:
            case Aggregate():
                return Relation.STATE, "an aggregate comes from many records"
            case StreamJoin():
                return Relation.STATE, "a row of a join of streams comes from two records"
            case TableJoin():
                return Relation.STATE, "a row of a join of tables comes from two records"
            case Filter():
                found = (Relation.ANY, "its WHERE drops records")
            case Explode():
                found = (Relation.ANY, "its table functions make any number of records of one")
            case TableLookup() if step.kind is not JoinKind.LEFT:
                found = (Relation.ANY, "its join drops records without a match")
            case _:
                pass
    if reads_of(plan.root)[0].source.kind is SourceKind.TABLE:
        return Relation.ANY, "records of a table without a key are skipped"
    return found
