"""A rollup on the whole platform: created over HTTP, kept by the pipeline process, used by every door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pydruid.db
import pytest

from tests.running_platform import Platform, event, new_prefix, wait_for

NAME = "CLICKS"
CREATE = (
    f"CREATE OR REPLACE ROLLUP {NAME} AS SELECT date_trunc('hour', _POSTED_AT), EVENT_TYPE, USER_ID, "
    "count(*), min(LISTING_ID), max(_TOPIC_OFFSET), sum(_TOPIC_OFFSET) FROM events "
    "GROUP BY date_trunc('hour', _POSTED_AT), EVENT_TYPE, USER_ID;"
)
QUESTION = (
    "SELECT SERVER_DATE, EVENT_TYPE, COUNT(*) AS clicks FROM events WHERE USER_ID LIKE '{prefix}-%' "
    "GROUP BY 1, 2 ORDER BY 1, 2"
)


def tell(platform: Platform, statement: str) -> list[dict[str, Any]]:
    url = f"http://{platform.settings.host}:{platform.settings.statements_port}/ksql"
    answer = platform.http.post(url, json={"ksql": statement})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def ask(platform: Platform, statement: str, **more: Any) -> dict[str, Any]:
    url = f"http://{platform.settings.host}:{platform.settings.query_port}/sql"
    answer = platform.http.post(url, json={"query": statement, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def shown(platform: Platform) -> dict[str, Any]:
    (answer,) = tell(platform, "SHOW ROLLUPS;")
    return {each["name"]: each for each in answer["rollups"]}[NAME]


def used(answer: dict[str, Any]) -> list[dict[str, Any]]:
    (table,) = answer["tables"]
    found: list[dict[str, Any]] = table.get("rollups", [])
    return found


class Counted:
    """Events of a prefix, with a rollup and without."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.prefix = new_prefix()
        self.posted = 0

    def post(self, count: int) -> None:
        users = [f"{self.prefix}-{self.posted + number}" for number in range(count)]
        days = ["2026-03-13", "2026-03-14"]
        events = [event(user, Server_Time=f"{days[at % 2]}T10:00:00Z") for at, user in enumerate(users)]
        assert self.platform.post(events).status_code == 200
        self.posted += count

    def count(self) -> int:
        """With the rollup if it can; checked against the rows of the table."""
        question = QUESTION.format(prefix=self.prefix)
        total = sum(clicks for _, _, clicks in ask(self.platform, question)["rows"])
        assert total <= self.posted
        return total

    def wait(self) -> dict[str, Any]:
        wait_for(lambda: self.count() == self.posted, f"all {self.posted} events are counted", seconds=120)
        question = QUESTION.format(prefix=self.prefix)
        answer = ask(self.platform, question)
        assert answer["rows"] == ask(self.platform, question, rollups="off")["rows"]
        return answer


@pytest.fixture
def counted(platform: Platform) -> Iterator[Counted]:
    made = Counted(platform)
    made.post(4)
    platform.wait_in_lake(made.prefix, 4)
    tell(platform, CREATE)
    wait_for(lambda: shown(platform)["state"] == "RUNNING", "the rollup is kept", seconds=120)
    yield made
    tell(platform, f"DROP ROLLUP {NAME};")


def test_all_doors_use_it_and_say_so(platform: Platform, counted: Counted) -> None:
    counted.post(3)
    answer = counted.wait()
    (rollup,) = used(answer)
    assert rollup["rollup"] == NAME
    question = QUESTION.format(prefix=counted.prefix)
    expected = [tuple(row) for row in answer["rows"]]
    assert used(ask(platform, question, rollups="off")) == []
    explained = ask(platform, f"EXPLAIN {question}")["rows"]
    (note,) = (json.loads(text) for name, text in explained if name == "tables")
    assert note[0]["rollups"][0]["rollup"] == NAME
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
    everything = (
        "SELECT count(*), sum(_TOPIC_OFFSET), max(_TOPIC_OFFSET), count(DISTINCT EVENT_TYPE) FROM events"
    )
    assert used(ask(platform, everything, freshness="lake"))
    assert (
        ask(platform, everything, freshness="lake")["rows"]
        == ask(platform, everything, freshness="lake", rollups="off")["rows"]
    )


@pytest.mark.long
def test_it_catches_up_after_a_kill(platform: Platform, counted: Counted) -> None:
    killed = platform.kill("pipeline")
    counted.post(5)
    counted.wait()
    platform.wait_restarted("pipeline", after=killed)
    counted.post(5)
    before = shown(platform)["version"]
    counted.wait()
    wait_for(lambda: shown(platform)["version"] > before, "the rollup goes on", seconds=180)
    assert used(counted.wait())


@pytest.mark.long
def test_a_dropped_rollup_is_gone(platform: Platform, counted: Counted) -> None:
    folder = platform.settings.lake_dir / "@rollups"
    assert [each.name.partition(".")[0] for each in folder.iterdir()] == [NAME]
    tell(platform, f"DROP ROLLUP {NAME};")
    wait_for(lambda: not list(folder.iterdir()), "its folder is gone")
    assert used(ask(platform, QUESTION.format(prefix=counted.prefix))) == []
    tell(platform, CREATE)
