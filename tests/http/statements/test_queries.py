"""`/query`, `/query-stream`, `/inserts-stream`, `/close-query`: rows in every form, over either HTTP."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from headrace.client.cluster import Cluster
from headrace.http.statements.answers import DELIMITED, JSON, KSQL_JSON
from headrace.pipeline.catalogue.push_wishes import WISHES_TOPIC, PushWish, PushWishes
from headrace.pipeline.serving.service import StatementService
from tests.http.statements.duplex import Duplex
from tests.http.statements.test_ksql import ksql, stream


@contextmanager
def running_side(
    cluster: Cluster, rows: list[dict[str, Any]], end: str | None = None
) -> Iterator[list[PushWish]]:
    """A stand-in for the pipeline process: gives every wish the same rows; notes those that it saw."""
    seen: dict[str, PushWish] = {}
    current: list[PushWish] = []
    stopping = threading.Event()

    def follow() -> None:
        wishes = PushWishes(cluster)
        while not stopping.is_set():
            found = wishes.poll(0.05)
            current[:] = found.values()
            for wish in found.values():
                if wish.id not in seen:
                    seen[wish.id] = wish
                    for row in rows:
                        cluster.produce(wish.topic, None, json.dumps(row).encode())
                    if end is not None:
                        wishes.end(wish, end)
        wishes.close()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield current
    finally:
        stopping.set()
        thread.join()


def wait_until(condition: Any, seconds: float = 120.0) -> None:
    done = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        done.wait(0.02)
    raise AssertionError("it did not become so")


def insert(client: httpx.Client, name: str, *rows: str) -> None:
    assert ksql(client, "".join(f"INSERT INTO {name} VALUES ({row});" for row in rows)) == []


def table(name: str, columns: str = "id VARCHAR PRIMARY KEY, v BIGINT", **properties: object) -> str:
    given = {"KAFKA_TOPIC": f"'{name.lower()}'", "VALUE_FORMAT": "'JSON'", "PARTITIONS": 2, **properties}
    listed = ", ".join(f"{key}={value}" for key, value in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({listed});"


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def either(request: pytest.FixtureRequest, address: str) -> Iterator[httpx.Client]:
    """A client of each version of the protocol; HTTP/2 without TLS, as ksqlDB's Java client speaks it."""
    two = request.param == "HTTP/2"
    with httpx.Client(base_url=address, timeout=120, http1=not two, http2=two) as opened:
        assert opened.get("/info").http_version == request.param
        yield opened


def pulled(client: httpx.Client, text: str) -> list[list[Any]]:
    answer = client.post("/query-stream", json={"sql": text}, headers={"accept": JSON})
    assert answer.status_code == 200, answer.text
    _header, *rows = answer.json()
    return rows


def test_a_pull_query_in_every_format(either: httpx.Client, name: str) -> None:
    ksql(either, table(name))
    insert(either, name, "'a', 1", "'b', 2", "'a', 3")
    text = f"SELECT id, v FROM {name} WHERE id = 'a';"
    lines = either.post("/query-stream", json={"sql": text})
    assert lines.headers["content-type"] == DELIMITED
    header, *rows = [json.loads(line) for line in lines.text.splitlines()]
    assert (header["columnNames"], header["columnTypes"]) == (["ID", "V"], ["STRING", "BIGINT"])
    assert rows == [["a", 3]]
    array = either.post("/query-stream", json={"sql": text}, headers={"accept": JSON})
    assert array.headers["content-type"] == JSON
    assert array.json()[1:] == [["a", 3]]
    for path, field in (("/query", "ksql"), ("/query-stream", "sql")):
        streamed = either.post(path, json={field: text}, headers={"accept": KSQL_JSON})
        assert streamed.headers["content-type"] == KSQL_JSON
        header, *rows = streamed.json()
        assert header["header"]["schema"] == "`ID` STRING KEY, `V` BIGINT"
        assert rows == [{"row": {"columns": ["a", 3]}}]
    assert either.post("/query", json={"ksql": text}).json()[1:] == [{"row": {"columns": ["a", 3]}}]


