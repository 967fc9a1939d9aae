"""Every HTTP door of a running platform refuses what was not meant for it or what another site's page sends.

Over real sockets, for every route of every door; then with the clients that people use; then from pages in a
real browser.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest
from playwright.sync_api import Browser, Page

from headrace.core.settings import describe
from headrace.pipeline.spark import session
from headrace.testing import EmbeddedBroker
from tests.browser import browser, chromium_path  # noqa: F401 - fixtures
from tests.http.open_doors import DOORS, NO_DOORS, OpenDoors, Route, documented_routes, open_doors
from tests.http.other_site import ATTEMPTS, FORM, SECONDS, served_page, wait_on

ROUTES = list(documented_routes())
POSTS = [route for route in ROUTES if route.method != "GET"]
CHANGES = [route for route in POSTS if route.path not in DOORS[route.port_setting].reads_text]
PROBES = {
    "ingest_port": "/health",
    "registry_port": "/subjects",
    "statements_port": "/info",
    "connect_port": "/connectors",
    "connect_second_port": "/health",
    "query_port": "/health/live",
}
EVIL = "http://evil.example"


@pytest.fixture(scope="module")
def other_site() -> Iterator[int]:
    """Its port. Names below `.example` lead to this machine in the tests' browser."""
    with served_page() as port:
        yield port


@pytest.fixture(scope="module")
def doors(
    broker: EmbeddedBroker, other_site: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenDoors]:
    changes = {
        "allowed_hosts": "headrace.example,*.inside.example",
        "allowed_origins": f"http://friend.example:{other_site}",
    }
    with open_doors(tmp_path_factory.mktemp("doors"), broker.bootstrap, **changes) as opened:
        yield opened


def ask(doors: OpenDoors, route: Route, headers: dict[str, str], body: bytes = b"") -> tuple[int, str, bytes]:
    """Status, content type and body of the answer. Sends no header by itself except a missing `Host`."""
    connection = http.client.HTTPConnection("127.0.0.1", doors.port(route.port_setting), timeout=SECONDS)
    try:
        own_host = any(name.lower() == "host" for name in headers)
        connection.putrequest(route.method, route.path, skip_host=own_host, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("content-type", ""), answer.read()
    finally:
        connection.close()


def refused(doors: OpenDoors, route: Route, headers: dict[str, str], body: bytes = b"") -> tuple[int, str]:
    """Status and message of a refusal, which is in the format of the door's API."""
    door = DOORS[route.port_setting]
    status, media_type, content = ask(doors, route, headers, body)
    assert status in (403, 415), (status, content)
    assert media_type == door.media_type
    return status, door.message(json.loads(content), status)


def test_every_port_of_the_platform_is_in_the_table() -> None:
    ports = {row.name for row in describe() if row.name.endswith("_port")}
    assert set(DOORS) | set(NO_DOORS) == ports, "a new port: does it check Host, Origin and content types?"


def test_the_processes_listen_on_no_other_port(doors: OpenDoors) -> None:
    listening = set()
    for process in (doors.gateway.process, doors.ingest, doors.connect, doors.query):
        root = psutil.Process(process.pid)
        for each in (root, *root.children(recursive=True)):
            listening |= {
                connection.laddr.port
                for connection in each.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
            }
    assert listening == {doors.port(setting) for setting in (*DOORS, "postgres_port")}


def test_every_door_has_routes_in_the_table() -> None:
    assert {route.port_setting for route in ROUTES} == set(DOORS)
    assert {route.port_setting for route in POSTS} == set(DOORS)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_request_for_another_host_is_refused(doors: OpenDoors, route: Route) -> None:
    port = doors.port(route.port_setting)
    status, message = refused(doors, route, {"Host": f"evil.example:{port}"})
    assert status == 403
    assert f"evil.example:{port}" in message
    assert "allowed_hosts" in message


@pytest.mark.parametrize("route", ROUTES, ids=str)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"},
    ],
    ids=["origin", "null", "hidden", "json"],
)
def test_a_request_of_another_site_s_page_is_refused(
    doors: OpenDoors, route: Route, headers: dict[str, str]
) -> None:
    status, message = refused(doors, route, headers)
    assert status == 403
    assert "allowed_origins" in message


@pytest.mark.parametrize("route", CHANGES, ids=str)
@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Mozilla/5.0"},
        {"User-Agent": "Mozilla/5.0"},
    ],
    ids=["text", "multipart", "form", "none"],
)
def test_what_a_page_can_send_unasked_changes_nothing(
    doors: OpenDoors, route: Route, headers: dict[str, str]
) -> None:
    status, message = refused(doors, route, headers, b"{}")
    assert status == 415
    assert "application/json" in message


@pytest.mark.parametrize("setting", DOORS)
@pytest.mark.parametrize("path", ["/", "/no/such/page", "//evil.example/"])
def test_a_path_that_does_not_exist_is_no_way_around(doors: OpenDoors, setting: str, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "DELETE", "PROPFIND"):
        route = Route(port_setting=setting, method=method, path=path)
        assert refused(doors, route, {"Host": "evil.example"})[0] == 403
        assert refused(doors, route, {"Origin": EVIL})[0] == 403


