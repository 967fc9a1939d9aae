"""What of a query can be compared, by its plan."""

from __future__ import annotations

import pytest

from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.sink_tables import drops_of, query_id, table_name
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource
from headrace.reconcile.hops import Relation, hop_of
from tests.example_plans import avro_plan, lake_sink

SOURCES = """
CREATE STREAM S (K VARCHAR KEY, A VARCHAR, L ARRAY<VARCHAR>) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE STREAM R (K VARCHAR KEY, B VARCHAR) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'JSON');
CREATE TABLE T (K VARCHAR PRIMARY KEY, C VARCHAR) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON');
"""


def plan(text: str) -> QueryPlan:
    sources = {}
    for parsed in parse(SOURCES):
        assert isinstance(parsed.statement, CreateSource)
        source = plan_source(parsed.statement, Catalogue(), text=parsed.text)
        sources[source.name] = source
    (parsed,) = parse(text)
    assert isinstance(parsed.statement, CreateAs)
    return plan_query(parsed.statement, Catalogue(sources=sources), text=parsed.text)


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("CREATE STREAM X AS SELECT K, UCASE(A) AS A FROM S;", Relation.ONE),
        ("CREATE STREAM X AS SELECT A, K AS V FROM S PARTITION BY A;", Relation.ONE),
        ("CREATE STREAM X AS SELECT S.K, A, C FROM S LEFT JOIN T ON S.K = T.K;", Relation.ONE),
        ("CREATE STREAM X AS SELECT S.K, A, C FROM S JOIN T ON S.K = T.K;", Relation.ANY),
        ("CREATE STREAM X AS SELECT K, A FROM S WHERE A = 'x';", Relation.ANY),
        ("CREATE STREAM X AS SELECT K, EXPLODE(L) AS E FROM S;", Relation.ANY),
        ("CREATE TABLE X AS SELECT K, C FROM T;", Relation.ANY),
        ("CREATE TABLE X AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;", Relation.STATE),
        ("CREATE TABLE X AS SELECT K, COUNT(*) AS N FROM S WHERE A = 'x' GROUP BY K;", Relation.STATE),
        ("CREATE STREAM X AS SELECT S.K, A, B FROM S JOIN R WITHIN 1 HOUR ON S.K = R.K;", Relation.STATE),
    ],
)
def test_a_plan_says_what_becomes_of_a_source_record(text: str, relation: Relation) -> None:
    hop = hop_of("Q_1", plan(text))
    assert hop.relation is relation
    assert bool(hop.reason) == (relation is not Relation.ONE)
    assert (hop.source, hop.sink) == (("t" if "FROM T" in text else "s"), "X")
    assert hop.dead_letters == f"{hop.source}_dlq"


def test_the_example_can_be_compared_from_the_event_to_the_row() -> None:
    query = hop_of("Q_1", avro_plan("events"))
    sink = lake_sink(Settings())
    assert query.relation is Relation.ONE
    assert (query.source, (query.sink,)) == ("events", sink.topics)
    assert (query_id(sink.name, query.sink), table_name(sink, query.sink)) == (
        "events-lake.events_avro",
        "events",
    )
    assert drops_of(sink) == ""