def test_pull_queries_see_what_was_written_before_them(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    ksql(client, table(name))
    for number in range(20):
        insert(client, name, f"'k{number % 3}', {number}")
        assert pulled(client, f"SELECT v FROM {name} WHERE id = 'k{number % 3}';") == [[number]]
    # A record without value deletes the row.
    service.cluster.produce(name.lower(), b"k0", None)
    assert sorted(pulled(client, f"SELECT id, v FROM {name};")) == [["k1", 19], ["k2", 17]]
    assert pulled(client, f"SELECT * FROM {name} WHERE id = 'k0';") == []


def test_pull_queries_with_conditions(client: httpx.Client, name: str) -> None:
    ksql(client, table(name))
    insert(client, name, *(f"'k{number}', {number}" for number in range(6)))

    def ids(condition: str) -> list[str]:
        return sorted(row[0] for row in pulled(client, f"SELECT id FROM {name} WHERE {condition};"))

    assert ids("id IN ('k1', 'k4', 'no')") == ["k1", "k4"]
    assert ids("id > 'k3'") == ["k4", "k5"]
    assert ids("v BETWEEN 1 AND 2") == ["k1", "k2"]
    assert ids("id = 'k1' AND v = 2") == []
    assert ids("id = 'k1' OR v = 2") == ["k1", "k2"]
    assert ids("id LIKE 'k%' AND NOT v < 4") == ["k4", "k5"]
    assert ids("v / 2 = 1 AND UCASE(id) <> 'K3'") == ["k2"]
    assert len(pulled(client, f"SELECT * FROM {name} LIMIT 4;")) == 4
    some = "x.id = 'k2'"
    text = f"SELECT x.v + 1, x.*, UCASE(x.id) AS u, ROWPARTITION IS NULL FROM {name} x WHERE {some};"
    answer = client.post("/query-stream", json={"sql": text}, headers={"accept": JSON}).json()
    assert answer[0]["columnNames"] == ["KSQL_COL_0", "ID", "V", "U", "KSQL_COL_1"]
    assert answer[0]["columnTypes"] == ["BIGINT", "STRING", "BIGINT", "STRING", "BOOLEAN"]
    assert answer[1:] == [[3, "k2", 2, "K2", False]]


def test_a_topic_made_again_is_another_table(client: httpx.Client, name: str) -> None:
    for value in (1, 2):
        ksql(client, table(name))
        insert(client, name, f"'a{value}', {value}")
        assert pulled(client, f"SELECT * FROM {name};") == [[f"a{value}", value]]
        ksql(client, f"DROP TABLE {name} DELETE TOPIC;")


def test_windowed_tables(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, table(name, WINDOW_TYPE="'TUMBLING'", WINDOW_SIZE="'1 SECONDS'"))
    for start in (0, 1000, 2000):
        key = b"a" + struct.pack(">q", start)
        service.cluster.produce(name.lower(), key, json.dumps({"V": start}).encode())
    service.cluster.produce(name.lower(), b"b" + struct.pack(">q", 0), b'{"v": 7}')
    assert sorted(pulled(client, f"SELECT id, v FROM {name} WHERE id = 'a';")) == [
        ["a", 0],
        ["a", 1000],
        ["a", 2000],
    ]
    assert pulled(client, f"SELECT * FROM {name} WHERE id = 'b';") == [["b", 0, 1000, 7]]
    bounds = "id = 'a' AND WINDOWSTART >= 1000 AND WINDOWEND <= 2000"
    assert pulled(client, f"SELECT id, v FROM {name} WHERE {bounds};") == [["a", 1000]]
    texts = "id = 'a' AND WINDOWSTART > '1970-01-01T00:00:01.000'"
    assert pulled(client, f"SELECT id, v FROM {name} WHERE {texts};") == [["a", 2000]]


def test_pull_queries_on_streams(client: httpx.Client, name: str) -> None:
    ksql(client, stream(name, PARTITIONS=2))
    insert(client, name, "'a', 1", "'b', 2", "'a', 3")
    assert sorted(pulled(client, f"SELECT id, v FROM {name} WHERE v > 1;")) == [["a", 3], ["b", 2]]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM {name} GROUP BY id;",
        "SELECT * FROM no_{name};",
        "SELECT * FROM {name} WHERE no = 1;",
        "SHOW STREAMS;",
        "SELECT * FROM {name}; SELECT * FROM {name};",
        "PRINT no_topic;",
        "SELECT * FROM no_{name} EMIT CHANGES;",
    ],
)
def test_queries_that_fail(client: httpx.Client, name: str, text: str) -> None:
    ksql(client, stream(name))
    insert(client, name, "'a', 1")
    for path, field in (("/query", "ksql"), ("/query-stream", "sql")):
        answer = client.post(path, json={field: text.format(name=name)})
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40001), answer.text
        assert answer.json()["@type"] == "statement_error"


