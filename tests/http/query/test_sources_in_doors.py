"""Versions of tables, freshness and topics through `POST /sql` and Druid's API, over a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.cluster import Cluster
from headrace.query.log_sources import LogSources
from headrace.query.questions import QuestionLimits
from headrace.query.sources import TailView
from headrace.query.statement_tables.planning import StatementTables
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.topic_tables.planning import TopicPlanner
from headrace.testing import EmbeddedBroker
from tests.http.query.sql_server import SqlServer, sql_server
from tests.query.delta_tables import write_events
from tests.query.records import create_topic, produce
from tests.query.test_topic_tables import SchemasOfTests


class CountedTails:
    """An empty tail, and how often it was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:  # noqa: ARG002
        self.asked += 1
        return TailView(chunks=(), starts={}, reached={})


TAILS = CountedTails()


@pytest.fixture(scope="module")
def server(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    folder = tmp_path_factory.mktemp("sources")
    for version in range(3):
        write_events(folder / "lake", [("Search", "2026-01-01", str(version))])
    cluster = Cluster(broker.bootstrap)
    sources = LogSources(
        TopicPlanner(cluster, SchemasOfTests(), ""), StatementTables(cluster, timeout_seconds=15)
    )
    with sql_server(folder, limits=QuestionLimits(threads=1), tails=TAILS, sources=sources) as running:
        yield running
    cluster.close()


def druid(server: SqlServer, query: str, **more: Any) -> Any:
    answer = server.client.post("/druid/v2/sql", json={"query": query, "resultFormat": "array", **more})
    return answer.json()


def test_sql_says_which_version_was_read(server: SqlServer) -> None:
    answer = server.ask("SELECT count(*) AS n FROM events AS OF VERSION 1").json()
    assert answer["rows"] == [[2]]
    assert answer["tables"][0] | {"files": 2} == {
        "table": "events", "version": 1, "files": 2, "as_of": "version 1",
    }  # fmt: skip
    answer = server.ask("SELECT 1 FROM events AS OF VERSION 9")
    assert (answer.status_code, answer.json()["error"]) == (404, "version_not_found")


def test_druids_sql_at_a_version(server: SqlServer) -> None:
    assert druid(server, "SELECT COUNT(*) FROM events AS OF VERSION 1") == [[2]]
    joined = (
        "SELECT n.USER_ID FROM events AS OF VERSION 2 n LEFT JOIN events FOR VERSION AS OF 0 o "
        "ON n.USER_ID = o.USER_ID WHERE o.USER_ID IS NULL ORDER BY 1"
    )
    assert druid(server, joined) == [["1"], ["2"]]
    assert druid(server, "SELECT events.USER_ID FROM events AS OF VERSION 0") == [["0"]]
    error = druid(server, "SELECT COUNT(*) FROM events AS OF VERSION 9")
    assert "no version 9 yet" in str(error)


def test_the_freshness_of_a_question_in_every_form(server: SqlServer) -> None:
    def asks_for_tail(work: Any) -> bool:
        before = TAILS.asked
        work()
        return TAILS.asked > before

    assert asks_for_tail(lambda: server.ask("SELECT * FROM events"))
    assert not asks_for_tail(lambda: server.ask("SELECT * FROM events WITH (freshness = lake)"))
    assert asks_for_tail(lambda: druid(server, "SELECT COUNT(*) FROM events"))
    assert not asks_for_tail(lambda: druid(server, "SELECT COUNT(*) FROM events WITH (freshness = lake);"))
    in_context = {"context": {"freshness": "lake"}}
    assert not asks_for_tail(lambda: druid(server, "SELECT COUNT(*) FROM events", **in_context))
    assert "no freshness" in str(druid(server, "SELECT 1", context={"freshness": "x' y"}))


def test_topics_in_both(server: SqlServer, broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    produce(broker.bootstrap, topic_name, [{"value": b'{"n": %d}' % number} for number in range(5)])
    sql = f'SELECT _offset, _value FROM topic."{topic_name}" WHERE _offset > 2 ORDER BY 1'
    answer = server.ask(sql).json()
    assert answer["rows"] == [[3, '{"n": 3}'], [4, '{"n": 4}']]
    assert answer["tables"] == [
        {
            "topic": topic_name,
            "offsets": {"0": [0, 5]},
            "read": {"0": [3, 5]},
            "records": 2,
            "bytes": answer["tables"][0]["bytes"],
        }
    ]
    assert druid(server, f'SELECT COUNT(*) FROM topic."{topic_name}" WHERE "_offset" > 2') == [[2]]
