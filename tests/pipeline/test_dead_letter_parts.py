"""Each bad record has one dead letter, however often a query reads its topic. Starts no Spark."""

from __future__ import annotations

import pytest

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.spark.starting import dead_letter_parts
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource

SOURCES = """
CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='one', VALUE_FORMAT='JSON');
CREATE STREAM r (k INT KEY, v INT) WITH (KAFKA_TOPIC='two', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='one', VALUE_FORMAT='JSON');
CREATE TABLE u (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='two', VALUE_FORMAT='JSON');
"""


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("CREATE STREAM o AS SELECT * FROM s;", {}),
        ("CREATE STREAM o AS SELECT s.k, t.v FROM s JOIN t ON s.k = t.k;", {}),
        ("CREATE STREAM o AS SELECT s.k, u.v FROM s JOIN u ON s.k = u.k;", {0: "two"}),
        ("CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;", {0: "one"}),
        (
            "CREATE STREAM o AS SELECT s.k, r.v FROM s JOIN r WITHIN 1 DAY ON s.k = r.k;",
            {0: "one", 1: "two"},
        ),
    ],
)
def test_a_topic_has_its_dead_letters_once(query: str, parts: dict[int, str]) -> None:
    catalogue = Catalogue()
    for each in parse(SOURCES):
        assert isinstance(each.statement, CreateSource)
        made = plan_source(each.statement, catalogue, text=each.text)
        catalogue = Catalogue(sources={**catalogue.sources, made.name: made})
    (parsed,) = parse(query)
    assert isinstance(parsed.statement, CreateAs)
    plan = plan_query(parsed.statement, catalogue, text=parsed.text)
    assert {number: read.source.topic for number, read in dead_letter_parts(plan).items()} == parts
