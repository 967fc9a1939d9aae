"""Runs the queries of the catalogue, and push queries while they are read.

`reconcile` is called repeatedly and never waits: it compares the wanted queries with the running ones, and
starts, stops or replaces queries. It depends only on the statement log and the wishes, so after a restart all
queries run again, each from where it was.

Invariants: each query has one keeper, named by its id. Commits, checkpoints and status of a removed query are
deleted, the status last: whoever sees that it is gone knows that it writes no more. A paused or replaced
query continues from where it was. A statement that cannot be planned is
reported as failed and does not affect others; it is retried when its statement or the catalogue changes.
Never changes the catalogue.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, Source, StartPositions
from headrace.pipeline.catalogue.push_wishes import PushWish, rows_sink
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.rules.modes import REAL_TIME
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.synced_topics import synced_topics
from headrace.pipeline.spark.fair_turns import half_of_the_cores, pace_ms
from headrace.pipeline.spark.keeper import PlanListener, QueryKeeper, StatusListener
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.query_schemas import SchemaRegistry
from headrace.pipeline.spark.turns import Turns

logger = logging.getLogger(__name__)

EARLIEST: Final = "earliest"
_OFFSET_RESET: Final = "auto.offset.reset"


class Statements(Protocol):
    """The part of the statement log that the runner uses."""

    @property
    def catalogue(self) -> Catalogue: ...


class Wishes(Protocol):
    """The part of the push queries that the runner uses."""

    def poll(self, timeout: float) -> dict[str, PushWish]: ...

    def end(self, wish: PushWish, reason: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One wanted query; it is replaced if any of these fields change."""

    id: str
    statement: str
    properties: tuple[tuple[str, str], ...]
    wish: PushWish | None = None
    # The same statement can mean more than before: `SELECT *` of a source with new columns.
    found: tuple[Source, ...] = ()
    start: StartPositions | None = None


class _Running(NamedTuple):
    asked: Asked
    query: PlanQuery
    keeper: QueryKeeper


class _Known(NamedTuple):
    """A query that runs or has run; None if it has not been planned since the start of the process."""

    query: PlanQuery | None
    is_pushed: bool = False


