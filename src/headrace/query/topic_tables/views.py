"""The topics of a question as views in a worker's database: `topic."events"`.

Owns the schema `topic` and the schemas of records that were asked for. Invariants: the views of a question
are gone before the next one; what was read of a topic is known at its end. Belongs to one thread.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import duckdb

from headrace.core.errors import HeadraceError
from headrace.query.table_snapshot import quoted
from headrace.query.topic_tables.columns import view_of
from headrace.query.topic_tables.dataset import TopicDataset
from headrace.query.topic_tables.plan import TOPIC_SCHEMA, TopicPlan
from headrace.query.topic_tables.reading import Allowance
from headrace.query.topic_tables.rows import TopicRows, fields_of
from headrace.query.topic_tables.schemas import Schemas


class TopicViews:
    """Of one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, megabytes: int, seconds: float) -> None:
        self._connection = connection
        self._megabytes = megabytes
        self._seconds = seconds
        self._schemas = Schemas()
        self._shown: dict[str, tuple[TopicPlan, TopicDataset]] = {}
        self._allowance: Allowance | None = None
        self._has_schema = False

    def show(self, plans: Iterable[TopicPlan]) -> None:
        """Make the views of a question."""
        self._allowance = Allowance(megabytes=self._megabytes, seconds=self._seconds)
        for number, plan in enumerate(plans):
            self._schemas.learn(plan.registry_url, plan.schemas)
            fields = fields_of(plan.schemas.get(plan.newest))
            rows = TopicRows(fields, functools.partial(self._schemas.by_id, plan.registry_url))
            dataset = TopicDataset(plan, rows, self._allowance)
            if not self._has_schema:
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {TOPIC_SCHEMA}")
                self._has_schema = True
            relation = f"records/{number}"
            self._connection.register(relation, dataset)
            self._shown[plan.name] = (plan, dataset)
            self._connection.execute(
                f"CREATE OR REPLACE VIEW {TOPIC_SCHEMA}.{quoted(plan.name)} AS {view_of(relation, fields)}"
            )

    def forget(self) -> None:
        """Before the next question."""
        for number, name in enumerate(list(self._shown)):
            self._connection.execute(f"DROP VIEW IF EXISTS {TOPIC_SCHEMA}.{quoted(name)}")
            self._connection.unregister(f"records/{number}")
        self._shown.clear()

    @property
    def allowance(self) -> Allowance:
        """That of the question."""
        if self._allowance is None:
            raise RuntimeError("no question was shown its topics")
        return self._allowance

    def schema_at(self, url: str, schema_id: int) -> str | None:
        """The text of a schema, if the registry there has it, in Avro. Raises log_unavailable."""
        return self._schemas.by_id(url, schema_id)

    @property
    def failure(self) -> HeadraceError | None:
        """Why a scan has failed; DuckDB passes on its text only."""
        return self._allowance.failure if self._allowance is not None else None

    def summaries(self) -> list[Mapping[str, object]]:
        """What was read of each topic, for whoever asked."""
        found: list[Mapping[str, object]] = []
        for plan, dataset in self._shown.values():
            notes = dataset.notes
            found.append(
                {
                    "topic": plan.topic.name,
                    "offsets": {str(number): list(ends) for number, ends in plan.stretches.items()},
                    "read": {str(number): list(ends) for number, ends in notes.stretches.items()},
                    "records": notes.rows,
                    "bytes": notes.bytes_read,
                }
            )
        return found
