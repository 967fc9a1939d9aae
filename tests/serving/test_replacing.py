"""CREATE OR REPLACE: what is sound is taken, and what is not is refused with the reason. Without Spark: that
the query really goes on is in `tests/pipeline/test_replaced_queries.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.serving.errors import StatementFailedError
from headrace.pipeline.serving.replacing import check_replacement, check_upgrade
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource

SOURCES = """
CREATE STREAM s (id VARCHAR KEY, v BIGINT, w VARCHAR, many ARRAY<INT>)
  WITH (KAFKA_TOPIC='{topic}_s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM other (id VARCHAR KEY, v BIGINT, w VARCHAR, many ARRAY<INT>)
  WITH (KAFKA_TOPIC='{topic}_other', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t (id VARCHAR PRIMARY KEY, name VARCHAR, place VARCHAR)
  WITH (KAFKA_TOPIC='{topic}_t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (id VARCHAR PRIMARY KEY, price BIGINT)
  WITH (KAFKA_TOPIC='{topic}_u', VALUE_FORMAT='JSON', PARTITIONS=1);
"""

STREAM = "STREAM o AS SELECT id, v, w FROM s WHERE v > 1"
COUNTED = "TABLE o AS SELECT id, COUNT(*) AS n FROM s GROUP BY id"
WINDOWED = "TABLE o AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id"
LOOKED_UP = "STREAM o AS SELECT s.id, v, name FROM s JOIN t ON s.id = t.id"
JOINED = "STREAM o AS SELECT s.id, s.v FROM s JOIN other x WITHIN 1 MINUTE ON s.id = x.id"
TABLES = "TABLE o AS SELECT t.id, name FROM t JOIN u ON t.id = u.id"
OF_A_TABLE = "TABLE o AS SELECT place, COUNT(*) AS n FROM t GROUP BY place"
EXPLODED = "STREAM o AS SELECT id, EXPLODE(many) AS one FROM s"
REKEYED = "STREAM o AS SELECT w, id, v FROM s PARTITION BY w"

SOUND = [
    pytest.param(STREAM, "STREAM o AS SELECT id, v, w FROM s WHERE v > 2", id="another filter"),
    pytest.param(STREAM, "STREAM o AS SELECT id, v, w FROM s", id="no filter"),
    pytest.param("STREAM o AS SELECT id, v, w FROM s", STREAM, id="a filter"),
    pytest.param(STREAM, "STREAM o AS SELECT id, v, w, v + 1 AS x FROM s WHERE v > 1", id="a column"),
    pytest.param(STREAM, "STREAM o AS SELECT id, v * 2 AS v, UCASE(w) AS w FROM s", id="expressions"),
    pytest.param(STREAM, f"{STREAM.replace(' ', chr(10))}", id="the same in other lines"),
    pytest.param(COUNTED, "TABLE o AS SELECT id, COUNT(*) AS n FROM s WHERE v > 1 GROUP BY id", id="counted"),
    pytest.param(COUNTED, f"{COUNTED} HAVING COUNT(*) > 1", id="HAVING"),
    pytest.param(COUNTED, COUNTED.replace("n FROM", "n, COUNT(*) * 2 AS m FROM"), id="of an aggregate"),
    pytest.param(
        WINDOWED,
        WINDOWED.replace("GROUP", "WHERE v > 1 GROUP"),
        id="windowed",
    ),
    pytest.param(LOOKED_UP, LOOKED_UP.replace("name FROM", "name, place FROM"), id="of a table"),
    pytest.param(REKEYED, f"{REKEYED.replace('FROM s', 'FROM s WHERE v > 1')}", id="rekeyed"),
    pytest.param(JOINED, JOINED, id="the same join"),
    pytest.param(OF_A_TABLE, OF_A_TABLE, id="the same aggregation of a table"),
]

UNSOUND = [
    (STREAM, "STREAM o AS SELECT id, w, v FROM s", "only be added at the end, and keep their order"),
    (STREAM, "STREAM o AS SELECT id, v FROM s", "missing or changed: W VARCHAR"),
    (STREAM, "STREAM o AS SELECT id, CAST(v AS INT) AS v, w FROM s", "missing or changed: V BIGINT"),
    (STREAM, "STREAM o AS SELECT w, v, id FROM s PARTITION BY w", "key columns cannot change"),
    (STREAM, "STREAM o AS SELECT id, v, w FROM other", "its sources cannot change from S to OTHER"),
    (STREAM, "STREAM o WITH (KAFKA_TOPIC='x') AS SELECT id, v, w FROM s", "the topic cannot change"),
    (STREAM, "STREAM o WITH (VALUE_FORMAT='AVRO') AS SELECT id, v, w FROM s", "format of the value"),
    (STREAM, "STREAM o AS SELECT s.id AS id, v, w FROM s JOIN t ON s.id = t.id", "sources cannot change"),
    (STREAM, "STREAM o AS SELECT id, v, w, EXPLODE(many) AS e FROM s", "an EXPLODE cannot be added"),
    (
        EXPLODED,
        "STREAM o AS SELECT id, EXPLODE(FILTER(many, x => x > 1)) AS one FROM s",
        "its EXPLODE cannot",
    ),
    (REKEYED, "STREAM o AS SELECT UCASE(w) AS w, id, v FROM s PARTITION BY UCASE(w)", "PARTITION BY cannot"),
    (COUNTED, "TABLE o AS SELECT id, SUM(v) AS n FROM s GROUP BY id", "its aggregates cannot change"),
    (COUNTED, "TABLE o AS SELECT id, COUNT(*) AS n, MAX(v) AS m FROM s GROUP BY id", "its aggregates cannot"),
    (COUNTED, f"{COUNTED} HAVING MAX(v) > 1", "its aggregates cannot change"),
    (COUNTED, "TABLE o AS SELECT w AS id, COUNT(*) AS n FROM s GROUP BY w", "its GROUP BY cannot change"),
    (COUNTED, WINDOWED, "window cannot change"),
    (WINDOWED, WINDOWED.replace("1 MINUTE", "2 MINUTES"), "window cannot change"),
    (WINDOWED, WINDOWED.replace("MINUTE)", "MINUTE, GRACE PERIOD 1 HOUR)"), "its window cannot change"),
    (WINDOWED, f"{WINDOWED} EMIT FINAL", "EMIT CHANGES cannot become EMIT FINAL"),
    (LOOKED_UP, LOOKED_UP.replace("JOIN", "LEFT JOIN"), "its join cannot change"),
    (JOINED, JOINED.replace("1 MINUTE", "2 MINUTES"), "its join cannot change"),
    (JOINED, f"{JOINED} WHERE s.v > 1", "a join of streams keeps state"),
    (TABLES, f"{TABLES} WHERE price > 1", "a query with a join of tables"),
    (
        OF_A_TABLE,
        "TABLE o AS SELECT place, COUNT(*) AS n FROM t WHERE name = 'a' GROUP BY place",
        "undoes",
    ),
]


def run(service: StatementService, text: str) -> list[dict[str, Any]]:
    return service.execute(text, Session())


def planned(query: str, catalogue: Catalogue) -> tuple[CreateAs, QueryPlan]:
    (parsed,) = parse(f"CREATE OR REPLACE {query};")
    assert isinstance(parsed.statement, CreateAs)
    return parsed.statement, plan_query(parsed.statement, catalogue, text=parsed.text)


def replace(query: str, new: str) -> None:
    """As the service decides; raises StatementError."""
    catalogue = Catalogue()
    for parsed in parse(SOURCES.format(topic="a")):
        assert isinstance(parsed.statement, CreateSource)
        source = plan_source(parsed.statement, catalogue, text=parsed.text)
        catalogue.sources[source.name] = source
    _, former = planned(query, catalogue)
    statement, plan = planned(new, catalogue)
    check_replacement(former.sink, plan.sink, statement)
    check_upgrade("CSAS_O_1", former, plan, statement)


@pytest.mark.parametrize(("query", "new"), SOUND)
def test_what_is_sound_is_taken(query: str, new: str) -> None:
    replace(query, new)


@pytest.mark.parametrize(("query", "new", "reason"), UNSOUND)
def test_what_is_not_sound_is_refused_with_the_reason(query: str, new: str, reason: str) -> None:
    with pytest.raises(StatementError) as caught:
        replace(query, new)
    assert reason in str(caught.value)
    assert "DROP " in str(caught.value), "what can be done instead is said"


DELIMITED = "(id VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='DELIMITED', PARTITIONS=1{more});"
JSON = "(id VARCHAR KEY, {columns}) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS=1{more});"


@pytest.mark.parametrize(
    ("source", "new", "reason"),
    [
        (JSON.format(columns="v INT", more=""), JSON.format(columns="v INT, w INT", more=""), None),
        (
            JSON.format(columns="v INT", more=", WRAP_SINGLE_VALUE=true"),
            JSON.format(columns="v INT, w INT", more=""),
            None,
        ),
        (
            JSON.format(columns="v INT", more=", WRAP_SINGLE_VALUE=false"),
            JSON.format(columns="v INT, w INT", more=""),
            "the encoding of the value",
        ),
        (
            DELIMITED.format(more=""),
            DELIMITED.format(more=", VALUE_DELIMITER='|'"),
            "the encoding of the value",
        ),
        (JSON.format(columns="v INT, w INT", more=""), JSON.format(columns="w INT", more=""), "V INTEGER"),
    ],
)
def test_a_declared_stream_is_replaced_by_one_of_the_same_bytes(
    source: str, new: str, reason: str | None
) -> None:
    made = []
    for text in (source, new):
        (parsed,) = parse(f"CREATE OR REPLACE STREAM s {text}")
        assert isinstance(parsed.statement, CreateSource)
        made.append(plan_source(parsed.statement, Catalogue(), text=parsed.text))
    if reason is None:
        check_replacement(made[0], made[1], parsed.statement)
        return
    with pytest.raises(StatementError, match=reason):
        check_replacement(made[0], made[1], parsed.statement)


def test_a_replaced_query_keeps_its_id_and_stays_paused(service: StatementService, topic_name: str) -> None:
    run(service, SOURCES.format(topic=topic_name))
    (made,) = run(service, f"CREATE {STREAM};")
    query_id = made["commandStatus"]["queryId"]
    run(service, f"PAUSE {query_id};")
    text = "CREATE OR REPLACE STREAM o AS SELECT id, v, w, many FROM s WHERE v > 2;"
    (made,) = run(service, text)
    assert made["commandStatus"]["queryId"] == query_id
    (query,) = service.log.catalogue.queries.values()
    assert query.statement == text
    assert query.paused
    assert [column.name for column in service.log.catalogue.sources["O"].value] == ["V", "W", "MANY"]

    before = service.log.catalogue
    with pytest.raises(StatementFailedError, match="missing or changed: V BIGINT"):
        run(service, "CREATE OR REPLACE STREAM o AS SELECT id, w, many FROM s;")
    with pytest.raises(StatementFailedError, match=f"query `{query_id}`: its sources cannot change"):
        run(service, "CREATE OR REPLACE STREAM o AS SELECT id, v, w, many FROM other;")
    with pytest.raises(StatementFailedError, match="a query writes it"):
        run(
            service,
            "CREATE OR REPLACE STREAM o (id VARCHAR KEY, v BIGINT, w VARCHAR, many ARRAY<INT>, x INT) "
            "WITH (KAFKA_TOPIC='O', VALUE_FORMAT='JSON');",
        )
    assert service.log.catalogue == before