def test_a_push_query_gives_rows_as_they_come_until_its_limit(
    either: httpx.Client, service: StatementService, name: str
) -> None:
    ksql(either, stream(name))
    rows = [{"ID": "a", "V": 1}, {"ID": "b", "V": 2}, {"ID": "c", "V": None}]
    text = f"SELECT id, v FROM {name} EMIT CHANGES LIMIT 2;"
    with running_side(service.cluster, rows) as current:
        answer = either.post(
            "/query-stream", json={"sql": text, "properties": {"auto.offset.reset": "earliest"}}
        )
        header, *given = [json.loads(line) for line in answer.text.splitlines()]
        assert header["columnNames"] == ["ID", "V"]
        assert header["queryId"]
        assert given == [["a", 1], ["b", 2]]
        old = either.post("/query", json={"ksql": text}).json()
        assert old[0]["header"]["schema"] == "`ID` STRING, `V` BIGINT"
        assert old[-1] == {"finalMessage": "Limit Reached"}
        # The wish is taken back, and the topic of its rows is gone.
        wait_until(lambda: not current and not service.push.ids())
        wait_until(
            lambda: not [topic for topic in service.cluster.topics() if topic.startswith("_push_rows_")]
        )


def test_a_push_query_that_fails_says_why(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, stream(name))
    with running_side(service.cluster, [{"ID": "a", "V": 1}], end="no slots are free"):
        answer = client.post("/query", json={"ksql": f"SELECT id, v FROM {name} EMIT CHANGES;"}).json()
    assert answer[1] == {"row": {"columns": ["a", 1]}}
    assert answer[2]["errorMessage"]["message"] == "no slots are free"


def test_a_push_query_that_ends_by_itself(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, stream(name))
    with running_side(service.cluster, [], end=""):
        answer = client.post("/query", json={"ksql": f"SELECT id, v FROM {name} EMIT CHANGES;"}).json()
    assert answer[1:] == [{"finalMessage": "Query Completed"}]


def test_closing_a_push_query(
    either: httpx.Client, service: StatementService, name: str, address: str
) -> None:
    ksql(either, stream(name))
    text = f"SELECT id, v FROM {name} EMIT CHANGES;"
    with (
        running_side(service.cluster, [{"ID": "a", "V": 1}]) as current,
        either.stream("POST", "/query-stream", json={"sql": text}) as answer,
    ):
        lines = answer.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        assert json.loads(next(lines)) == ["a", 1]
        assert [wish.id for wish in current] == [query_id]
        assert current[0].statement == text
        with httpx.Client(base_url=address, timeout=120) as other:
            assert other.post("/close-query", json={"queryId": query_id}).status_code == 200
        assert list(lines) == []
        wait_until(lambda: not current)
        unknown = either.post("/close-query", json={"queryId": query_id})
        assert (unknown.status_code, unknown.json()["message"]) == (400, f"No query with id {query_id}")


