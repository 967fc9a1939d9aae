"""The console in a real browser, on the whole platform."""

from __future__ import annotations

import json
import subprocess

from playwright.sync_api import Browser, expect

from tests.browser import watched_page
from tests.running_platform import Platform, event, new_prefix, wait_for


def test_an_event_sent_with_curl_arrives_on_the_page(platform: Platform, browser: Browser) -> None:
    user = f"{new_prefix()}-0"
    # The topics are there from the first event on; this one makes sure of it.
    platform.post(event(f"{user}-before"))
    platform.wait_in_lake(user, 1)
    wait_for(lambda: platform.flow()["lake"] > 0, "it is counted")
    flow = platform.settled_flow()
    before = {stage: flow[stage] for stage in ("accepted", "avro", "lake")}
    page, watch = watched_page(browser, platform.console_url)
    page.goto("/")
    for stage, count in before.items():
        expect(page.locator(f"[data-count={stage}]")).to_have_text(f"{count:,}")
    newest = page.context.new_page()
    watch.attach(newest)
    newest.goto("/console/topics/events_avro")
    command = ["curl", "--silent", "--show-error", "--header", "Content-Type: application/json"]
    command += ["--data", json.dumps(event(user)), platform.events_url]
    answer = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    )
    assert answer["accepted"][0]["topic"] == "events"
    # On the topic's page the message shows up, decoded from Avro; on the overview each stage counts one more.
    expect(newest.locator(".message", has_text=user).filter(has_not_text="-before").first).to_be_visible()
    for stage, count in before.items():
        expect(page.locator(f"[data-count={stage}]")).to_have_text(f"{count + 1:,}")
    assert watch.problems == []
