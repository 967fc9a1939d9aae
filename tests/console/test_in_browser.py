"""The console in a real browser, served by the real gateway on a real log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, expect

from headrace.testing import EmbeddedBroker
from tests.browser import watched_page
from tests.console.fakes import SCRIPT
from tests.gateway_process import GatewayProcess, gateway_settings, run_gateway
from tests.query_process import run_query_process


@pytest.fixture
def gateway(broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> Iterator[GatewayProcess]:
    with run_gateway(gateway_settings(tmp_path, broker.bootstrap, events_topic=topic_name)) as process:
        process.wait_until("ready")
        yield process


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap})


def send(producer: Producer, topic: str, *events: object) -> None:
    for event in events:
        producer.produce(topic, key="user-1", value=json.dumps(event))
    assert producer.flush(120) == 0


def test_an_event_appears_on_the_pages_that_are_open(
    browser: Browser, gateway: GatewayProcess, producer: Producer, topic_name: str
) -> None:
    send(producer, topic_name, {"Event_Type": "First"})
    overview, overview_watch = watched_page(browser, gateway.console)
    topic, topic_watch = watched_page(browser, gateway.console)
    overview.goto("/")
    expect(overview.locator("[data-count=accepted]")).to_have_text("1")
    expect(overview.locator("#live-status")).to_have_text("live")
    topic.goto(f"/console/topics/{topic_name}")
    expect(topic.locator(".message")).to_have_count(1)
    expect(topic.locator(".message").first).to_contain_text('"Event_Type": "First"')
    expect(topic.locator("#live-status")).to_have_text("live")

    send(producer, topic_name, {"Event_Type": "Second", "Note": SCRIPT})

    expect(topic.locator(".message")).to_have_count(2)
    expect(topic.locator(".message").first).to_contain_text("Second")
    expect(topic.locator(".message").first).to_contain_text(SCRIPT)
    expect(topic.locator("#total-offsets")).to_have_text("2")
    expect(overview.locator("[data-count=accepted]")).to_have_text("2")
    expect(overview.locator(".chart canvas")).to_have_count(2)
    assert topic_watch.problems == []
    assert overview_watch.problems == []


def test_the_sql_page_shows_answers_as_a_table_and_errors_with_their_remedy(
    browser: Browser, gateway: GatewayProcess
) -> None:
    with run_query_process(gateway.settings):
        _check_sql_page(browser, gateway)


def _check_sql_page(browser: Browser, gateway: GatewayProcess) -> None:
    page, watch = watched_page(browser, gateway.console)
    page.goto("/console/sql")
    page.locator("#statement").fill(f"SELECT 41 + 1 AS answer, {SCRIPT_AS_SQL} AS text, NULL AS nothing")
    page.locator("#statement").press("Control+Enter")
    expect(page.locator("#sql-result thead th")).to_have_text(["answer", "text", "nothing"])
    expect(page.locator("#sql-result tbody td")).to_have_text(["42", SCRIPT, "null"])
    expect(page.locator("#sql-summary")).to_have_text(re.compile(r"^1 row in \d+ ms$"))
    assert watch.problems == []

    page.locator("#statement").fill("SELECT * FROM no_such_table_at_all")
    page.locator("#run").click()
    expect(page.locator("#sql-error [role=alert] strong")).to_contain_text("table")
    expect(page.locator("#sql-error [role=alert] span")).not_to_be_empty()
    expect(page.locator("#sql-panel")).to_be_hidden()


SCRIPT_AS_SQL = "'" + SCRIPT.replace("'", "''") + "'"


def test_a_paused_list_of_messages_stands_still_and_then_catches_up(
    browser: Browser, gateway: GatewayProcess, producer: Producer, topic_name: str
) -> None:
    send(producer, topic_name, {"Event_Type": "First"})
    page, watch = watched_page(browser, gateway.console)
    page.goto(f"/console/topics/{topic_name}")
    expect(page.locator("#live-status")).to_have_text("live")
    page.locator("#pause").click()
    send(producer, topic_name, {"Event_Type": "Second"})
    expect(page.locator("#total-offsets")).to_have_text("2")
    expect(page.locator(".message")).to_have_count(1)
    page.locator("#pause").click()
    expect(page.locator(".message")).to_have_count(2)
    expect(page.locator(".message").first).to_contain_text("Second")
    assert watch.problems == []
