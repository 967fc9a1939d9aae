"""Carries out repairs (`catalogue/repairs.py`): a query reads exactly the given records of its source again.

For a query that keeps no state: one batch of its own plan over these records, whose results have the same
identities as if they had been derived in time. For a table of the lake: its query is stopped meanwhile,
because there is only one writer of a table; every row is looked up in the table before it is written.

Left out, so that nothing is written twice, whatever has happened since the wish:

- what the query has yet to pass, according to its newest commit: its run derives that itself;
- what the sinks have of the records by now; the wish says from where on that can be.

A run that starts later from an older commit finds the repaired records as its own: a commit from before them
has a `sinks_from` from before the repair.

Crash behaviour: a repair that is interrupted is carried out again and finds what is there. Belongs to the
thread of the pipeline process; takes seconds, in which no query is started or restarted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_message_bytes
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery
from headrace.pipeline.catalogue.repairs import Repair
from headrace.pipeline.plan import QueryPlan, is_stateful, reads_of
from headrace.pipeline.rules.modes import MICRO_BATCH, Mode
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.reading_back import read_back
from headrace.pipeline.runs.stretches import Stretch, joined, number_of, places_of, within
from headrace.pipeline.spark.given_records import GivenRecords
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.producers import new_client_id, silence
from headrace.pipeline.spark.query_schemas import QuerySchemas, SchemaRegistry
from headrace.pipeline.spark.sink_limits import limits_of
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.sink import PRODUCER, sink_records
from headrace.pipeline.statements.tree import SourceKind

logger = logging.getLogger(__name__)

# How long records of a former repair that was cut off may be on their way to the log.
_SETTLE_SECONDS: Final = 1.0
_MODE: Final = Mode(name=MICRO_BATCH, reason="a repair is one batch")
# The query may run meanwhile, so the producers of repairs have client ids of their own.
_PART: Final = "-repair"
_ASK_AGAIN: Final = "Run `headrace reconcile` again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What of a wish is still to be done, and why the rest is not."""

    stretches: Sequence[Stretch]
    remark: str