class StatementRunner:
    """The keepers of all queries of a pipeline process, except the lake's."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        statements: Statements,
        wishes: Wishes,
        registry: SchemaRegistry,
        cluster: Cluster,
        commits: CommitLog,
        on_status: StatusListener,
        wall_clock_ms: Callable[[], int],
        on_plan: PlanListener = lambda _: None,
        on_gone: Callable[[str], None] = lambda _: None,
        other_queries: Callable[[], frozenset[str]] = frozenset,
        turns: Turns | None = None,
    ) -> None:
        """`other_queries` are those of the process that no statement made: what is kept of them stays."""
        self._spark = spark
        self._settings = settings
        self._statements = statements
        self._wishes = wishes
        self._registry = registry
        self._cluster = cluster
        self._commits = commits
        self._has_reconciled = False
        self._on_status = on_status
        self._on_plan = on_plan
        self._on_gone = on_gone
        self._wall_clock_ms = wall_clock_ms
        self._other_queries = other_queries
        self._running: dict[str, _Running] = {}
        # All of which there may be a status, commits or checkpoints.
        self._known: dict[str, _Known] = {}
        # Queries that could not be planned, and with which catalogue.
        self._refused: dict[str, tuple[Asked, Catalogue]] = {}
        self._turns = turns or Turns(half_of_the_cores())

    @property
    def keepers(self) -> tuple[QueryKeeper, ...]:
        return tuple(each.keeper for each in self._running.values())

    def reconcile(self) -> None:
        """Have a keeper for each wanted query, and no others."""
        catalogue = self._statements.catalogue
        asked = {each.id: each for each in self._asked(catalogue)}
        if not self._has_reconciled:
            # Of queries that were removed while no pipeline was running.
            kept = {*catalogue.queries, *asked, *self._other_queries()}
            for query_id in self._commits.forget_all_but(kept):
                self._on_gone(query_id)
            self._has_reconciled = True
        for query_id, running in list(self._running.items()):
            if asked.get(query_id) != running.asked or query_id in self._refused:
                running.keeper.stop()
                del self._running[query_id]
        for query_id in [known for known in self._refused if known not in asked]:
            del self._refused[query_id]
        for query_id in catalogue.queries:
            # Also one that is paused.
            self._known.setdefault(query_id, _Known(None))
        # A paused or replaced query continues from where it was; a removed one never returns.
        for query_id in [known for known in self._known if known not in {*catalogue.queries, *asked}]:
            self._forget(query_id, self._known.pop(query_id))
        for query_id, each in asked.items():
            refused = self._refused.get(query_id)
            # A client that was told that there will be no rows does not wait for them.
            again = refused is None or (each.wish is None and refused != (each, catalogue))
            if query_id not in self._running and again:
                self._begin(each, catalogue)

    def stop(self) -> None:
        for running in self._running.values():
            running.keeper.stop()
        self._running.clear()

    def _asked(self, catalogue: Catalogue) -> list[Asked]:
        kept = [
            Asked(
                id=query.id,
                statement=query.statement,
                properties=query.properties,
                found=query.found_sources,
                start=query.start,
            )
            for query in catalogue.queries.values()
            if not query.paused
        ]
        # Renewing a wish does not change the query.
        pushed = [
            Asked(
                id=wish.id,
                statement=wish.statement,
                properties=wish.properties,
                wish=dataclasses.replace(wish, alive_until=0),
            )
            for wish in self._wishes.poll(0).values()
        ]
        return kept + pushed

    def _forget(self, query_id: str, known: _Known) -> None:
        if known.query is None:
            self._commits.forget(query_id)
        else:
            if not known.is_pushed:
                known.query.fall_silent()
            known.query.forget()
        if not known.is_pushed:
            self._on_gone(query_id)

    def _begin(self, asked: Asked, catalogue: Catalogue) -> None:
        try:
            query = self._query(asked, catalogue)
        except HeadraceError as error:
            self._refuse(asked, catalogue, str(error))
            return
        except Exception as error:
            # A bug in planning one statement must not end the process, and with it all queries.
            logger.exception("Query %s cannot be planned.", asked.id)
            self._refuse(asked, catalogue, f"It cannot be planned: {error!r}")
            return
        self._refused.pop(asked.id, None)
        keeper = QueryKeeper(
            query,
            cluster=self._cluster,
            on_status=self._on_status if asked.wish is None else self._heard_of(asked, catalogue),
            wall_clock_ms=self._wall_clock_ms,
            on_plan=self._on_plan if asked.wish is None else lambda _: None,
        )
        self._running[asked.id] = _Running(asked, query, keeper)
        self._known[asked.id] = _Known(query, is_pushed=asked.wish is not None)

    def _heard_of(self, asked: Asked, catalogue: Catalogue) -> StatusListener:
        """A push query that fails is not retried: its client is told."""

        def heard(status: QueryStatus) -> None:
            if status.state == "FAILED" and asked.id not in self._refused:
                self._refuse(asked, catalogue, status.message)

        return heard

    def _query(self, asked: Asked, catalogue: Catalogue) -> PlanQuery:
        plan = plan_again(asked.statement, asked.id, catalogue)
        synced = frozenset[str]()
        if asked.wish is None:
            synced = synced_topics(plan, catalogue)
        else:
            plan = dataclasses.replace(plan, sink=rows_sink(asked.wish.topic, plan.sink.columns))
        return PlanQuery(
            self._spark,
            plan,
            self._settings,
            self._registry,
            query_id=asked.id,
            free_slots=self._free_slots,
            pace=self._pace,
            turns=self._turns,
            commits=self._commits,
            starting_offsets=dict(asked.properties).get(_OFFSET_RESET, "latest"),
            start=asked.start,
            synced_topics=synced,
        )

    def _pace(self) -> int:
        return pace_ms(sum(keeper.mode != REAL_TIME for keeper in self.keepers))

    def _free_slots(self) -> int:
        held = sum(keeper.slots_held for keeper in self.keepers)
        return self._settings.pipeline_slots - held

    def _refuse(self, asked: Asked, catalogue: Catalogue, reason: str) -> None:
        self._refused[asked.id] = (asked, catalogue)
        logger.error("Query %s cannot run: %s", asked.id, reason)
        if asked.wish is not None:
            self._wishes.end(asked.wish, reason)
            return
        self._on_status(
            QueryStatus(query=asked.id, state="FAILED", mode="", message=reason, at=self._wall_clock_ms())
        )
