"""The pages as HTML: what they show, what they escape, and the headers they come with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from headrace.console import rendering
from headrace.console.app import create_console_app
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import Gap, QueryProgress
from tests.console.fakes import SCRIPT, FakeServices, message, topic

PAGES = ("/", "/console/topics", "/console/topics/events", "/console/sql")


@pytest.fixture
def client(fake: FakeServices) -> Iterator[TestClient[Litestar]]:
    with TestClient(create_console_app(fake.services)) as client:
        yield client


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


class Addresses(HTMLParser):
    """Every address that a page loads or offers, and every inline script or style in it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.found += [
            given[name] or "" for name in ("src", "href", "action", "sse-connect") if name in given
        ]
        if (tag == "script" and "src" not in given) or tag == "style":
            self.inline.append(tag)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]


def test_the_overview_shows_the_flow_with_its_counts(client: TestClient[Litestar]) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    text = text_of(page.text)
    for words in (
        "1,200 events accepted",
        "1,150 distinct records",
        "1,100 rows committed",
        "Dead letters",
        "20 waiting",  # 1200 - 1150 - 30
        "50 waiting",  # 1150 - 1100
        "2 partitions",
        "2.5 % of accepted",
    ):
        assert words in text


def test_the_overview_shows_both_latencies_and_the_queries(client: TestClient[Litestar]) -> None:
    text = text_of(client.get("/").text)
    assert "Avro latency 3.2 ms 9.1 ms 48 ms" in text
    assert "latency 650 ms 1.13 s 1.84 s" in text
    assert "events_to_avro RUNNING real-time" in text


def test_the_overview_shows_who_is_behind_starved_or_has_gaps(fake: FakeServices) -> None:
    progress = QueryProgress(
        positions={}, behind_records=12_345, behind_ms=61_000, advanced_at=1, starved="no batch has ended"
    )
    gap = Gap(topic="events", topic_id="i", partition=2, first=5, end=9, at=1)
    fake.change_queries(progress=progress, gaps=(gap,))
    with TestClient(create_console_app(fake.services)) as client:
        page = text_of(client.get("/").text)
    for words in ("STARVED", "61.0 s, 12,345 records", "no batch has ended", "partition 2: offsets 5 to 8"):
        assert words in page


def test_an_overview_of_nothing_says_what_is_to_come(fake: FakeServices) -> None:
    fake.make_empty()
    with TestClient(create_console_app(fake.services)) as client:
        overview, topics = client.get("/"), client.get("/console/topics")
    assert overview.status_code == 200
    assert "not created yet" in overview.text
    assert "No query has reported yet" in overview.text
    assert "No topics yet" in topics.text


def test_the_topics_come_with_partitions_and_offsets(client: TestClient[Litestar]) -> None:
    text = text_of(client.get("/console/topics").text)
    assert "events 1,200 2 0 0–700 1 0–500" in text  # noqa: RUF001 - a dash as the page shows it
    assert text.index("events_avro") < text.index("_schemas"), "the platform's own topics come last"
    assert "Topic Offsets Partitions" in text
    assert "Messages" not in text, "offsets are not messages: there may be fewer"


def test_a_topic_shows_its_newest_messages_decoded(fake: FakeServices, client: TestClient[Litestar]) -> None:
    fake.messages["events"] = [
        message({"Event_Type": "Search"}, offset=41, headers={"trace": "abc"}),
        message(None, offset=40, key=None),
    ]
    text = text_of(client.get("/console/topics/events").text)
    assert "Latest Offsets Size" in text
    assert "700" in text
    for words in ("0 / 41", "2023-11-14 22:13:20.123", "key user-1", "json", "trace abc", "no key", "null"):
        assert words in text
    assert "&#34;Event_Type&#34; : &#34;Search&#34;" in text


def test_a_topic_that_is_not_there_is_a_404_with_a_way_on(client: TestClient[Litestar]) -> None:
    page = client.get("/console/topics/nothing")
    assert page.status_code == 404
    assert "There is no topic `nothing`" in page.text
    assert page.headers["content-type"].startswith("text/html")


