"""Questions with `engine=spark` on the whole platform: the same answers, and no trace of what ends early."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from headrace.core.settings import to_environment
from headrace.pipeline.catalogue.spark_questions import SparkQuestionLog
from tests.running_platform import Platform, event, new_prefix, wait_for

# Each row against each, three times: longer than any test waits.
LONG = (
    "SELECT count(*) FROM events a, events b, events c, events d, events e "
    "WHERE a.USER_ID || b.USER_ID || c.USER_ID || d.USER_ID || e.USER_ID = 'x'"
)
ROWS = 400


def ask(platform: Platform, statement: str, **more: Any) -> httpx.Response:
    return platform.http.post(
        f"{platform.console_url}/sql", json={"query": statement, "engine": "spark", **more}, timeout=240
    )


@pytest.fixture(scope="module")
def prefix(platform: Platform) -> str:
    """Of events that are in the lake."""
    prefix = new_prefix()
    assert platform.post([event(f"{prefix}-{number}") for number in range(ROWS)]).status_code == 200
    count = f"SELECT count(*) FROM events WHERE USER_ID LIKE '{prefix}-%'"
    wait_for(lambda: platform.sql(count) == [(ROWS,)], "the events are in the lake")
    return prefix


@contextmanager
def followed(platform: Platform) -> Iterator[SparkQuestionLog]:
    log = SparkQuestionLog(platform.settings.bootstrap)
    log.start()
    try:
        yield log
    finally:
        log.stop()


def is_clean(platform: Platform, log: SparkQuestionLog) -> bool:
    answers = platform.settings.data_dir / "pipeline" / "answers"
    return not log.all_questions() and not log.all_answers() and not list(answers.glob("*"))


def runs(log: SparkQuestionLog) -> bool:
    return any(answer.state == "RUNNING" for answer in log.all_answers().values())


def test_both_engines_and_the_command_answer_alike(platform: Platform, prefix: str) -> None:
    statement = (
        "SELECT EVENT_TYPE, SERVER_DATE, count(*) AS EVENTS, min(USER_ID) AS FIRST FROM events "
        f"WHERE USER_ID LIKE '{prefix}-%' GROUP BY ALL ORDER BY ALL"
    )
    by_spark = ask(platform, statement)
    assert by_spark.status_code == 200, by_spark.text
    by_duckdb = ask(platform, statement, engine="duckdb").json()
    answer = by_spark.json()
    assert sum(row[2] for row in answer["rows"]) == ROWS
    assert (answer["columns"], answer["types"], answer["rows"]) == (
        by_duckdb["columns"],
        by_duckdb["types"],
        by_duckdb["rows"],
    )
    (table,) = answer["tables"]
    assert (table["table"], table["engine"], table["freshness"]) == ("events", "spark", "lake")
    as_text = platform.http.post(
        f"{platform.console_url}/sql?engine=spark",
        content=statement,
        headers={"accept": "text/csv"},
        timeout=240,
    )
    assert as_text.text.splitlines()[0] == "EVENT_TYPE,SERVER_DATE,EVENTS,FIRST"
    assert len(as_text.text.splitlines()) == 1 + len(answer["rows"])
    command = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "sql", statement, "--engine", "spark", "-f", "json"],
        env=to_environment(platform.settings) | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert command.returncode == 0, command.stderr
    assert [list(row.values()) for row in json.loads(command.stdout)] == answer["rows"]
    assert command.stderr == b""
    with followed(platform) as log:
        wait_for(lambda: is_clean(platform, log), "nothing of the questions is left")


def test_what_spark_would_answer_differently_gets_the_reason(platform: Platform, prefix: str) -> None:
    refused = ask(platform, f"SELECT list(USER_ID) FROM events WHERE USER_ID = '{prefix}-1'")
    assert refused.status_code == 400
    assert refused.json()["error"] == "query_failed"
    assert "list()" in refused.json()["message"]


@pytest.mark.long
@pytest.mark.usefixtures("prefix")
def test_a_question_in_spark_is_cancelled_by_its_id(platform: Platform) -> None:
    with followed(platform) as log:
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(ask(platform, LONG, id="long-in-spark")))
        thread.start()
        wait_for(lambda: runs(log), "the question runs in Spark")
        state = platform.http.get(f"{platform.console_url}/sql/long-in-spark").json()["state"]
        assert "in Spark" in state
        assert platform.http.delete(f"{platform.console_url}/sql/long-in-spark").status_code == 200
        thread.join()
        assert (answers[0].status_code, answers[0].json()["error"]) == (409, "query_cancelled")
        wait_for(lambda: is_clean(platform, log), "nothing of the question is left")


@pytest.mark.long
@pytest.mark.usefixtures("prefix")
def test_a_client_that_goes_away_ends_its_question_in_spark(platform: Platform) -> None:
    with followed(platform) as log:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"{platform.console_url}/sql",
                json={"query": LONG, "engine": "spark"},
                timeout=httpx.Timeout(5, read=4),
                trust_env=False,
            )
        wait_for(lambda: is_clean(platform, log), "nothing of the question is left")
    assert ask(platform, "SELECT count(*) FROM events").status_code == 200


@pytest.mark.long
@pytest.mark.usefixtures("prefix")
def test_a_killed_pipeline_costs_the_question_and_nothing_else(platform: Platform) -> None:
    with followed(platform) as log:
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(ask(platform, LONG)))
        thread.start()
        wait_for(lambda: runs(log), "the question runs in Spark")
        platform.kill("pipeline")
        thread.join()
        assert (answers[0].status_code, answers[0].json()["error"]) == (503, "query_unavailable")
        at_once = ask(platform, "SELECT 1")
        assert at_once.status_code in (200, 503)
        wait_for(lambda: ask(platform, "SELECT 1 AS one").status_code == 200, "Spark answers again")
        wait_for(lambda: is_clean(platform, log), "nothing of the question is left")
