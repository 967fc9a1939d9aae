"""Druid's SQL API by its documentation: formats, headers, context, parameters, errors, cancelling."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import duckdb
import httpx
import pytest

from headrace.core.errors import HeadraceError
from headrace.http.druid.answers import DRUID_RULES
from headrace.http.druid.app import create_druid_app
from headrace.query.druid.asking import ThreadedEngine
from headrace.query.sql import QueryResult
from tests.http.registry.serving import served

ONE = "SELECT USER_ID, VIEWS FROM clicks WHERE EVENT_TYPE = 'Search'"


def ask(client: httpx.Client, query: str, **more: Any) -> httpx.Response:
    return client.post("/druid/v2/sql", json={"query": query, **more})


def rows(client: httpx.Client, query: str, **more: Any) -> Any:
    response = ask(client, query, **more)
    assert response.status_code == 200, response.text
    return response.json()


def test_objects_are_the_default(client: httpx.Client) -> None:
    response = ask(client, "SELECT __time, EVENT_TYPE, PRICE, VIEWS FROM clicks ORDER BY __time LIMIT 1")
    assert response.headers["content-type"] == "application/json"
    assert response.content == (
        b'[{"__time":"2026-01-01T10:00:00.000Z","EVENT_TYPE":"ListingView","PRICE":1.5,"VIEWS":1}]\n'
    )


@pytest.mark.parametrize(
    ("name", "media_type", "expected"),
    [
        ("array", "application/json", b'[["\xc3\xbc2",2]]\n'),
        ("object", "application/json", b'[{"USER_ID":"\xc3\xbc2","VIEWS":2}]\n'),
        ("arrayLines", "text/plain", b'["\xc3\xbc2",2]\n\n'),
        ("objectLines", "text/plain", b'{"USER_ID":"\xc3\xbc2","VIEWS":2}\n\n'),
        ("csv", "text/csv", b"\xc3\xbc2,2\n\n"),
    ],
)
def test_formats(client: httpx.Client, name: str, media_type: str, expected: bytes) -> None:
    response = ask(client, ONE, resultFormat=name)
    assert response.headers["content-type"].partition(";")[0] == media_type
    assert response.content == expected


def test_headers_with_types(client: httpx.Client) -> None:
    every = {"header": True, "typesHeader": True, "sqlTypesHeader": True}
    assert rows(client, ONE, resultFormat="array", **every) == [
        ["USER_ID", "VIEWS"], ["STRING", "LONG"], ["VARCHAR", "BIGINT"], ["ü2", 2],
    ]  # fmt: skip
    assert rows(client, ONE, **every)[0] == {
        "USER_ID": {"type": "STRING", "sqlType": "VARCHAR"},
        "VIEWS": {"type": "LONG", "sqlType": "BIGINT"},
    }
    assert rows(client, ONE, header=True)[0] == {"USER_ID": None, "VIEWS": None}
    response = ask(client, ONE, resultFormat="csv", **every)
    assert response.headers["X-Druid-SQL-Header-Included"] == "yes"
    assert response.text == "USER_ID,VIEWS\nSTRING,LONG\nVARCHAR,BIGINT\nü2,2\n\n"
    time = rows(client, "SELECT __time, TAGS FROM clicks", resultFormat="array", **every)
    assert time[1:3] == [["LONG", "ARRAY<STRING>"], ["TIMESTAMP", "ARRAY"]]


def test_no_rows(client: httpx.Client) -> None:
    nothing = "SELECT VIEWS FROM clicks WHERE false"
    assert ask(client, nothing).content == b"[]\n"
    assert ask(client, nothing, resultFormat="csv").content == b"\n"
    assert ask(client, nothing, header=True, resultFormat="array").json() == [["VIEWS"]]


def test_csv_can_be_read_again(client: httpx.Client) -> None:
    text = ask(
        client,
        """SELECT 'a,b', 'say "so"', 'two
lines', NULL, 1.5""",
        resultFormat="csv",
    ).text
    assert [*csv.reader(io.StringIO(text[:-1]))] == [["a,b", 'say "so"', "two\nlines", "", "1.5"]]
    assert ask(client, "SELECT CAST(NULL AS VARCHAR)", resultFormat="csv").text == '""\n\n'


def test_arrays_are_text_unless_the_context_says_otherwise(client: httpx.Client) -> None:
    query = "SELECT TAGS FROM clicks WHERE VIEWS = 1"
    assert rows(client, query) == [{"TAGS": '["a","b"]'}]
    assert rows(client, query, context={"sqlStringifyArrays": False}) == [{"TAGS": ["a", "b"]}]


