"""The routes over real services: a log, a lake, and an HTTP client."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from litestar import Litestar
from litestar.testing import TestClient

from headrace.core.errors import HeadraceError
from headrace.http.query import app as query_app
from headrace.http.query.app import QueryServices, query_handlers
from headrace.http.query.forwarding import QueryProcess
from headrace.query.flow import FlowWatcher
from headrace.query.topics import TopicBrowser
from headrace.testing import EmbeddedBroker
from tests.ports import free_port
from tests.query.records import create_topic, produce, wait_until


def no_schema(schema_id: int) -> str:
    raise HeadraceError("schema_not_found", f"There is no schema {schema_id}.")


@pytest.fixture
def services(broker: EmbeddedBroker, topic_name: str) -> Iterator[QueryServices]:
    """The services of this test's own topics; the watcher is started where a test needs it."""
    flow = FlowWatcher(broker.bootstrap, topic_name, survey_seconds=0.1)
    sql = QueryProcess(f"http://127.0.0.1:{free_port()}")
    yield QueryServices(sql=sql, topics=TopicBrowser(broker.bootstrap, no_schema), flow=flow)
    flow.stop()


@pytest.fixture
def client(services: QueryServices) -> Iterator[TestClient[Litestar]]:
    with TestClient(Litestar(route_handlers=query_handlers(services), openapi_config=None)) as client:
        yield client


def check_error(response: httpx.Response, status: int, code: str) -> dict[str, str]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    content: dict[str, str] = response.json()
    assert set(content) == {"error", "message", "remedy"}
    assert content["error"] == code
    assert content["message"] != ""
    return content


def test_sql_without_a_query_process_says_what_is_wrong(client: TestClient[Litestar]) -> None:
    content = check_error(client.post("/sql", json={"query": "SELECT 1"}), 503, "query_unavailable")
    assert "headrace status" in content["remedy"]
    check_error(client.delete("/sql/some-id"), 503, "query_unavailable")


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
    client: TestClient[Litestar], services: QueryServices
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
    lost_services = QueryServices(sql=services.sql, topics=topics, flow=flow)
    with TestClient(Litestar(route_handlers=query_handlers(lost_services))) as other:
        wait_until(lambda: other.get("/health").status_code == 503, "the problem is seen")
        assert "could not describe" in other.get("/health").json()["problem"]
        assert other.get("/health/live").status_code == 200, "the gateway itself works"
        check_error(other.get("/topics"), 503, "log_unavailable")
    flow.stop()


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


def answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx.TransportError:
        return False
