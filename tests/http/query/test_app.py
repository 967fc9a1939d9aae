"""The routes over real services: a log, a lake, and an HTTP client."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from litestar import Litestar
from litestar.testing import TestClient

from headrace.core.errors import HeadraceError
from headrace.http.query import app as query_app
from headrace.http.query.app import MOST_BODY_BYTES, QueryServices, query_handlers
from headrace.query.flow import FlowWatcher
from headrace.query.sql import LakeQuery
from headrace.query.topics import TopicBrowser
from headrace.testing import EmbeddedBroker
from tests.ports import free_port
from tests.query.delta_tables import write_events
from tests.query.records import create_topic, produce, wait_until


def no_schema(schema_id: int) -> str:
    raise HeadraceError("schema_not_found", f"There is no schema {schema_id}.")


@pytest.fixture
def services(broker: EmbeddedBroker, topic_name: str, tmp_path: Path) -> Iterator[QueryServices]:
    """The services of this test's own topics; the watcher is started where a test needs it."""
    flow = FlowWatcher(broker.bootstrap, topic_name, survey_seconds=0.1)
    sql = LakeQuery(tmp_path / "lake")
    yield QueryServices(sql=sql, topics=TopicBrowser(broker.bootstrap, no_schema), flow=flow)
    flow.stop()
    sql.close()


@pytest.fixture
def client(services: QueryServices) -> Iterator[TestClient[Litestar]]:
    with TestClient(Litestar(route_handlers=query_handlers(services), openapi_config=None)) as client:
        yield client


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(
        tmp_path / "lake", [("ListingView", "2026-01-01", "1"), ("Listing, View", "2026-01-02", "2")]
    )
    return tmp_path / "lake"


def check_error(response: httpx.Response, status: int, code: str) -> dict[str, str]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    content: dict[str, str] = response.json()
    assert set(content) == {"error", "message", "remedy"}
    assert content["error"] == code
    assert content["message"] != ""
    return content


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    "request_body",
    [
        {"json": {"query": "SELECT USER_ID AS u, 1.5 AS d FROM events ORDER BY 1"}},
        {
            "content": "SELECT USER_ID AS u, 1.5 AS d FROM events ORDER BY 1",
            "headers": {"Content-Type": "text/plain"},
        },
        {"content": "SELECT USER_ID AS u, 1.5 AS d FROM events ORDER BY 1"},
        {
            "content": "SELECT USER_ID AS u, 1.5 AS d FROM events ORDER BY 1",
            "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        },
    ],
)
def test_sql_is_answered(client: TestClient[Litestar], request_body: dict[str, Any]) -> None:
    response = client.post("/sql", **request_body)
    assert response.status_code == 200
    assert response.json() == {
        "columns": ["u", "d"],
        "types": ["VARCHAR", "DECIMAL(2,1)"],
        "rows": [["1", 1.5], ["2", 1.5]],
    }


@pytest.mark.usefixtures("lake")
def test_sql_as_csv_and_ndjson(client: TestClient[Litestar]) -> None:
    query = {"query": "SELECT EVENT_TYPE, [1] AS l, NULL AS n FROM events ORDER BY 1"}
    response = client.post("/sql", json=query, headers={"Accept": "text/csv"})
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.text == 'EVENT_TYPE,l,n\r\n"Listing, View",[1],\r\nListingView,[1],\r\n'
    response = client.post("/sql", json=query, headers={"Accept": "application/x-ndjson"})
    assert response.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[1] == {"EVENT_TYPE": "ListingView", "l": [1], "n": None}
    response = client.post("/sql", json=query, headers={"Accept": "text/html, */*;q=0.1"})
    assert response.json()["columns"] == ["EVENT_TYPE", "l", "n"]