def test_the_time_zone_of_the_context(client: httpx.Client) -> None:
    query = "SELECT FLOOR(__time TO DAY) AS d, EXTRACT(HOUR FROM __time) AS h FROM clicks WHERE VIEWS = 1"
    there = [{"d": "2026-01-01T00:00:00.000-08:00", "h": 2}]
    assert rows(client, query, context={"sqlTimeZone": "America/Los_Angeles"}) == there
    assert rows(client, f"SET sqlTimeZone = 'America/Los_Angeles'; {query}") == there
    assert rows(client, query) == [{"d": "2026-01-01T00:00:00.000Z", "h": 10}]


def test_parameters(client: httpx.Client) -> None:
    values = [
        {"type": "VARCHAR", "value": "x' OR '1'='1"}, {"type": "BIGINT", "value": -3},
        {"type": "DOUBLE", "value": 2.5}, {"type": "TIMESTAMP", "value": "2026-01-01 00:00:00"},
        {"type": "BOOLEAN", "value": True}, {"type": "VARCHAR", "value": None},
        {"type": "ARRAY", "value": ["a", None]}, {"type": "TIMESTAMP", "value": 1767225600000},
    ]  # fmt: skip
    found = rows(client, "SELECT ?, ?, ?, ?, ?, ?, ?, ?", parameters=values, resultFormat="array")
    day = "2026-01-01T00:00:00.000Z"
    assert found == [["x' OR '1'='1", -3, 2.5, day, True, None, '["a",null]', day]]
    assert rows(
        client,
        "SELECT TIME_FLOOR(__time, ?) AS d FROM clicks WHERE VIEWS = ?",
        parameters=[{"type": "VARCHAR", "value": "P1M"}, {"type": "INTEGER", "value": 2}],
    ) == [{"d": day}]
    few = ask(client, "SELECT ?")
    assert few.status_code == 400
    assert "1 parameters, the request 0 values" in few.json()["errorMessage"]


def test_text_and_forms(client: httpx.Client) -> None:
    for media_type, body in (
        ("text/plain", "SELECT 1 AS a"),
        ("application/x-www-form-urlencoded", "SELECT%20%31+AS+a"),
    ):
        response = client.post("/druid/v2/sql/", content=body, headers={"content-type": media_type})
        assert response.json() == [{"a": 1}]
    page = {"content-type": "text/plain", "user-agent": "Mozilla/5.0"}
    refused = client.post("/druid/v2/sql", content="SELECT 1", headers=page)
    assert (refused.status_code, refused.json()["category"]) == (415, "INVALID_INPUT")


def test_ids(client: httpx.Client) -> None:
    assert ask(client, "SELECT 1", context={"sqlQueryId": "mine"}).headers["X-Druid-SQL-Query-Id"] == "mine"
    assert len(ask(client, "SELECT 1").headers["X-Druid-SQL-Query-Id"]) == 36
    assert (
        ask(client, "SELECT nope", context={"sqlQueryId": "mine"}).headers["X-Druid-SQL-Query-Id"] == "mine"
    )
    assert ask(client, "SELECT 1", context={"sqlQueryId": "a\r\nb: c"}).status_code == 400


