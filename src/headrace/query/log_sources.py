"""What a question reads of the log itself: topics, and tables of the statement language.

Invariant: everything that one question names ends where the log ended at one moment. Thread-safe; every
method may block for some seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Source
from headrace.query.statement_tables.plan import StatementTablePlan
from headrace.query.topic_tables.plan import TopicPlan
from headrace.query.topic_tables.planning import TopicPlanner


class NamedSources(Protocol):
    """The tables of the statement language."""

    def named(self, names: Collection[str]) -> dict[str, Source]:
        """Those that there are. Raises HeadraceError."""
        ...


class LogSources:
    """Of one platform."""

    def __init__(self, topics: TopicPlanner, tables: NamedSources) -> None:
        self._topics = topics
        self._tables = tables

    def plan(
        self, *, topics: Collection[str], tables: Collection[str], perhaps: Collection[str]
    ) -> tuple[list[TopicPlan], list[StatementTablePlan]]:
        """`tables` must be there, names in `perhaps` need not be. Raises no_such_topic, no_such_table,
        log_unavailable.
        """
        if not (topics or tables or perhaps):
            return [], []
        sources = self._tables.named({*tables, *perhaps}) if tables or perhaps else {}
        for name in tables:
            if name not in sources:
                raise HeadraceError(
                    "no_such_table",
                    f"There is no table `{name}` of the statement language.",
                    remedy="`SHOW TABLES;` as a statement lists them.",
                )
        wanted = {*topics, *(source.topic for source in sources.values())}
        plans = {plan.name: plan for plan in self._topics.plan(wanted, with_schemas=topics)} if wanted else {}
        qualified = [(name, True) for name in tables]
        plain = [(name, False) for name in perhaps if name in sources]
        return [plans[name] for name in topics], [
            StatementTablePlan(
                name=name,
                qualified=is_qualified,
                source=sources[name],
                topic=plans[sources[name].topic],
            )
            for name, is_qualified in (*qualified, *plain)
        ]
