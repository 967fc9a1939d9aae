"""Receipts over the gateway and the query process: statements, connectors and commits are found as they are.

The statements are real; what the pipeline would derive and record is written by hand.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.client.cluster import Cluster
from headrace.lake.coordinates import ERROR_HEADER, SOURCE_HEADER
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.runs.commit_log import CommitLog, part_key
from headrace.pipeline.runs.commits import Commit, History
from headrace.testing import EmbeddedBroker
from tests.gateway_process import GatewayProcess, gateway_settings, run_gateway
from tests.query.records import create_topic, produce, wait_until
from tests.query_process import run_query_process

STATEMENTS = """
CREATE STREAM events (user_id VARCHAR, n INT) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');
CREATE TABLE users (id VARCHAR PRIMARY KEY, name VARCHAR) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE STREAM plain AS SELECT * FROM events;
CREATE STREAM some AS SELECT * FROM plain WHERE n > 5;
CREATE TABLE counts AS SELECT user_id, COUNT(*) AS c FROM events GROUP BY user_id;
CREATE STREAM named AS SELECT e.user_id AS user_id, u.name AS name
  FROM events e LEFT JOIN users u ON e.user_id = u.id;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    gateway: GatewayProcess
    cluster: Cluster
    commits: CommitLog
    queries: dict[str, str]
    statements: dict[str, str]

    def id(self, topic: str) -> str:
        found = self.cluster.topic(topic)
        assert found is not None
        return found.topic_id

    def receipt(self, path: str, **parameters: Any) -> Any:
        answer = httpx.get(f"{self.gateway.console}/receipts/{path}", params=parameters, timeout=120)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    def state(self, path: str, query: str) -> tuple[str, str]:
        """State and reason of one query on the way."""
        (found,) = [each for each in self.receipt(path)["queries"] if each["query"] == self.queries[query]]
        return found["state"], found["reason"]

    def derive(self, query: str, topic: str, source: str, offsets: Iterable[int], error: str = "") -> None:
        headers = [
            [
                (SOURCE_HEADER, f"{self.queries[query]}/{self.id(source)}/0/{offset}/0".encode()),
                *([(ERROR_HEADER, error.encode())] if error else []),
            ]
            for offset in offsets
        ]
        produce(self.cluster.bootstrap, topic, [{"value": b"x", "headers": each} for each in headers])

    def commit(self, query: str, positions: dict[str, int], sinks: Iterable[str], part: str = "") -> None:
        """The query has read up to here; its sinks end where they end now."""
        name = self.queries[query]
        ends = {
            self.id(sink): {0: self.cluster.end_offsets(sink)[0]}
            for sink in sinks
            if self.cluster.topic(sink) is not None
        }
        commit = Commit(
            at=1,
            positions={self.id(topic): {0: offset} for topic, offset in positions.items()},
            sinks_from={topic_id: {0: 0} for topic_id in ends},
            sinks_to=ends,
        )
        history = History(statement=self.statements[name]).with_commit(commit)
        self.commits.replace(part or name, history)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with EmbeddedBroker() as log:
        settings = gateway_settings(tmp_path_factory.mktemp("ways"), log.bootstrap)
        create_topic(log.bootstrap, "events")
        create_topic(log.bootstrap, "users")
        with run_gateway(settings) as gateway, run_query_process(settings):
            gateway.wait_until("ready")
            cluster = Cluster(log.bootstrap)
            # Before there is any statement: they are found when they come.
            produce(log.bootstrap, "events", [{"value": b"{}"}] * 2)
            before = httpx.get(f"{gateway.console}/receipts/events/0/0", timeout=120).json()
            assert (before["sql"], before["queries"], before["tables"]) == ("no_table", [], [])
            answer = httpx.post(f"{gateway.statements}/ksql", json={"ksql": STATEMENTS}, timeout=120)
            assert answer.status_code == 200, answer.text
            statements = StatementLog(log.bootstrap)
            statements.start()
            catalogue = statements.catalogue
            statements.stop()
            for name in ("events_dlq", "users_dlq", "PLAIN", "PLAIN_dlq", "SOME", "COUNTS", "NAMED"):
                if cluster.topic(name) is None:
                    create_topic(log.bootstrap, name)
            produce(log.bootstrap, "events", [{"value": b"{}"}] * 8)
            produce(log.bootstrap, "users", [{"key": b"u", "value": b"{}"}] * 2)
            yield Running(
                gateway=gateway,
                cluster=cluster,
                commits=CommitLog(cluster),
                queries={query.sink: query.id for query in catalogue.queries.values()},
                statements={
                    query.id: query.start.statement
                    for query in catalogue.queries.values()
                    if query.start is not None
                },
            )
            cluster.close()