def test_an_unknown_path_answers_browsers_with_a_page_and_programs_with_json(
    client: TestClient[Litestar],
) -> None:
    page = client.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert "There is nothing at /nowhere" in page.text
    answer = client.get("/nowhere", headers={"Accept": "application/json"})
    assert answer.status_code == 404
    assert answer.json()["error"] == "no_such_page"


def test_a_failure_with_a_remedy_is_shown_with_it(fake: FakeServices, client: TestClient[Litestar]) -> None:
    fake.failure = HeadraceError("log_unavailable", "The log does not answer.", remedy="Start it <again>.")
    page = client.get("/console/topics")
    assert page.status_code == 503
    assert "The log does not answer." in page.text
    assert "Start it &lt;again&gt;." in page.text


def test_the_overview_opens_although_something_is_wrong_and_says_what(
    fake: FakeServices, client: TestClient[Litestar]
) -> None:
    fake.failure = HeadraceError("log_unavailable", "The log does not answer.", remedy="Start it.")
    page = client.get("/")
    assert page.status_code == 200
    assert "The log does not answer." in page.text
    assert "1,200" in page.text


def test_counts_that_are_not_up_to_date_say_so(fake: FakeServices) -> None:
    fake.flow = replace(fake.flow, problem="The lake could not be surveyed.")
    with TestClient(create_console_app(fake.services)) as client:
        assert "The lake could not be surveyed." in client.get("/").text


def test_a_failure_that_nobody_foresaw_keeps_its_details_to_the_log(
    fake: FakeServices, client: TestClient[Litestar], caplog: pytest.LogCaptureFixture
) -> None:
    fake.failure = RuntimeError("secret detail")
    page = client.get("/console/topics")
    assert page.status_code == 500
    assert "secret detail" not in page.text
    assert "secret detail" in caplog.text


def test_nothing_of_other_people_becomes_markup(fake: FakeServices) -> None:
    """In values, keys, headers, names of topics and queries, and messages of queries."""
    name = "events" + SCRIPT
    fake.topics.append(topic(name, 3))
    fake.messages["events"] = [
        message({"a": SCRIPT}),
        message(SCRIPT, key=SCRIPT, headers={SCRIPT: SCRIPT}, format=SCRIPT),
        message({SCRIPT: [SCRIPT]}),
    ]
    fake.change_queries(query=SCRIPT, message=SCRIPT, mode=SCRIPT, state=SCRIPT)
    with TestClient(create_console_app(fake.services)) as client:
        for path in ("/", "/console/topics", "/console/topics/events"):
            page = client.get(path)
            assert page.status_code == 200
            assert "gotcha" in page.text, f"the test proves nothing about {path}"
            assert SCRIPT not in page.text
            assert "<script>" not in page.text


@pytest.mark.parametrize("path", [*PAGES, "/nowhere", "/health", "/console/static/console.css"])
def test_every_answer_carries_a_strict_policy(client: TestClient[Litestar], path: str) -> None:
    headers = client.get(path, headers={"Accept": "text/html"}).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", PAGES)
def test_pages_name_no_other_host_and_hold_no_inline_code(client: TestClient[Litestar], path: str) -> None:
    addresses = Addresses()
    addresses.feed(client.get(path).text)
    assert addresses.inline == []
    assert addresses.found
    assert all(address.startswith("/") and not address.startswith("//") for address in addresses.found)
    for address in addresses.found:
        if address.startswith("/console/static"):
            answer = client.get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]


def test_pages_do_not_stand_in_the_way_of_the_json_doors(client: TestClient[Litestar]) -> None:
    for path in ("/flow", "/latency", "/topics", "/topics/events/messages", "/health"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/json"), path


def test_pages_without_assets_say_how_to_build_them(
    fake: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "missing_assets", lambda: ("htmx.min.js",))
    with TestClient(create_console_app(fake.services)) as client:
        page = client.get("/")
    assert page.status_code == 200
    assert "python -m headrace.console.build_assets" in page.text
    assert "Missing: htmx.min.js" in page.text
    assert "/vendor/" not in page.text
