"""SQL sees an event as soon as it is in the topic of its table, once, whatever the lake does meanwhile."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import psycopg
import pydruid.db
import pytest

from tests.running_platform import Platform, event, new_prefix, wait_for

COUNT = "SELECT count(*) FROM events WHERE USER_ID LIKE '{prefix}-%'"


def ask(platform: Platform, statement: str, **more: Any) -> dict[str, Any]:
    url = f"http://{platform.settings.host}:{platform.settings.query_port}/sql"
    answer = platform.http.post(url, json={"query": statement, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


class Watched:
    """How many events of a prefix SQL has seen: it never forgets one, and never sees more than there are."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.prefix = new_prefix()
        self.posted = 0
        self.seen = 0
        self.versions: set[int] = set()
        self.has_had_tail = False

    def post(self, count: int = 1) -> None:
        users = [f"{self.prefix}-{self.posted + number}" for number in range(count)]
        assert self.platform.post([event(user) for user in users]).status_code == 200
        self.posted += count

    def look(self) -> int:
        answer = ask(self.platform, COUNT.format(prefix=self.prefix))
        ((count,),) = answer["rows"]
        (table,) = answer["tables"]
        assert self.seen <= count <= self.posted, answer
        self.seen = count
        self.versions.add(table["version"])
        self.has_had_tail = self.has_had_tail or table["tail_rows"] > 0
        return self.seen

    def wait(self, seconds: float = 60) -> None:
        wait_for(
            lambda: self.look() == self.posted, f"all {self.posted} events are in the answer", seconds=seconds
        )


def test_every_event_is_in_the_next_answers_once(platform: Platform) -> None:
    watched = Watched(platform)
    deadline = time.monotonic() + 120
    while len(watched.versions) < 4:
        assert time.monotonic() < deadline, "the lake commits nothing"
        watched.post()
        watched.wait()
    assert watched.has_had_tail
    platform.wait_in_lake(watched.prefix, watched.posted)
    assert watched.look() == watched.posted
    # Neither the files nor the tail has any of them twice.
    users = ask(platform, f"SELECT USER_ID FROM events WHERE USER_ID LIKE '{watched.prefix}-%'")["rows"]
    assert len({user for (user,) in users}) == len(users) == watched.posted


def test_the_lake_alone_on_demand(platform: Platform) -> None:
    watched = Watched(platform)
    watched.post(3)
    watched.wait()
    wait_for(
        lambda: ask(platform, COUNT.format(prefix=watched.prefix), freshness="lake")["rows"] == [[3]],
        "they are in the lake",
    )
    answer = ask(platform, COUNT.format(prefix=watched.prefix), freshness="lake")
    assert "tail_rows" not in answer["tables"][0]


def test_all_doors_give_the_same_answer(platform: Platform) -> None:
    prefix = new_prefix()
    days = ["2026-03-13", "2026-03-14", "2026-03-14"]
    platform.post([event(f"{prefix}-{at}", Server_Time=f"{day}T10:00:00Z") for at, day in enumerate(days)])
    question = (
        "SELECT SERVER_DATE, COUNT(*) AS clicks FROM events "
        f"WHERE EVENT_TYPE = 'ListingView' AND USER_ID LIKE '{prefix}-%' GROUP BY 1 ORDER BY 1"
    )
    expected = [("2026-03-13", 1), ("2026-03-14", 2)]

    def over_http() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in ask(platform, question)["rows"]]

    wait_for(lambda: over_http() == expected, "they are in the answer")
    settings = platform.settings
    druid = pydruid.db.connect(
        host=settings.host, port=settings.query_port, path="/druid/v2/sql/", scheme="http"
    )
    with closing(druid), closing(druid.cursor()) as cursor:
        assert [tuple(row) for row in cursor.execute(question)] == expected
    with psycopg.connect(
        host=settings.host, port=settings.postgres_port, user="analyst", dbname="headrace"
    ) as postgres:
        assert postgres.execute(question).fetchall() == expected
    passed_on = platform.http.post(f"{platform.console_url}/sql", json={"query": question}).json()
    assert [tuple(row) for row in passed_on["rows"]] == expected


@pytest.mark.long
def test_answers_stay_exact_while_the_pipeline_is_killed(platform: Platform) -> None:
    watched = Watched(platform)
    watched.post(20)
    watched.wait()
    for _ in range(2):
        killed = platform.kill("pipeline")
        for _ in range(20):
            watched.post()
            watched.look()
        platform.wait_restarted("pipeline", after=killed)
        watched.post()
        watched.wait(seconds=180)
    platform.wait_in_lake(watched.prefix, watched.posted)
    assert watched.look() == watched.posted


@pytest.mark.long
def test_a_killed_query_process_comes_back(platform: Platform) -> None:
    watched = Watched(platform)
    watched.post(5)
    watched.wait()
    killed = platform.kill("query")
    refused = platform.http.post(f"{platform.console_url}/sql", json={"query": "SELECT 1"})
    assert refused.status_code in (200, 503), refused.text
    platform.wait_restarted("query", after=killed)
    watched.post(5)

    def answers() -> bool:
        try:
            watched.look()
        except Exception:
            return False
        return True

    wait_for(answers, "the query process answers again")
    watched.wait()


def test_topics_versions_and_tables_of_statements(platform: Platform) -> None:
    watched = Watched(platform)
    watched.post(5)
    watched.wait()
    platform.wait_in_lake(watched.prefix, 5)
    users = f"LIKE '{watched.prefix}-%'"
    # What was posted, as JSON.
    posted = f"SELECT count(*) FROM topic.events WHERE (_value->>'User_ID') {users}"
    assert ask(platform, posted)["rows"] == [[5]]
    # What the pipeline made of it, with the columns of its schema.
    found = ask(platform, f"SELECT USER_ID, _problem FROM topic.events_avro WHERE USER_ID {users} ORDER BY 1")
    assert found["rows"] == [[f"{watched.prefix}-{number}", None] for number in range(5)]
    assert found["tables"][0]["topic"] == "events_avro"
    # The table before it had these events.
    before = ask(platform, f"SELECT count(*) FROM events AS OF VERSION 0 WHERE USER_ID {users}")
    assert before["rows"] == [[0]]
    assert before["tables"][0]["as_of"] == "version 0"
    # A table of the statement language, over a topic that is there.
    name = f"USERS_{watched.prefix}".replace("-", "_").upper()
    statement = (
        f"CREATE SOURCE TABLE {name} (k VARCHAR PRIMARY KEY, user_id VARCHAR) "
        "WITH (KAFKA_TOPIC='events_avro', KEY_FORMAT='KAFKA', VALUE_FORMAT='AVRO');"
    )
    url = f"http://{platform.settings.host}:{platform.settings.statements_port}/ksql"
    answer = platform.http.post(url, json={"ksql": statement})
    assert answer.status_code == 200, answer.text
    try:
        listed = ask(platform, f'SELECT count(*) FROM "table".{name}')
        assert listed["tables"][0]["statement_table"] == name
        assert ask(platform, f"SELECT count(*) FROM {name}")["rows"] == listed["rows"]
    finally:
        platform.http.post(url, json={"ksql": f"DROP TABLE {name};"})