def test_all_readers_of_a_topic_are_on_the_way(running: Running) -> None:
    """The streams began at the end of the topic; the states are those of each query."""
    wait_until(lambda: len(running.receipt("events/0/5")["queries"]) == 3, "the statements are found")
    states = {each["query"]: each["state"] for each in running.receipt("events/0/5")["queries"]}
    assert states == dict.fromkeys(
        (running.queries[name] for name in ("PLAIN", "COUNTS", "NAMED")), "pending"
    )
    assert running.state("events/0/0", "PLAIN")[0] == "not_read"


def test_a_chain_of_statements_and_its_filter(running: Running) -> None:
    running.derive("PLAIN", "PLAIN", "events", range(2, 6))
    running.derive("SOME", "SOME", "PLAIN", [0])
    found = running.receipt("events/0/2")
    by_query = {each["query"]: each for each in found["queries"]}
    assert by_query[running.queries["PLAIN"]]["records"] == [{"topic": "PLAIN", "partition": 0, "offset": 0}]
    assert by_query[running.queries["SOME"]]["records"] == [{"topic": "SOME", "partition": 0, "offset": 0}]
    # The second of them is filtered out, which is known when a position behind it is recorded.
    assert running.state("events/0/3", "SOME")[0] == "pending"
    running.commit("SOME", {"PLAIN": 4}, ["SOME", "PLAIN_dlq"])
    wait_until(lambda: running.state("events/0/3", "SOME")[0] == "left_out", "the commit is read")
    assert "WHERE" in running.state("events/0/3", "SOME")[1]


def test_a_query_with_state_and_its_dead_letters(running: Running) -> None:
    assert running.state("events/0/7", "COUNTS")[0] == "pending"
    running.derive("COUNTS", "events_dlq", "events", [6], error="it is no JSON")
    assert running.state("events/0/6", "COUNTS") == ("dead_letter", "it is no JSON")
    running.commit("COUNTS", {"events": 10}, ["COUNTS"])
    # Its rows are there; its dead letters are another part's, which is not so far yet.
    part = part_key(running.queries["COUNTS"], 0)
    running.commit("COUNTS", {"events": 7}, ["events_dlq"], part)
    assert running.state("events/0/8", "COUNTS")[0] == "pending"
    running.commit("COUNTS", {"events": 10}, ["events_dlq"], part)
    wait_until(lambda: running.state("events/0/8", "COUNTS")[0] == "taken", "the commit is read")
    assert "many records" in running.state("events/0/8", "COUNTS")[1]


def test_the_table_of_a_look_up_names_nothing(running: Running) -> None:
    assert running.state("users/0/1", "NAMED")[0] == "pending"
    running.commit("NAMED", {"events": 3}, ["NAMED", "events_dlq"])
    running.commit("NAMED", {"users": 2}, ["users_dlq"], part_key(running.queries["NAMED"], 1))
    wait_until(lambda: running.state("users/0/1", "NAMED")[0] == "taken", "the commit is read", seconds=60)
    assert "beside" in running.state("users/0/1", "NAMED")[1]


def test_commits_of_a_former_statement_do_not_count(running: Running) -> None:
    name = running.queries["NAMED"]
    commit = Commit(
        at=1, positions={running.id("events"): {0: 10}}, sinks_from={}, sinks_to={running.id("NAMED"): {0: 0}}
    )
    running.commits.replace(name, History(statement=uuid.uuid4().hex).with_commit(commit))
    running.derive("PLAIN", "events_dlq", "events", [9], error="so that something has changed")
    wait_until(lambda: running.state("events/0/9", "PLAIN")[0] == "dead_letter", "it is read")
    assert running.state("events/0/9", "NAMED")[0] == "pending"


def test_a_waiting_client_of_the_gateway(running: Running) -> None:
    late = running.receipt("events/0/8", wait="sql", timeout=0.2)
    assert late["sql"] == "pending"
    refused = httpx.get(f"{running.gateway.console}/receipts/events/0/8?wait=x", timeout=60)
    assert (refused.status_code, refused.json()["error"]) == (400, "bad_request")


def test_paths_do_not_clash(running: Running, tmp_path: Path) -> None:
    del tmp_path
    assert httpx.get(f"{running.gateway.console}/receipts/events/0", timeout=60).status_code == 404