def test_push_queries_are_shown_and_terminated(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    ksql(client, stream(name))
    text = f"SELECT id, v FROM {name} EMIT CHANGES;"
    with (
        running_side(service.cluster, [{"ID": "a", "V": 1}]),
        client.stream("POST", "/query-stream", json={"sql": text}) as answer,
    ):
        lines = answer.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        assert query_id.startswith(f"TRANSIENT_{name}_")
        (queries,) = ksql(client, "SHOW QUERIES;")
        found = [query for query in queries["queries"] if query["id"] == query_id]
        assert [(query["queryType"], query["queryString"]) for query in found] == [("PUSH", text)]
        (ended,) = ksql(client, f"TERMINATE {query_id};")
        assert (ended["@type"], ended["wasTerminated"]) == ("terminate_query", True)
        assert [json.loads(line) for line in lines] in ([], [["a", 1]])


def test_a_client_that_goes_takes_its_wish_with_it(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    ksql(client, stream(name))
    with running_side(service.cluster, [{"ID": "a", "V": 1}]) as current:
        with client.stream(
            "POST", "/query-stream", json={"sql": f"SELECT id, v FROM {name} EMIT CHANGES;"}
        ) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            assert next(lines)
            assert current
        wait_until(lambda: not current and not service.push.ids())


def test_a_wish_that_is_not_renewed_counts_no_more(service: StatementService) -> None:
    wishes = PushWishes(service.cluster)
    wish = PushWish(id="dead", statement="…", properties=(), topic="t", alive_until=1000)
    value = json.dumps({"id": "dead", "statement": "…", "properties": [], "topic": "t", "alive_until": 1000})
    service.cluster.produce(WISHES_TOPIC, b"dead", value.encode())
    service.cluster.produce(WISHES_TOPIC, b"odd", b"no wish")
    wait_until(lambda: wishes.poll(0.05, now_ms=999) == {"dead": wish})
    assert wishes.poll(0, now_ms=1000) == {}
    wishes.close()


def test_printing_a_topic(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, stream(name))
    service.cluster.produce(name.lower(), b"k", b'{"v": 1}', timestamp_ms=1_700_000_000_123)
    service.cluster.produce(name.lower(), None, None, timestamp_ms=1_700_000_000_124)
    answer = client.post("/query", json={"ksql": f"PRINT '{name.lower()}' FROM BEGINNING LIMIT 2;"})
    assert answer.text.splitlines() == [
        "Key format: KAFKA_STRING",
        "Value format: JSON or KAFKA_STRING",
        'rowtime: 2023/11/14 22:13:20.123 Z, key: k, value: {"v": 1}, partition: 0',
        "rowtime: 2023/11/14 22:13:20.124 Z, key: <null>, value: <null>, partition: 0",
    ]


def test_inserts_are_acknowledged_one_by_one(either: httpx.Client, name: str) -> None:
    ksql(either, stream(name))
    lines = [{"target": name.lower()}, {"id": "a", "v": 1}, {"ID": "b", "`V`": 2}, {"id": "c"}]
    answer = either.post("/inserts-stream", content="\n".join(json.dumps(line) for line in lines))
    assert answer.headers["content-type"] == DELIMITED
    acknowledged = [json.loads(line) for line in answer.text.splitlines()]
    assert acknowledged == [{"status": "ok", "seq": number} for number in range(3)]
    assert sorted(pulled(either, f"SELECT id, v FROM {name};")) == [["a", 1], ["b", 2], ["c", None]]
    body = "\n".join(json.dumps(line) for line in lines[:2]) + "\nno json\n" + json.dumps(lines[2])
    wrong = either.post("/inserts-stream", content=body, headers={"accept": JSON}).json()
    assert wrong[0] == {"status": "ok", "seq": 0}
    assert (wrong[1]["status"], wrong[1]["seq"], wrong[1]["error_code"]) == ("error", 1, 40000)
    assert len(wrong) == 2
    bad_type = either.post(
        "/inserts-stream", content=json.dumps(lines[0]) + "\n" + json.dumps({"v": "x"})
    ).text
    assert "expected type BIGINT" in json.loads(bad_type)["message"]


@pytest.mark.parametrize("body", ["", "no json", "{}", '{"target": "nothing"}'])
def test_inserts_into_nothing_are_refused(client: httpx.Client, body: str) -> None:
    answer = client.post("/inserts-stream", content=body)
    assert (answer.status_code, answer.json()["@type"]) == (400, "generic_error")


def test_inserts_are_acknowledged_while_the_request_goes_on(
    address: str, name: str, client: httpx.Client
) -> None:
    """Each row is sent only after the one before was acknowledged: over HTTP/2, as the Java client does."""
    ksql(client, stream(name))
    with Duplex(address, "/inserts-stream") as conversation:
        conversation.send(json.dumps({"target": name}))
        for number in range(3):
            conversation.send(json.dumps({"id": "a", "v": number}))
            assert json.loads(conversation.line()) == {"status": "ok", "seq": number}
        conversation.end()
    assert len(pulled(client, f"SELECT * FROM {name};")) == 3
