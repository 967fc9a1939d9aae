"""`POST /sql` over a real server and real workers: formats, errors, limits, cancelling, lost clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.ipc
import pytest

from headrace.http.query.sql import MOST_BODY_BYTES
from headrace.query.questions import QuestionLimits
from tests.http.query.sql_server import SqlServer, sql_server
from tests.query.delta_tables import write_events
from tests.query.records import wait_until

SECONDS = 2.0
MEGABYTES = 128
# Half a second where nothing else runs. Without its worker being killed, DEAF takes a minute.
SOON = 5.0
ENDLESS = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) % 7 = 3"
# DuckDB looks neither at the clock nor at an interruption while it computes this.
DEAF = "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    folder = tmp_path_factory.mktemp("sql")
    write_events(folder / "lake", [("ListingView", "2026-01-01", "1"), ("Listing, View", "2026-01-02", "2")])
    # Time enough on a busy machine: only the tests of time have little.
    limits = QuestionLimits(seconds=90, memory_megabytes=MEGABYTES, answer_megabytes=16)
    with sql_server(folder, limits=limits) as server:
        yield server


@pytest.fixture(scope="module")
def hasty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    with sql_server(tmp_path_factory.mktemp("hasty"), limits=QuestionLimits(seconds=SECONDS)) as server:
        yield server


@pytest.fixture(autouse=True)
def _idle(server: SqlServer) -> Iterator[None]:
    """Whatever a test does, its questions end."""
    yield
    wait_until(server.is_idle, "nothing runs any more")


def check_error(response: httpx.Response, status: int, code: str) -> dict[str, str]:
    assert (response.status_code, response.json()["error"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/json"
    content: dict[str, str] = response.json()
    assert set(content) == {"error", "message", "remedy"}
    assert content["message"] != ""
    return content


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
def test_sql_is_answered(server: SqlServer, request_body: dict[str, Any]) -> None:
    response = server.client.post("/sql", **request_body)
    assert response.status_code == 200
    assert response.json() == {
        "columns": ["u", "d"],
        "types": ["VARCHAR", "DECIMAL(2,1)"],
        "rows": [["1", 1.5], ["2", 1.5]],
        "tables": [{"table": "events", "version": 0, "files": 2}],
    }


def test_sql_as_csv_and_ndjson(server: SqlServer) -> None:
    query = "SELECT EVENT_TYPE, [1] AS l, NULL AS n FROM events ORDER BY 1"
    response = server.ask(query, headers={"Accept": "text/csv"})
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.text == 'EVENT_TYPE,l,n\r\n"Listing, View",[1],\r\nListingView,[1],\r\n'
    response = server.ask(query, headers={"Accept": "application/x-ndjson"})
    assert response.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[1] == {"EVENT_TYPE": "ListingView", "l": [1], "n": None}
    response = server.ask(query, headers={"Accept": "text/html, */*;q=0.1"})
    assert response.json()["columns"] == ["EVENT_TYPE", "l", "n"]


def test_sql_as_arrow(server: SqlServer) -> None:
    response = server.ask(
        "SELECT i, now() AS at FROM range(50000) t(i)",
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )
    assert response.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(response.content).read_all()
    assert table.column("i").to_pylist() == list(range(50000))
    assert pa.types.is_timestamp(table.schema.field("at").type)


def test_parameters(server: SqlServer) -> None:
    response = server.ask("SELECT USER_ID FROM events WHERE USER_ID = ? LIMIT ?", parameters=["2", 5])
    assert response.json()["rows"] == [["2"]]
    content = check_error(server.ask("SELECT ?", parameters=[]), 400, "query_failed")
    assert "parameter" in content["message"].lower()


@pytest.mark.parametrize(
    "parameter",
    [
        None,
        True,
        1.5,
        "x",
        2**63,
        2**200,
        -(2**130),
        [1, "a", None],
        {"a": [1]},
        [],
        {},
        "\x00",
        "\U0001f600",
    ],
)
def test_any_parameter_gets_an_answer_and_costs_no_worker(server: SqlServer, parameter: object) -> None:
    before = server.desk.pool.pids
    assert server.ask("SELECT ? AS a", parameters=[parameter]).status_code in (200, 400)
    assert set(before) <= set(server.desk.pool.pids)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT INTERVAL '2000000000 days'",
        "SELECT DATE '5881580-07-10', DATE '-290308-12-21' - 0, TIMESTAMP 'infinity'",
        "SELECT '\\xff'::BLOB::VARCHAR",
        "SELECT 'nan'::FLOAT, 1e308 * 10, MAP {{'a': 1}: 2}",
        "SELECT 99999999999999999999999999999999999999::DECIMAL(38, 0) * 10",
        "SELECT '24:00:00'::TIME, '12:00:00+15:59:59'::TIMETZ",
        "SELECT chr(0), chr(55296)",
    ],
)
@pytest.mark.parametrize("media_type", ["application/json", "application/vnd.apache.arrow.stream"])
def test_odd_values_get_an_answer_and_cost_no_worker(server: SqlServer, query: str, media_type: str) -> None:
    before = server.desk.pool.pids
    response = server.ask(query, headers={"Accept": media_type})
    assert response.status_code in (200, 400)
    assert response.status_code == 200 or "process" not in response.json()["message"]
    assert set(before) <= set(server.desk.pool.pids)


def test_an_answer_larger_than_what_is_held_comes_whole(server: SqlServer) -> None:
    rows = server.ask("SELECT i, repeat('x', 100) AS x FROM range(90000) t(i)").json()["rows"]
    assert [row[0] for row in rows] == list(range(90000))


def test_explain_says_what_is_read(server: SqlServer) -> None:
    rows = dict(server.ask("EXPLAIN SELECT * FROM events WHERE SERVER_DATE = '2026-01-01'").json()["rows"])
    assert "Scanning Files: 1/" in rows["physical_plan"]
    scan = {"files": 2, "files_skipped_by_partition": 1, "files_to_read": 1}
    assert json.loads(rows["tables"]) == [{"table": "events", "version": 0, "files": 2, "scans": [scan]}]
    assert "1 file skipped by partition, 1 file to read" in rows["read"]


def test_a_failing_question_has_the_one_error_shape(server: SqlServer) -> None:
    content = check_error(server.ask("SELECT nothing FROM events"), 400, "query_failed")
    assert "LINE 1" in content["message"]
    assert "EVENT_TYPE" in content["remedy"]


@pytest.mark.parametrize(
    ("request_body", "status", "code"),
    [
        ({"json": {"sql": "SELECT 1"}}, 400, "bad_request"),
        ({"json": {"query": 1}}, 400, "bad_request"),
        ({"json": ["SELECT 1"]}, 400, "bad_request"),
        ({"json": {"query": "SELECT 1", "freshness": "stale"}}, 400, "bad_request"),
        ({"json": {"query": "SELECT 1", "id": "a\nb"}}, 400, "bad_request"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "bad_request"),
        ({"content": b"\xff", "headers": {"Content-Type": "text/plain"}}, 400, "bad_request"),
        ({"content": b"", "headers": {"Content-Type": "text/plain"}}, 400, "query_failed"),
        ({"content": b"<a/>", "headers": {"Content-Type": "text/xml"}}, 415, "unsupported_media_type"),
        ({"content": b" " * (MOST_BODY_BYTES + 1)}, 413, "request_too_large"),
    ],
)
def test_a_bad_request_is_told_why(
    server: SqlServer, request_body: dict[str, Any], status: int, code: str
) -> None:
    check_error(server.client.post("/sql", **request_body), status, code)


@pytest.mark.parametrize("query", [ENDLESS, DEAF])
def test_a_question_ends_soon_after_its_limit(hasty_server: SqlServer, query: str) -> None:
    assert hasty_server.ask("SELECT 1").json()["rows"] == [[1]]
    began = time.monotonic()
    content = check_error(hasty_server.ask(query), 504, "query_timed_out")
    assert SECONDS <= time.monotonic() - began < SECONDS + SOON
    assert "stopped after 2 s" in content["message"]
    assert hasty_server.ask("SELECT 1").json()["rows"] == [[1]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT length(repeat('x', 2000000000))",
        "SELECT repeat('x', 100000 + i::INT) FROM range(100000) t(i)",
        "SELECT list_sum(range(1000000000))",
        "SELECT string_agg(i::VARCHAR) FROM range(100000000) t(i)",
    ],
)
def test_memory_stays_within_its_limit_whatever_a_question_does(server: SqlServer, query: str) -> None:
    assert server.ask("SELECT 1").status_code == 200
    idle = max(psutil.Process(pid).memory_info().rss for pid in server.desk.pool.pids)
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(server.ask, query)
        most = 0
        while not asked.done():
            most = max(most, *(_memory(pid) for pid in server.desk.pool.pids))
            time.sleep(0.005)
    content = check_error(asked.result(), 400, "query_out_of_memory")
    assert "more than the 128 MB of memory" in content["message"]
    # Libraries that are loaded are not counted by the limit.
    assert most < idle + (MEGABYTES + 32) * 2**20
    assert server.ask("SELECT 1").json()["rows"] == [[1]]


def _memory(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def test_a_deeply_nested_statement_is_told_why_it_fails(server: SqlServer) -> None:
    for query in ("SELECT * FROM (" * 3000 + "SELECT 1" + ")" * 3000, "SELECT " + "(" * 50_000 + "1"):
        answer = server.ask(query)
        # How deep it gets before it fails, and of what, depends on the memory that its worker has left.
        assert answer.json()["error"] in ("query_failed", "query_out_of_memory")
        check_error(answer, 400, answer.json()["error"])
    assert server.ask("SELECT 1").json()["rows"] == [[1]]


def test_an_answer_that_is_too_large_never_looks_complete(server: SqlServer) -> None:
    content = check_error(server.ask("SELECT * FROM range(100001)", headers={"Accept": "text/csv"}), 400,
                          "answer_too_large")  # fmt: skip
    assert "100000 rows" in content["message"]
    # Larger than what is held before it is passed on.
    with pytest.raises(httpx.RemoteProtocolError):
        server.ask("SELECT repeat('x', 2000) FROM range(20000)", headers={"Accept": "text/csv"})


def test_a_question_can_be_cancelled_by_its_id(server: SqlServer) -> None:
    with ThreadPoolExecutor() as threads:
        for query in (ENDLESS, DEAF):
            asked = threads.submit(server.ask, query, id="to-be-cancelled")
            wait_until(lambda: server.desk.slots.running == 1, "it runs")
            check_error(server.ask("SELECT 1", id="to-be-cancelled"), 400, "bad_request")
            began = time.monotonic()
            assert server.client.delete("/sql/to-be-cancelled").status_code == 200
            check_error(asked.result(), 409, "query_cancelled")
            assert time.monotonic() - began < SOON
            check_error(server.client.delete("/sql/to-be-cancelled"), 404, "question_not_found")
    assert server.ask("SELECT 1").headers["headrace-question"] != ""
    assert (
        server.ask("SELECT 1", headers={"Headrace-Question": "mine"}).headers["headrace-question"] == "mine"
    )


@pytest.mark.parametrize("query", [ENDLESS, DEAF, "SELECT repeat('x', 100) FROM range(100000)"])
def test_a_client_that_goes_away_ends_its_question(server: SqlServer, query: str) -> None:
    body = json.dumps({"query": query}).encode()
    connection = socket.create_connection(server.address.removeprefix("http://").split(":"))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    wait_until(lambda: server.desk.slots.running == 1, "it runs")
    connection.close()
    began = time.monotonic()
    wait_until(server.is_idle, "it has ended")
    assert time.monotonic() - began < SOON


def test_a_killed_worker_costs_its_question_only(server: SqlServer) -> None:
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(server.ask, ENDLESS)
        wait_until(lambda: server.desk.slots.running == 1, "it runs")
        wait_until(lambda: any(_cpu(pid) > 0.3 for pid in server.desk.pool.pids), "a worker is busy")
        busy = max(server.desk.pool.pids, key=_cpu)
        os.kill(busy, signal.SIGKILL)
        content = check_error(asked.result(), 400, "query_failed")
    assert "ended the process" in content["message"]
    assert server.ask("SELECT 1").json()["rows"] == [[1]]


def _cpu(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user)


def test_heavy_questions_leave_a_slot_for_light_ones(tmp_path: Path) -> None:
    limits = QuestionLimits(seconds=6, memory_megabytes=MEGABYTES)
    with (
        sql_server(tmp_path, limits=limits, slots=2, most_waiting=5) as server,
        ThreadPoolExecutor(20) as threads,
    ):
        heavy = [threads.submit(server.ask, ENDLESS, id=f"heavy-{number}") for number in range(6)]
        wait_until(lambda: server.desk.slots.running + server.desk.slots.waiting == 6, "all are there")
        waits = []
        while server.desk.slots.heavy == 0 or len(waits) < 10:
            began = time.monotonic()
            response = server.ask("SELECT 1")
            if response.status_code == 200:
                waits.append(time.monotonic() - began)
            else:
                check_error(response, 429, "too_many_questions")
                assert response.headers["retry-after"] == "1"
        # At most the second after which a question counts as heavy, for each that came before.
        assert sorted(waits)[-3] < 8
        assert not any(each.done() and each.result().status_code == 200 for each in heavy)
        for number in range(6):
            server.client.delete(f"/sql/heavy-{number}")
        # Cancelled, or at the end of their time.
        assert {each.result().status_code for each in heavy} <= {409, 504}
        wait_until(server.is_idle, "nothing runs any more")


def test_no_worker_and_no_folder_is_left(tmp_path: Path) -> None:
    with sql_server(tmp_path, limits=QuestionLimits()) as server:
        server.ask("SELECT 1")
        pids = server.desk.pool.pids
        assert pids != []
        assert (tmp_path / "workers").is_dir()
    assert not (tmp_path / "workers").exists()
    assert not any(psutil.pid_exists(pid) for pid in pids)