class Repairs:
    """Carries out repairs. `stopped_table` gives the query of that id into a table of the lake, whose run it
    stops until its next tick; None if there is no such query.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        cluster: Cluster,
        commits: CommitLog,
        registry: SchemaRegistry,
        catalogue: Callable[[], Catalogue],
        stopped_table: Callable[[str], TableQuery | None],
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._cluster = cluster
        self._commits = commits
        self._registry = registry
        self._catalogue = catalogue
        self._stopped_table = stopped_table

    def carry_out(self, repair: Repair) -> Repair:
        """The answer."""
        logger.info(
            "repairing %s: %d records, %d double rows",
            repair.query,
            number_of(repair.stretches),
            len(repair.doubles),
        )
        try:
            table = self._stopped_table(repair.query)
            return self._into_topics(repair) if table is None else self._into_table(table, repair)
        except Exception as error:
            # What one repair meets must not end the queries.
            logger.exception("The repair of %s failed.", repair.query)
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            return repair.answered("FAILED", message=reason)

    def _into_topics(self, repair: Repair) -> Repair:
        known = self._catalogue()
        asked = known.queries.get(repair.query)
        if asked is None:
            raise HeadraceError("query_failed", f"There is no query {repair.query}.", remedy=_ASK_AGAIN)
        plan = plan_again(asked.statement, asked.id, known)
        _refuse_what_cannot_be_repeated(repair.query, plan)
        query = PlannedQuery(name=asked.id, plan=plan, settings=self._settings)
        topics = self._topics(query.name, query.source_topics, query.written_topics, repair)
        session = self._spark.newSession()
        time.sleep(self._unsettled_seconds(session, query.name, _PART))
        passed = self._passed(asked, topics[plan.sink.topic], repair)
        sinks = [topics[name] for name in query.written_topics]
        left = self._left(query.name, topics[query.source_topics[0]], sinks, repair, passed)
        if left.stretches:
            schemas = QuerySchemas(self._registry)
            inputs = TopicInputs(query, schemas, session, topics, _MODE)
            self._derive(query, inputs, schemas, left.stretches)
        return repair.answered("DONE", changed=number_of(left.stretches), message=left.remark)

    def _passed(self, query: PersistentQuery, sink: TopicIdentity, repair: Repair) -> Mapping[int, int]:
        """How far the query has got in its source; nothing if its newest commit is of a former statement, or
        of a former incarnation of its sink.
        """
        history = self._commits.history(query.id)
        statement = query.start.statement if query.start is not None else ""
        newest = history.newest
        if newest is None or history.statement != statement or sink.topic_id not in newest.sinks_to:
            return {}
        return newest.positions.get(repair.topic_id, {})

    def _derive(
        self, query: PlannedQuery, inputs: TopicInputs, schemas: QuerySchemas, stretches: Sequence[Stretch]
    ) -> None:
        plan = query.plan
        first = reads_of(plan.root)[0]
        records = sink_records(
            built(plan.root, GivenRecords(inputs, stretches, self._settings.bootstrap)),
            plan.sink,
            topic=inputs.topics[plan.sink.topic],
            keys=schemas.writer(plan.sink, "key"),
            values=schemas.writer(plan.sink, "value"),
            dead_letter_topic=query.dead_letter_topics[first.source.topic],
            read=first,
            query=query.name,
            limits=limits_of(query)[first.source.topic],
        )
        options: dict[str, Any] = {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.client.id": new_client_id(query.name, _PART),
            "kafka.max.request.size": str(derived_message_bytes(self._settings)),
            **PRODUCER,
        }
        records.write.format("kafka").options(**options).save()

    def _into_table(self, query: TableQuery, repair: Repair) -> Repair:
        topics = self._topics(query.name, query.source_topics, query.written_topics, repair)
        table = query.repair(topics)
        if repair.doubles:
            return repair.answered("DONE", changed=table.without_doubles(repair.doubles))
        sinks = [topics[name] for name in query.written_topics]
        left = self._left(query.name, topics[query.source_topics[0]], sinks, repair, table.positions)
        changed = table.write(left.stretches) if left.stretches else 0
        return repair.answered("DONE", changed=changed, message=left.remark)

    def _topics(
        self, query: str, sources: Sequence[str], written: Sequence[str], repair: Repair
    ) -> Mapping[str, TopicIdentity]:
        names = (*sources, *written)
        topics = self._cluster.lookup(names)
        gone = [name for name in names if name not in topics]
        if gone:
            raise HeadraceError(
                "query_failed", f"Topic {gone[0]} of query {query} was deleted.", remedy=_ASK_AGAIN
            )
        source = topics[sources[0]]
        if source.topic_id != repair.topic_id:
            raise HeadraceError(
                "query_failed",
                f"Topic {source.name} of query {query} was recreated: its records are others now.",
                remedy=_ASK_AGAIN,
            )
        return topics

    def _unsettled_seconds(self, session: SparkSession, query: str, part: str) -> float:
        """How long records of former repairs, or of a run that was stopped, may still be on their way."""
        if silence(session, query, part):
            self._commits.cut_off(query)
        return max(_SETTLE_SECONDS - self._commits.silent_seconds(query), 0.0)

    def _left(
        self,
        query: str,
        source: TopicIdentity,
        sinks: Sequence[TopicIdentity],
        repair: Repair,
        passed: Mapping[int, int],
    ) -> Left:
        """`passed` is how far the query has got in its source."""
        there = within(repair.stretches, self._cluster.stretches([source]).get(source.name, {}))
        missing = within(there, {partition: (0, end) for partition, end in passed.items()})
        written = read_back(
            self._settings.bootstrap,
            query=query,
            sinks=sinks,
            sinks_from=repair.sinks_from,
            ends=self._cluster.latest(sinks),
            positions={repair.topic_id: dict.fromkeys(passed, 0)},
        ).written.get(repair.topic_id, {})
        left = joined(
            (partition, offset)
            for partition, offset in places_of(missing)
            if partition not in written or not written[partition].has(offset, 0)
        )
        asked, kept, ours = number_of(repair.stretches), number_of(there), number_of(missing)
        reasons = (
            (asked - kept, "expired in the source"),
            (kept - ours, "to be read by the query itself"),
            (ours - number_of(left), "there by now"),
        )
        return Left(stretches=left, remark=", ".join(f"{count} {why}" for count, why in reasons if count))


def _refuse_what_cannot_be_repeated(query: str, plan: QueryPlan) -> None:
    if is_stateful(plan):
        why = "keeps state: its rows come from many records, and reading some of them again would count twice"
    elif plan.sink.kind is SourceKind.TABLE:
        why = "writes a table: an older row that is written now would replace a newer one"
    else:
        return
    raise HeadraceError(
        "query_failed",
        f"Query {query} {why}.",
        remedy=f"To derive all of its rows again, delete topic {plan.sink.topic}: "
        "the query recreates it and begins where its statement did.",
    )