def test_a_failing_question_has_the_one_error_shape(client: TestClient[Litestar], tmp_path: Path) -> None:
    check_error(client.post("/sql", json={"query": "SELECT * FROM events"}), 404, "no_such_table")
    write_events(tmp_path / "lake", [("Search", "2026-01-01", "1")])
    content = check_error(
        client.post("/sql", json={"query": "SELECT nothing FROM events"}), 400, "query_failed"
    )
    assert "LINE 1" in content["message"]
    assert "EVENT_TYPE" in content["remedy"]


@pytest.mark.parametrize(
    ("request_body", "status", "code"),
    [
        ({"json": {"sql": "SELECT 1"}}, 400, "bad_request"),
        ({"json": {"query": 1}}, 400, "bad_request"),
        ({"json": ["SELECT 1"]}, 400, "bad_request"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "bad_request"),
        ({"content": b"\xff", "headers": {"Content-Type": "text/plain"}}, 400, "bad_request"),
        ({"content": b"", "headers": {"Content-Type": "text/plain"}}, 400, "query_failed"),
        ({"content": b"<a/>", "headers": {"Content-Type": "text/xml"}}, 415, "unsupported_media_type"),
        ({"content": b" " * (MOST_BODY_BYTES + 1)}, 413, "request_too_large"),
    ],
)
def test_a_bad_request_is_told_why(
    client: TestClient[Litestar], request_body: dict[str, Any], status: int, code: str
) -> None:
    check_error(client.post("/sql", **request_body), status, code)


def test_the_flow_is_counted(
    client: TestClient[Litestar], services: QueryServices, broker: EmbeddedBroker, topic_name: str
) -> None:
    services.flow.start()
    create_topic(broker.bootstrap, topic_name)
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 3)
    wait_until(lambda: client.get("/flow").json()["accepted"] == 3, "the events are counted")
    flow = client.get("/flow").json()
    assert set(flow) == {
        "accepted", "avro", "dead_letters", "lake", "latency_ms", "avro_latency_ms", "overall_latency_ms",
        "overall_avro_latency_ms", "queries", "problem",
    }  # fmt: skip
    assert (flow["avro"], flow["dead_letters"], flow["lake"]) == (0, 0, 0)
    assert flow["latency_ms"] == {"p50": None, "p90": None, "p99": None, "count": 0}
    assert client.get("/latency").json() == {name: flow[name] for name in flow if name.endswith("latency_ms")}


def test_topics_and_messages(client: TestClient[Litestar], broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=2)
    records = [{"value": json.dumps({"n": number}), "key": "k", "partition": 1} for number in range(3)]
    produce(broker.bootstrap, topic_name, [{**record, "headers": [("h", b"v")]} for record in records])
    topics = {topic["name"]: topic for topic in client.get("/topics").json()["topics"]}
    empty, filled = topics[topic_name]["partitions"]
    assert empty == {"partition": 0, "earliest": 0, "latest": 0, "bytes": 0}
    assert filled.pop("bytes") > 0
    assert filled == {"partition": 1, "earliest": 0, "latest": 3}
    messages = client.get(f"/topics/{topic_name}/messages", params={"limit": 2}).json()["messages"]
    assert [(message["offset"], message["value"]) for message in messages] == [(2, {"n": 2}), (1, {"n": 1})]
    assert messages[0]["key"] == "k"
    assert messages[0]["headers"] == {"h": "v"}
    assert messages[0]["format"] == "json"
    assert messages[0]["partition"] == 1
    assert abs(messages[0]["timestamp_ms"] - time.time() * 1000) < 600_000
    check_error(client.get("/topics/absent/messages"), 404, "no_such_topic")
    check_error(client.get(f"/topics/{topic_name}/messages?limit=0"), 400, "bad_request")
    check_error(client.get(f"/topics/{topic_name}/messages?limit=many"), 400, "bad_request")


