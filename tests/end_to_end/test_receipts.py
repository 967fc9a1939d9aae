"""From the receipt of an event to the answer that has it, on a real platform: read your own write."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pydruid.db
import pytest
from confluent_kafka import Producer

from headrace.core.settings import to_environment
from tests.running_platform import Platform, event, new_prefix

COUNT = "SELECT count(*) FROM events WHERE USER_ID LIKE '{prefix}-%'"


def post(platform: Platform, events: list[dict[str, str]]) -> dict[str, Any]:
    """The answer of the events API."""
    answer = platform.post(events)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def text(accepted: dict[str, Any]) -> str:
    return f"{accepted['topic']}/{accepted['partition']}/{accepted['offset']}"


def receipt(platform: Platform, accepted: dict[str, Any], **parameters: Any) -> httpx.Response:
    url = f"{platform.console_url}/receipts/{text(accepted)}"
    return platform.http.get(url, params={"timeout": 240, **parameters} if parameters else {})


def ask(platform: Platform, statement: str, **more: Any) -> Any:
    answer = platform.http.post(f"{platform.console_url}/sql", json={"query": statement, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def test_events_are_seen_where_their_receipts_say_so(platform: Platform) -> None:
    prefix = new_prefix()
    accepted = post(platform, [event(f"{prefix}-{number}") for number in range(5)])["accepted"]
    for each in accepted:
        seen = receipt(platform, each, wait="sql")
        assert (seen.status_code, seen.json()["sql"]) == (200, "visible"), seen.text
    assert ask(platform, COUNT.format(prefix=prefix)) == [[5]]
    for each in accepted:
        seen = receipt(platform, each, wait="lake")
        (table,) = seen.json()["tables"]
        assert (seen.status_code, table["table"], table["lake"]) == (200, "events", "visible"), seen.text
        (query,) = seen.json()["queries"]
        assert (query["state"], query["sink"]) == ("written", "events_avro")
        # Without waiting it says the same.
        assert receipt(platform, each).json()["lake"] == "visible"
    assert ask(platform, COUNT.format(prefix=prefix), freshness="lake") == [[5]]


def test_questions_see_what_was_posted_just_before(platform: Platform) -> None:
    prefix = new_prefix()
    count = COUNT.format(prefix=prefix)
    for number in range(1, 21):
        answer = post(platform, [event(f"{prefix}-{number}")])
        assert ask(platform, count, after=answer, after_seconds=240) == [[number]]
    answer = post(platform, [event(f"{prefix}-21"), event(f"{prefix}-22")])
    assert ask(platform, count, after=answer["accepted"], after_seconds=240, freshness="lake") == [[22]]


@pytest.mark.long
def test_every_door_can_wait(platform: Platform) -> None:
    prefix = new_prefix()
    settings, count = platform.settings, COUNT.format(prefix=prefix)
    (accepted,) = post(platform, [event(f"{prefix}-1")])["accepted"]
    context = {"after": text(accepted), "afterSeconds": 240}
    druid = pydruid.db.connect(
        host=settings.host, port=settings.query_port, path="/druid/v2/sql/", scheme="http", context=context
    )
    with closing(druid), closing(druid.cursor()) as cursor:
        assert [tuple(row) for row in cursor.execute(count)] == [(1,)]
    (accepted,) = post(platform, [event(f"{prefix}-2")])["accepted"]
    with psycopg.connect(
        host=settings.host, port=settings.postgres_port, user="analyst", dbname="headrace"
    ) as postgres:
        postgres.execute("SET headrace.after_seconds = 240")
        postgres.execute(f"SET headrace.after = '{text(accepted)}'")
        assert postgres.execute(count).fetchall() == [(2,)]
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            postgres.execute("SET headrace.after = 'nothing'")
    (accepted,) = post(platform, [event(f"{prefix}-3")])["accepted"]
    command = [str(Path(sys.executable).with_name("headrace")), "sql", count, "--format", "csv"]
    said = subprocess.run(
        [*command, "--after", text(accepted)],
        env=to_environment(settings),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines()[-1] == "3"


def test_the_receipt_of_a_bad_event_has_the_reason(platform: Platform) -> None:
    prefix = new_prefix()
    (good, bad) = post(platform, [event(f"{prefix}-1"), event(f"{prefix}-2", Server_Time="yesterday")])[
        "accepted"
    ]
    seen = receipt(platform, bad, wait="sql")
    assert (seen.status_code, seen.json()["sql"], seen.json()["lake"]) == (200, "dead_letter", "dead_letter")
    (letter,) = seen.json()["dead_letters"]
    # The statement takes any text for a time; the folder of the table must be a date.
    assert (letter["topic"], letter["by"]) == ("events_avro_dlq", seen.json()["tables"][0]["connector"])
    assert "yesterday" in letter["reason"]
    # A question waits for what can come, and no longer.
    assert ask(platform, COUNT.format(prefix=prefix), after=[text(good), text(bad)], after_seconds=240) == [
        [1]
    ]


@pytest.mark.long
def test_a_record_that_the_statement_cannot_read(platform: Platform) -> None:
    """What another client has written, as the events API takes no such event."""
    offsets: list[tuple[int, int]] = []
    producer = Producer({"bootstrap.servers": platform.settings.bootstrap})
    producer.produce(
        "events", b"no JSON", on_delivery=lambda _, sent: offsets.append((sent.partition(), sent.offset()))
    )
    assert producer.flush(120) == 0
    ((partition, offset),) = offsets
    seen = receipt(platform, {"topic": "events", "partition": partition, "offset": offset}, wait="lake")
    assert (seen.status_code, seen.json()["lake"]) == (200, "dead_letter"), seen.text
    letters = {each["by"]: each for each in seen.json()["dead_letters"]}
    assert letters["CSAS_EVENTS_AVRO_1"]["topic"] == "events_dlq"
    assert letters["CSAS_EVENTS_AVRO_1"]["reason"] == "The value is not a JSON object."


def test_what_is_no_event(platform: Platform) -> None:
    (accepted,) = post(platform, [event(f"{new_prefix()}-1")])["accepted"]
    beyond = receipt(platform, accepted | {"offset": 10**12})
    assert (beyond.status_code, beyond.json()["error"]) == (404, "event_not_found")
    unknown = receipt(platform, accepted | {"topic": "no_such_topic_at_all"})
    assert (unknown.status_code, unknown.json()["error"]) == (404, "no_such_topic")


@pytest.mark.long
def test_receipts_while_the_pipeline_is_killed(platform: Platform) -> None:
    prefix = new_prefix()
    count, posted = COUNT.format(prefix=prefix), 0
    for _ in range(2):
        killed = platform.kill("pipeline")
        answers = [post(platform, [event(f"{prefix}-{posted + number}")]) for number in range(20)]
        posted += 20
        late = platform.http.post(
            f"{platform.console_url}/sql", json={"query": count, "after": answers[-1], "after_seconds": 0.5}
        )
        assert late.status_code in (200, 504), late.text
        if late.status_code == 504:
            assert "records to read up to it" in late.json()["message"], late.text
        else:
            assert late.json()["rows"] == [[posted]]
        platform.wait_restarted("pipeline", after=killed)
        assert ask(platform, count, after=answers, after_seconds=240) == [[posted]]
        for answer in answers:
            (accepted,) = answer["accepted"]
            seen = receipt(platform, accepted, wait="lake")
            assert (seen.status_code, seen.json()["lake"]) == (200, "visible"), seen.text
    assert ask(platform, count, freshness="lake") == [[posted]]
