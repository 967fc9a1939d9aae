"""A question that meets a limit is told so in the words of each door: ours, Druid's and PostgreSQL's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from headrace.query.postgres.desk_engine import DeskEngine
from headrace.query.postgres.server import PostgresServer
from headrace.query.questions import QuestionLimits
from tests.http.query.sql_server import SqlServer, sql_server
from tests.query.delta_tables import write_events

ENDLESS = (
    "SELECT COUNT(*) FROM events AS a CROSS JOIN events AS b CROSS JOIN events AS c "
    "WHERE a.USER_ID || b.USER_ID || c.USER_ID LIKE '%z%'"
)
HUGE = "SELECT CHAR_LENGTH(REPEAT('x', 2000000000)) AS n FROM events LIMIT 1"
MANY = "SELECT USER_ID FROM events"

OURS = {ENDLESS: "query_timed_out", HUGE: "query_out_of_memory", MANY: "answer_too_large"}
STATUSES = {ENDLESS: 504, HUGE: 400, MANY: 400}
DRUIDS = {
    ENDLESS: ("Query timeout", "org.apache.druid.query.QueryTimeoutException", "TIMEOUT"),
    HUGE: (
        "Resource limit exceeded",
        "org.apache.druid.query.ResourceLimitExceededException",
        "INVALID_INPUT",
    ),
}
DRUIDS[MANY] = DRUIDS[HUGE]
STATES = {ENDLESS: "57014", HUGE: "53200", MANY: "53400"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    folder = tmp_path_factory.mktemp("limits")
    write_events(folder / "lake", [("Search", "2026-01-01", f"u{number}") for number in range(5000)])
    limits = QuestionLimits(seconds=3, memory_megabytes=128, rows=100, threads=1)
    with sql_server(folder, limits=limits) as server:
        yield server


@pytest.mark.parametrize("question", OURS, ids=OURS.values())
def test_our_door(server: SqlServer, question: str) -> None:
    answer = server.ask(question)
    assert (answer.status_code, answer.json()["error"]) == (STATUSES[question], OURS[question])


@pytest.mark.parametrize("question", DRUIDS, ids=OURS.values())
def test_druids_door(server: SqlServer, question: str) -> None:
    answer: httpx.Response = server.client.post("/druid/v2/sql", json={"query": question})
    content = answer.json()
    assert (content["error"], content["errorClass"], content["category"]) == DRUIDS[question]
    assert answer.status_code == STATUSES[question]


@pytest.mark.parametrize("question", STATES, ids=OURS.values())
def test_postgresqls_door(server: SqlServer, question: str) -> None:
    postgres = PostgresServer(DeskEngine(server.desk), host="127.0.0.1", port=0)
    asyncio.run_coroutine_threadsafe(postgres.start(), server.loop).result(20)
    try:
        conninfo = f"host=127.0.0.1 port={postgres.port} user=analyst dbname=headrace sslmode=disable"
        with psycopg.connect(conninfo) as connection, pytest.raises(psycopg.Error) as raised:
            connection.execute(question)
    finally:
        asyncio.run_coroutine_threadsafe(postgres.stop(), server.loop).result(20)
    assert raised.value.sqlstate == STATES[question]
    if question == ENDLESS:
        assert raised.value.diag.message_primary == "canceling statement due to statement timeout"
        assert "3 s" in (raised.value.diag.message_hint or "")