def test_health_is_bad_while_the_log_does_not_answer(
    client: TestClient[Litestar], services: QueryServices, tmp_path: Path
) -> None:
    services.flow.start()
    wait_until(lambda: client.get("/health").status_code == 200, "all is well")
    found = client.get("/health").json()
    assert (found["status"], found["problem"], found["problems"]) == ("ok", "", [])
    assert client.get("/health/live").json() == {"status": "ok"}
    lost = f"127.0.0.1:{free_port()}"
    flow = FlowWatcher(lost, "events", survey_seconds=0.1)
    flow.start()
    topics = TopicBrowser(lost, no_schema, time_limit_seconds=0.5)
    lost_services = QueryServices(sql=LakeQuery(tmp_path), topics=topics, flow=flow)
    with TestClient(Litestar(route_handlers=query_handlers(lost_services))) as other:
        wait_until(lambda: other.get("/health").status_code == 503, "the problem is seen")
        assert "could not describe" in other.get("/health").json()["problem"]
        assert other.get("/health/live").status_code == 200, "the gateway itself works"
        check_error(other.get("/topics"), 503, "log_unavailable")
    flow.stop()


def test_what_nobody_foresaw_is_logged_and_hidden(
    services: QueryServices, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(services.sql, "run", broken)
    app = Litestar(route_handlers=query_handlers(services), logging_config=None)
    with TestClient(app, raise_server_exceptions=False) as client, caplog.at_level(logging.ERROR):
        content = check_error(client.post("/sql", json={"query": "SELECT 1"}), 500, "process_failed")
    assert "secret" not in json.dumps(content)
    assert "a secret detail" in caplog.text


class Server:
    """The routes on a real server and port, in a thread."""

    def __init__(self, services: QueryServices) -> None:
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self._app = Litestar(route_handlers=query_handlers(services), openapi_config=None)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        config = Config()
        config.bind = [f"127.0.0.1:{self._port}"]
        config.graceful_timeout = 1.0

        async def stopped() -> None:
            await asyncio.to_thread(self._stop.wait)

        await serve(self._app, config, shutdown_trigger=stopped)  # type: ignore[arg-type]

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_the_stream_sends_the_flow_when_it_changes_and_ends_with_the_watcher(
    services: QueryServices, broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_app, "STREAM_SECONDS", 0.05)
    seen: list[int] = []
    services.flow.start()
    with Server(services) as server, httpx.Client(base_url=server.address, timeout=120) as client:
        wait_until(lambda: answers(client, "/health"), "the server answers")
        with client.stream("GET", "/flow/stream") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = response.iter_lines()
            for line in lines:
                if line.startswith("data:") and line != "data: ":
                    seen.append(json.loads(line.removeprefix("data:"))["accepted"])
                    if seen == [0]:
                        create_topic(broker.bootstrap, topic_name)
                        produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 7)
                    if seen[-1] == 7:
                        break
            services.flow.stop()
            assert not any("accepted" in line for line in lines)
    assert seen[0] == 0
    assert seen[-1] == 7


def test_a_slow_question_does_not_hold_up_others(services: QueryServices, tmp_path: Path) -> None:
    endless = {"query": "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) % 7 = 3"}
    limited = LakeQuery(tmp_path / "lake", time_limit_seconds=2.0)
    slow_services = QueryServices(sql=limited, topics=services.topics, flow=services.flow)
    with (
        Server(slow_services) as server,
        httpx.Client(base_url=server.address, timeout=120) as client,
        ThreadPoolExecutor() as threads,
    ):
        wait_until(lambda: answers(client, "/flow"), "the server answers")
        slow = threads.submit(client.post, "/sql", json=endless)
        answered_meanwhile = 0
        while not slow.done():
            assert client.get("/flow").status_code == 200
            answered_meanwhile += 1
        content = check_error(slow.result(), 400, "query_failed")
    assert "stopped after 2 s" in content["message"]
    assert answered_meanwhile >= 2, "the first one was answered while the slow one ran"
    limited.close()


def answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx.TransportError:
        return False
