"""A query stays what it was when its statement came, also after a restart: `SELECT *`, and names of types."""

from __future__ import annotations

import pytest

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery, QueryKind
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.testing import EmbeddedBroker

SOURCES = """
CREATE STREAM s (id VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='{topic}_s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM t (id VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='{topic}_t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TYPE small AS STRUCT<a INT>;
"""


def run(service: StatementService, text: str) -> None:
    service.execute(text, Session())


def values(query: PersistentQuery, catalogue: Catalogue) -> list[str]:
    plan = plan_again(query.statement, query.id, catalogue)
    return [f"{column.name} {column.type}" for column in plan.sink.value]


@pytest.mark.parametrize("snapshot_every", [500, 1], ids=["from statements", "from a snapshot"])
def test_a_star_is_what_it_was_when_the_statement_came(
    broker: EmbeddedBroker,
    cluster: Cluster,
    schemas: RegistrySchemas,
    statement_topic: str,
    snapshot_every: int,
) -> None:
    log = StatementLog(broker.bootstrap, topic=statement_topic, snapshot_every=snapshot_every)
    log.start()
    try:
        service = StatementService(log=log, cluster=cluster, schemas=schemas)
        run(service, SOURCES.format(topic=statement_topic))
        run(service, f"CREATE STREAM o WITH (KAFKA_TOPIC='{statement_topic}_o') AS SELECT * FROM s;")
        run(service, "INSERT INTO t WITH (QUERY_ID='into') SELECT * FROM s;")
        run(
            service,
            f"CREATE STREAM c WITH (KAFKA_TOPIC='{statement_topic}_c') AS "
            "SELECT id, CAST(STRUCT(a := 1) AS small) AS x FROM s;",
        )
        run(service, "ALTER STREAM s ADD COLUMN w INT; ALTER STREAM t ADD COLUMN z INT; DROP TYPE small;")
    finally:
        log.stop()
    again = StatementLog(broker.bootstrap, topic=statement_topic)
    again.start()
    try:
        catalogue = again.catalogue
        assert [column.name for column in catalogue.sources["S"].value] == ["V", "W"]
        by_sink = {query.sink: query for query in catalogue.queries.values()}
        assert values(by_sink["O"], catalogue) == ["V BIGINT"]
        assert values(by_sink["T"], catalogue) == ["V BIGINT"], "it fits what the target was"
        assert values(by_sink["C"], catalogue) == ["X STRUCT<`A` INTEGER>"]

        after = StatementService(log=again, cluster=cluster, schemas=schemas)
        run(after, f"CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='{statement_topic}_o') AS SELECT * FROM s;")
        catalogue = again.catalogue
        assert values(catalogue.writers_of("O")[0], catalogue) == ["V BIGINT", "W INTEGER"], (
            "the same words, said again, are about the source as it is now"
        )
    finally:
        again.stop()


def test_a_query_of_an_older_version_is_planned_with_what_is_there(
    service: StatementService, topic_name: str
) -> None:
    run(service, SOURCES.format(topic=topic_name))
    old = PersistentQuery(
        id="CSAS_O_9",
        kind=QueryKind.CREATE_STREAM,
        sink="O",
        sources=("S",),
        statement="CREATE STREAM o AS SELECT * FROM s;",
    )
    assert values(old, service.log.catalogue) == ["V BIGINT"]