@pytest.mark.parametrize("setting", DOORS)
def test_http2_is_checked_too(doors: OpenDoors, setting: str) -> None:
    with httpx.Client(http1=False, http2=True, timeout=SECONDS, base_url=doors.url(setting)) as client:
        path = next(route.path for route in ROUTES if (route.port_setting, route.method) == (setting, "GET"))
        assert client.get(path).status_code != 403
        evil = client.get(path, headers={"host": "evil.example"})
        assert (evil.http_version, evil.status_code) == ("HTTP/2", 403)
        assert client.get(path, headers={"origin": EVIL}).status_code == 403


@pytest.mark.parametrize("setting", DOORS)
def test_a_web_socket_of_another_site_s_page_is_refused(doors: OpenDoors, setting: str) -> None:
    route = Route(port_setting=setting, method="GET", path="/")
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert ask(doors, route, {**upgrade, "Origin": EVIL})[0] == 403


@pytest.mark.parametrize("setting", DOORS)
@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:1", "10.9.8.7", "headrace.example", "a.inside.example"],
)
def test_own_names_addresses_and_listed_hosts_are_answered(doors: OpenDoors, setting: str, host: str) -> None:
    route = Route(port_setting=setting, method="GET", path=PROBES.get(setting, "/topics"))
    assert ask(doors, route, {"Host": host})[0] == 200
    assert ask(doors, route, {"Host": host, "Origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize("setting", DOORS)
def test_a_health_check_without_a_host_is_answered(doors: OpenDoors, setting: str) -> None:
    with socket.create_connection(("127.0.0.1", doors.port(setting)), SECONDS) as connection:
        connection.sendall(f"GET {PROBES.get(setting, '/topics')} HTTP/1.0\r\n\r\n".encode())
        assert connection.recv(100).split(b" ")[1] == b"200"


def test_the_log_takes_no_http_request_for_its_protocol(broker: EmbeddedBroker) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    api_versions = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
    request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n" + api_versions
    with socket.create_connection((host, int(port)), SECONDS) as connection:
        connection.sendall(request)
        assert connection.recv(100) == b""


def test_spark_s_page_ends_no_jobs() -> None:
    assert session._SQL_SETTINGS["spark.ui.killEnabled"] == "false"


class TestClientsThatPeopleUse:
    """Through the checks. The clients of the registry and of ksqlDB are in the tests of their doors."""

    def curl(self, *arguments: str) -> Any:
        curl = shutil.which("curl")
        assert curl is not None
        done = subprocess.run(
            [curl, "--silent", "--show-error", "--max-time", "60", *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def test_curl_as_in_ksqldb_s_documentation_has_no_content_type(self, doors: OpenDoors) -> None:
        url = f"http://localhost:{doors.settings.statements_port}/ksql"
        command = ("-X", "POST", url, "-H", "Accept: application/vnd.ksql.v1+json")
        (entity,) = self.curl(*command, "-d", '{"ksql": "LIST STREAMS;", "streamsProperties": {}}')
        assert "streams" in entity

    def test_curl_as_in_the_acceptance_commands(self, doors: OpenDoors) -> None:
        url = f"http://localhost:{doors.settings.registry_port}/subjects/by_curl/versions"
        command = ("-X", "POST", "-H", "Content-Type:application/json", "--data", '{"schema": "\\"int\\""}')
        assert self.curl(*command, url)["id"] > 0

    def test_curl_sends_sql_as_it_is(self, doors: OpenDoors) -> None:
        assert self.curl(f"{doors.url('console_port')}/sql", "-d", "SELECT 1")["rows"] == [[1]]

    def test_an_event_needs_a_content_type(self, doors: OpenDoors) -> None:
        url = f"{doors.url('ingest_port')}/events"
        event = '{"User_ID": "ann"}'
        assert self.curl(url, "-d", event)["error"] == "unsupported_media_type"
        assert self.curl(url, "-H", "Content-Type:", "-d", event)["error"] == "unsupported_media_type"
        assert self.curl(url, "-H", "Content-Type: application/json", "-d", event)["accepted"]

    def test_bodies_without_a_type_are_taken_where_the_original_takes_them(self, doors: OpenDoors) -> None:
        statement = httpx.post(
            f"{doors.url('statements_port')}/ksql", content=b'{"ksql": "LIST TOPICS;"}', timeout=SECONDS
        )
        schema = httpx.post(
            f"{doors.url('registry_port')}/subjects/untyped/versions",
            content=b'{"schema": "\\"int\\""}',
            timeout=SECONDS,
        )
        assert (statement.status_code, schema.status_code) == (200, 200)


class TestPagesInABrowser:
    @pytest.fixture
    def page(self, browser: Browser) -> Page:  # noqa: F811 - the fixture
        return browser.new_context().new_page()

    @pytest.fixture
    def streams(self, doors: OpenDoors) -> list[str]:
        """A stream with a topic for each attempt."""
        names = [f"S_{uuid.uuid4().hex[:10]}".upper() for _ in range(len(ATTEMPTS) + 1)]
        for name in names:
            with_topic = f"WITH (KAFKA_TOPIC='{name}', PARTITIONS=1, VALUE_FORMAT='JSON')"
            self.execute(doors, f"CREATE STREAM {name} (a VARCHAR) {with_topic};")
        return names

    @staticmethod
    def execute(doors: OpenDoors, statement: str) -> Any:
        url = f"{doors.url('statements_port')}/ksql"
        return httpx.post(url, json={"ksql": statement}, timeout=SECONDS).raise_for_status().json()

    def topics(self, doors: OpenDoors) -> set[str]:
        answer = httpx.get(f"{doors.url('console_port')}/topics", timeout=SECONDS).json()
        return {topic["name"] for topic in answer["topics"]}

    @staticmethod
    def drop(name: str) -> str:
        return json.dumps({"ksql": f"DROP STREAM {name} DELETE TOPIC;"})

    def test_a_page_of_another_site_drops_no_topic(
        self, doors: OpenDoors, streams: list[str], other_site: int, page: Page
    ) -> None:
        url = f"http://127.0.0.1:{doors.settings.statements_port}/ksql"
        answers: list[tuple[str, int]] = []
        unsent: list[str] = []
        page.on("response", lambda response: answers.append((response.request.method, response.status)))
        page.on("requestfailed", lambda request: unsent.append(request.url))
        page.goto(f"http://evil.example:{other_site}/")
        answers.clear()
        for name, attempt in zip(streams, ATTEMPTS, strict=False):
            page.evaluate(
                f"async ([url, body]) => {{ try {{ await ({attempt}) }} catch {{}} }}",
                [url, self.drop(name)],
            )
        page.evaluate(FORM, [url, self.drop(streams[-1])])
        # The browser asked whether it may send JSON, and was refused; the rest it sent without asking.
        wait_on(page, lambda: len(answers) == len(streams) - 1)
        assert set(answers) == {("POST", 403)}
        assert url in unsent
        assert set(streams) <= self.topics(doors)

        # The same request from somebody else does it, so a page could have.
        self.execute(doors, json.loads(self.drop(streams[0]))["ksql"])
        assert streams[0] not in self.topics(doors)

    def test_a_page_whose_name_now_leads_here_drops_no_topic(
        self, doors: OpenDoors, streams: list[str], page: Page
    ) -> None:
        """DNS rebinding: the page came from the attacker's server, its next request goes to ours."""
        site = f"http://evil.example:{doors.settings.statements_port}"
        page.route(
            f"{site}/page",
            lambda route: route.fulfill(content_type="text/html", body="<!doctype html><title>x</title>"),
        )
        page.goto(f"{site}/page")
        post = """async (body) => {
          const headers = {'Content-Type': 'application/json'};
          const answer = await fetch('/ksql', {method: 'POST', headers, body});
          return [answer.status, await answer.text()];
        }"""
        status, text = page.evaluate(post, self.drop(streams[0]))
        assert status == 403
        assert "allowed_hosts" in text
        read = page.evaluate("async () => (await fetch('/info')).status")
        assert read == 403
        assert streams[0] in self.topics(doors)

    def test_other_doors_take_nothing_from_it_either(
        self, doors: OpenDoors, other_site: int, page: Page
    ) -> None:
        events = f"http://127.0.0.1:{doors.settings.ingest_port}/events"
        schemas = f"http://127.0.0.1:{doors.settings.registry_port}/subjects/of_a_page/versions"
        statuses: dict[str, int] = {}
        page.on("response", lambda response: statuses.update({response.url: response.status}))
        page.goto(f"http://evil.example:{other_site}/")
        send = """async ([url, body]) => {
          try { await fetch(url, {method: 'POST', mode: 'no-cors', body: new Blob([body])}) } catch {}
        }"""
        for url, body in ((events, '{"User_ID": "x"}'), (schemas, '{"schema": "\\"int\\""}')):
            page.evaluate(send, [url, body])
        wait_on(page, lambda: {events, schemas} <= set(statuses))
        assert (statuses[events], statuses[schemas]) == (403, 403)
        assert httpx.get(schemas, timeout=SECONDS).status_code == 404

    def test_a_listed_origin_may(self, doors: OpenDoors, other_site: int, page: Page) -> None:
        page.goto(f"http://friend.example:{other_site}/")
        answer = page.evaluate(
            """async (url) => {
              const headers = {'Content-Type': 'application/json'};
              const answer = await fetch(url, {method: 'POST', headers, body: '{"ksql": "LIST STREAMS;"}'});
              return [answer.status, await answer.json()];
            }""",
            f"http://127.0.0.1:{doors.settings.statements_port}/ksql",
        )
        assert answer[0] == 200
        assert "streams" in answer[1][0]

    def test_a_link_on_another_site_opens_the_console(
        self, doors: OpenDoors, other_site: int, page: Page
    ) -> None:
        page.goto(f"http://evil.example:{other_site}/")
        console = f"http://127.0.0.1:{doors.settings.console_port}/"
        with page.expect_navigation(url=console) as opened:
            page.evaluate("url => { location = url; }", console)
        assert opened.value is not None
        assert opened.value.status == 200
