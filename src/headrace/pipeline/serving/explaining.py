"""EXPLAIN: how a query runs, or would run. Two texts: our plan with its mode, and Spark's plan.

For running queries the pipeline process reports, through the log, the actual mode, which may be micro-batch
for lack of slots, and Spark's plan. For other queries the text has the mode that they would get now, and says
that there is no Spark plan: Spark plans each batch when it has its records, and EXPLAIN does not start a
query, which would read its topics. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery
from headrace.pipeline.catalogue.status import QueryStatus, SparkPlan
from headrace.pipeline.plan import PlanKind, QueryPlan, reads_of
from headrace.pipeline.rules.explaining import explain
from headrace.pipeline.rules.modes import mode_of
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.statements.errors import StatementError

# A query's state as ksqlDB names it.
_STATES: Final = {"WAITING": "RUNNING", "RUNNING": "RUNNING", "FAILED": "ERROR", "STOPPED": "PAUSED"}
_NOT_RUNNING: Final = "Spark's plan: none until the query runs; then EXPLAIN <its id> shows it."
_PULL: Final = "Spark's plan: none, as the gateway answers the query itself."
_PUSHED: Final = "Spark's plan: available only for persistent queries (CREATE … AS, INSERT INTO … SELECT)."
_WAITS: Final = "Spark's plan: none yet, as there were no records."


@dataclass(frozen=True, slots=True, kw_only=True)
class Explaining:
    settings: Settings
    # Statuses that the pipeline process reported.
    statuses: Callable[[], Iterable[QueryStatus]]
    # Spark's plan of the query with that id, if it was reported.
    spark_plan: Callable[[str], SparkPlan | None]

    def states(self) -> dict[str, str]:
        """States by query id, in ksqlDB's words."""
        return {status.query: _STATES[status.state] for status in self.statuses()}

    def of_statement(self, plan: QueryPlan) -> tuple[str, str]:
        text = explain(plan, full=True)
        if plan.kind is PlanKind.PULL:
            return f"mode: answered from the gateway's view of the table\n{text}", _PULL
        return f"{self._expected_mode(plan)}\n{text}", _NOT_RUNNING

    def of_pushed(self, plan: QueryPlan) -> tuple[str, str]:
        """For a running push query; the pipeline process reports only persistent ones."""
        return f"{self._expected_mode(plan)}\n{explain(plan, full=True)}", _PUSHED

    def of_query(self, query: PersistentQuery, catalogue: Catalogue) -> tuple[str, str]:
        try:
            plan = plan_again(query.statement, query.id, catalogue)
        except StatementError as error:
            # Accepted by an older version; the status from the pipeline process has the same error.
            return f"It could not be planned again: {error}", _NOT_RUNNING
        status = next((each for each in self.statuses() if each.query == query.id), None)
        mode = self._expected_mode(plan)
        if status is not None and status.state == "RUNNING":
            mode = f"mode: {status.mode}" + (f", as {status.mode_reason}" if status.mode_reason else "")
        return f"{mode}\n{explain(plan, full=True)}", self._spark(query, status)

    def _expected_mode(self, plan: QueryPlan) -> str:
        held = sum(status.slots for status in self.statuses())
        mode = mode_of(
            plan,
            partitions=reads_of(plan.root)[0].source.partitions,
            free_slots=self.settings.pipeline_slots - held,
            settings=self.settings,
        )
        return f"mode: would be {mode.name}, as {mode.reason}"

    def _spark(self, query: PersistentQuery, status: QueryStatus | None) -> str:
        if status is None or query.paused:
            return _NOT_RUNNING
        if status.state != "RUNNING":
            return f"Spark's plan: none, as the query is {status.state.lower()}: {status.message}"
        plan = self.spark_plan(query.id)
        if plan is None or not plan.text:
            return _WAITS
        return f"Spark's plan:\n{plan.text}"
