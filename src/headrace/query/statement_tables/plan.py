"""A table of the statement language for one question: a value that the query process makes and a worker
follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.pipeline.catalogue.catalogue import Source
from headrace.query.topic_tables.plan import TopicPlan

# The schema that these tables are in, as in `FROM "table".views`.
TABLE_SCHEMA: Final = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTablePlan:
    """`name` is as in the statement, which has the schema, too, if it is `qualified`."""

    name: str
    qualified: bool
    source: Source
    topic: TopicPlan