def test_the_shape_of_an_error(client: httpx.Client) -> None:
    response = ask(client, "SELECT VIEWS,\n  nope FROM clicks")
    assert response.status_code == 400
    assert response.json() == {
        "error": "druidException",
        "errorClass": None,
        "host": None,
        "errorCode": "invalidInput",
        "persona": "USER",
        "category": "INVALID_INPUT",
        "errorMessage": "Column 'nope' not found in any table (line 2, column 3).",
        "context": {"sourceType": "sql", "line": "2", "column": "3"},
    }


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (b"{", 400, "cannot be read"),
        (b"[]", 400, "cannot be read"),
        (b"{}", 400, "query"),
        (b'{"query": 1}', 400, "query"),
        (b'{"query": "SELECT 1", "resultFormat": "xml"}', 400, "no result format xml"),
        (b'{"query": "SELECT 1", "context": {"sqlTimeZone": "Mars"}}', 400, "no time zone 'Mars'"),
        (b'{"query": "SELECT 1", "context": {"timeout": "soon"}}', 400, "timeout soon"),
        (b'{"query": ""}', 400, "There is no statement"),
        (b"{\"query\": \"SELECT LOOKUP('a', 'b')\"}", 501, "LOOKUP is not supported"),
        (b'{"query": "SELECT ?", "parameters": [{"type": "BIGINT", "value": "x"}]}', 400, "x is no BIGINT"),
        (b'{"query": "' + b"x" * 5_000_000 + b'"}', 413, ""),
    ],
)
def test_bad_requests(client: httpx.Client, body: bytes, status: int, part: str) -> None:
    response = client.post("/druid/v2/sql", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert part in response.json()["errorMessage"]


def test_what_is_not_there(client: httpx.Client) -> None:
    for response in (client.get("/nothing"), client.get("/druid/v2/sql")):
        assert response.status_code in (404, 405)
        assert response.json()["error"] == "druidException"
    assert client.delete("/druid/v2/sql/nothing").status_code == 404


def test_explain(client: httpx.Client) -> None:
    (row,) = rows(client, "EXPLAIN PLAN FOR SELECT COUNT(*) FROM clicks")
    assert json.loads(row["RESOURCES"]) == [{"name": "clicks", "type": "DATASOURCE"}]
    assert json.loads(row["ATTRIBUTES"]) == {"statementType": "SELECT"}
    (plan,) = json.loads(row["PLAN"])
    assert 'FROM "clicks"' in plan["query"]["sql"]
    assert plan["query"]["plan"]


def test_about_the_server(client: httpx.Client) -> None:
    assert client.get("/status/health").json() is True
    assert client.get("/druid/v2/datasources").json() == ["clicks"]
    assert set(client.get("/status").json()) == {"version", "modules", "memory"}
    assert all(isinstance(value, str) for value in client.get("/status/properties").json().values())


def test_pages_of_other_sites_are_refused(client: httpx.Client) -> None:
    refused = client.post(
        "/druid/v2/sql", json={"query": "SELECT 1"}, headers={"origin": "https://evil.example"}
    )
    assert (refused.status_code, refused.json()["category"]) == (403, "FORBIDDEN")


class Slow:
    """An engine whose answers come when DuckDB is interrupted, which is told what was asked."""

    def __init__(self) -> None:
        self.begun, self.interrupted, self.ended = threading.Event(), threading.Event(), threading.Event()
        self._connection = duckdb.connect()

    def run(self, sql: str, parameters: Sequence[object]) -> QueryResult:
        del sql, parameters
        self.begun.set()
        try:
            self._connection.execute(
                "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
            )
        except duckdb.InterruptException as error:
            raise HeadraceError("query_failed", "It was interrupted.") from error
        finally:
            self.ended.set()
        raise AssertionError("nothing interrupted it")

    def interrupt(self, _: str) -> None:
        self.interrupted.set()
        threading.Thread(target=self._until_it_ends).start()

    def _until_it_ends(self) -> None:
        """An interrupt before DuckDB has begun has no effect."""
        while not self.ended.wait(0.05):
            self._connection.interrupt()


@contextmanager
def slowly_served() -> Iterator[tuple[str, Slow]]:
    slow = Slow()
    engine = ThreadedEngine(slow.run, lambda: (), interrupt=slow.interrupt, most_at_once=1)
    with served(create_druid_app(engine), DRUID_RULES) as url:
        yield url, slow
        assert slow.interrupted.wait(60)
        engine.close()


def test_cancelling() -> None:
    with slowly_served() as (url, slow), httpx.Client(base_url=url, timeout=60) as client:
        answers: list[httpx.Response] = []
        context = {"sqlQueryId": "slow"}
        thread = threading.Thread(target=lambda: answers.append(ask(client, "SELECT 1", context=context)))
        thread.start()
        assert slow.begun.wait(60)
        busy = ask(client, "SELECT 1")
        assert (busy.status_code, busy.json()["error"]) == (429, "Query capacity exceeded")
        assert client.delete("/druid/v2/sql/slow").status_code == 202
        thread.join(60)
        (cancelled,) = answers
        assert (cancelled.status_code, cancelled.json()["error"]) == (500, "Query cancelled")
        assert cancelled.json()["category"] == "CANCELED"
        assert cancelled.json()["errorClass"] == "org.apache.druid.query.QueryInterruptedException"
        assert client.delete("/druid/v2/sql/slow").status_code == 404


def test_a_timeout() -> None:
    with slowly_served() as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        late = ask(client, "SELECT 1", context={"timeout": 100})
        assert (late.status_code, late.json()["error"], late.json()["category"]) == (
            504,
            "Query timeout",
            "TIMEOUT",
        )


def test_a_client_that_hangs_up() -> None:
    with slowly_served() as (url, slow):
        address = urlsplit(url)
        body = b'{"query": "SELECT 1"}'
        head = f"POST /druid/v2/sql HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert slow.begun.wait(60)
        assert slow.interrupted.wait(60), "the statement goes on for nobody"


def test_many_at_once(address: str) -> None:
    async def all_of_them() -> list[int]:
        async with httpx.AsyncClient(base_url=address, timeout=120) as client:
            answers = await asyncio.gather(
                *(
                    client.post("/druid/v2/sql", json={"query": f"SELECT {number} AS n"})
                    for number in range(12)
                )
            )
            return [answer.json()[0]["n"] for answer in answers]

    assert asyncio.run(all_of_them()) == [*range(12)]
