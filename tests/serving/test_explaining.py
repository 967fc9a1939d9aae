"""EXPLAIN: our plan with positions, the mode that a query has or would have, and Spark's plan of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.client.cluster import Cluster
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.catalogue.status import QueryStatus, SparkPlan, StatusLog
from headrace.pipeline.serving.push_queries import PushQuery
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.testing import EmbeddedBroker

SOURCES = """
CREATE STREAM three (id VARCHAR KEY, v BIGINT)
  WITH (KAFKA_TOPIC='{topic}_three', VALUE_FORMAT='JSON', PARTITIONS=3);
CREATE STREAM five (id VARCHAR KEY, w BIGINT)
  WITH (KAFKA_TOPIC='{topic}_five', VALUE_FORMAT='JSON', PARTITIONS=5);
CREATE TABLE places (id VARCHAR PRIMARY KEY, name VARCHAR)
  WITH (KAFKA_TOPIC='{topic}_places', VALUE_FORMAT='JSON', PARTITIONS=5);
"""


class Explained:
    """A statement service, and what the pipeline process would tell it."""

    def __init__(self, log: StatementLog, cluster: Cluster, schemas: RegistrySchemas) -> None:
        self.statuses: list[QueryStatus] = []
        self.service = StatementService(
            log=log,
            cluster=cluster,
            schemas=schemas,
            settings=Settings(pipeline_slots=6),
            statuses=lambda: self.statuses,
        )

    def run(self, text: str) -> None:
        self.service.execute(text, Session())

    def explain(self, what: str) -> tuple[str, str]:
        (answer,) = self.service.execute(f"EXPLAIN {what};", Session())
        described = answer["queryDescription"]
        return described["executionPlan"], described["topology"]

    def say(self, query_id: str, state: str = "RUNNING", mode: str = "real-time", **more: object) -> None:
        self.statuses.append(
            QueryStatus(query=query_id, state=state, mode=mode, message="", at=1, **more)  # type: ignore[arg-type]
        )


@pytest.fixture
def explained(
    statement_log: StatementLog, cluster: Cluster, schemas: RegistrySchemas, topic_name: str
) -> Explained:
    made = Explained(statement_log, cluster, schemas)
    made.run(SOURCES.format(topic=topic_name))
    return made


@pytest.fixture
def told(broker: EmbeddedBroker) -> Iterator[StatusLog]:
    log = StatusLog(Cluster(broker.bootstrap))
    yield log
    log.close()


def test_topics_of_different_partitions_are_repartitioned_and_it_says_so(explained: Explained) -> None:
    plan, spark = explained.explain(
        "SELECT three.id, v, w FROM three JOIN five WITHIN 1 MINUTE ON three.id = five.id EMIT CHANGES"
    )
    assert "mode: would be micro-batch, as a join of streams keeps state" in plan
    assert "repartitions the left side: 3 and 5 partitions must become equal in number" in plan
    assert ", 3 partitions  -- line 1, column" in plan
    assert ", 5 partitions  -- line 1, column" in plan
    assert "none until the query runs" in spark

    plan, _ = explained.explain(
        "CREATE STREAM o AS SELECT three.id, v, name FROM three JOIN places ON three.id = places.id"
    )
    assert "repartitions the left side: 3 and 5 partitions must become equal in number" in plan

    plan, _ = explained.explain(
        "SELECT f.id, w, name FROM five f JOIN places ON f.id = places.id EMIT CHANGES"
    )
    assert "repartitions" not in plan


def test_positions_are_those_of_the_statement(explained: Explained) -> None:
    statement = "SELECT id,\n  v + 1 AS more\nFROM three\nWHERE v > 2 EMIT CHANGES"
    plan, _ = explained.explain(statement)
    lines = {
        line.split("  -- ")[0].strip(): line.split("  -- ")[1] for line in plan.splitlines() if "--" in line
    }
    (column,) = (at for text, at in lines.items() if text.startswith("MORE"))
    (filtered,) = (at for text, at in lines.items() if text.startswith("filter"))
    (read,) = (at for text, at in lines.items() if text.startswith("read"))
    assert (column, filtered, read) == ("line 2, column 5", "line 4, column 9", "line 3, column 6")


def test_the_mode_that_a_query_would_have_depends_on_the_slots_that_others_hold(explained: Explained) -> None:
    statement = "CREATE STREAM o AS SELECT * FROM three"
    assert explained.explain(statement)[0].startswith("mode: would be real-time, as it keeps no state")
    explained.say("CSAS_OTHER_1", slots=3)
    plan, _ = explained.explain(statement)
    assert plan.startswith("mode: would be micro-batch, as real-time mode would hold a slot for each of 3")


def test_a_pull_query_needs_no_spark(explained: Explained) -> None:
    plan, spark = explained.explain("SELECT * FROM places WHERE id = 'a'")
    assert plan.startswith("mode: answered from the gateway")
    assert "the gateway answers the query itself" in spark


def test_a_push_query_that_is_read_is_explained_by_its_id(explained: Explained) -> None:
    explained.service.start()
    try:
        pushed = explained.service.begin("SELECT id, v FROM three WHERE v > 2 EMIT CHANGES;", Session())
        assert isinstance(pushed, PushQuery)
        plan, spark = explained.explain(pushed.id)
        assert plan.startswith("mode: would be real-time")
        assert "filter" in plan
        assert "only for persistent queries" in spark
    finally:
        explained.service.stop()


def test_a_running_query_has_the_mode_and_spark_s_plan_that_it_has(
    explained: Explained, told: StatusLog, topic_name: str
) -> None:
    explained.run(f"CREATE STREAM o WITH (KAFKA_TOPIC='{topic_name}_o') AS SELECT * FROM three;")
    (query_id,) = explained.service.log.catalogue.queries
    plan, spark = explained.explain(query_id)
    assert plan.startswith("mode: would be real-time")
    assert "none until the query runs" in spark

    explained.say(query_id, mode="micro-batch", mode_reason="0 are free; raise pipeline_slots")
    plan, spark = explained.explain(query_id)
    assert plan.startswith("mode: micro-batch, as 0 are free; raise pipeline_slots\n")
    assert "none yet, as there were no records" in spark

    for text in ("an older one", "== Physical Plan ==\nProject"):
        told.write_plan(SparkPlan(query=query_id, text=text, at=1))
    told.write_plan(SparkPlan(query="CSAS_OTHER_1", text="of another", at=1))
    told.close()
    assert explained.explain(query_id)[1] == "Spark's plan:\n== Physical Plan ==\nProject"

    explained.statuses.clear()
    explained.say(query_id, state="FAILED")
    assert explained.explain(query_id)[1].startswith("Spark's plan: none, as the query is failed")
