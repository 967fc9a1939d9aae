"""A hundred hostile questions at once: each gets an answer or an error, and the process answers meanwhile."""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import psutil
import pytest

from headrace.core.settings import Settings
from tests.gateway_process import eventually
from tests.ports import free_port
from tests.query.delta_tables import write_events
from tests.query_process import run_query_process

SECONDS = 2
MEGABYTES = 128
CLIENTS = 100

HOSTILE = [
    "SELECT * FROM (" * 3000 + "SELECT 1" + ")" * 3000,
    "SELECT " + "(" * 50_000 + "1" + ")" * 50_000,
    "SELECT " + "-" * 20_000 + "1",
    "SELECT " + "NOT " * 20_000 + "true",
    "SELECT " + " + ".join(["1"] * 100_000),
    "SELECT [" + ",".join(["[1]"] * 100_000) + "]",
    "SELECT '" + "x" * 900_000 + "' || i FROM range(100000) t(i)",
    "SELECT 1 WHERE 1 IN (" + ",".join(map(str, range(150_000))) + ")",
    "SELECT length(repeat('x', 2000000000))",
    "SELECT repeat('x', 1000000) FROM range(100000)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "SELECT regexp_matches(repeat('a', 5000000), '(a*)*(a*)*(a*)*b')",
    "SELECT regexp_replace(repeat('ab', 500000), '((a|b)+)+c', 'x', 'g')",
    "SELECT list_sum(range(1000000000))",
    "SELECT array_agg(i) FROM range(1000000000) t(i)",
    "SELECT count(*) FROM (SELECT unnest(range(1000000)) FROM range(1000000))",
    "SELECT string_agg(i::VARCHAR) FROM range(1000000000) t(i)",
    "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range + b.range = 7",
    "WITH RECURSIVE a AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM a) SELECT count(*) FROM a",
    "WITH RECURSIVE a AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM a) SELECT count(*) FROM a",
    "SELECT * FROM range(1000000000000)",
    "SELECT DISTINCT hash(i) FROM range(1000000000) t(i)",
    "SELECT i FROM range(1000000000) t(i) ORDER BY hash(i)",
    "SELECT count(*) FROM range(100000000) a(i) ASOF JOIN range(100000000) b(i) ON a.i >= b.i",
    "SELECT read_text('/etc/passwd')",
    "COPY (SELECT 1) TO '/tmp/x'",
    "",
    "SELECT",
    "\x00",
]  # fmt: skip


@pytest.mark.long
def test_a_hundred_hostile_questions(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path,
        query_port=free_port(),
        postgres_port=free_port(),
        query_seconds=SECONDS,
        query_memory_megabytes=MEGABYTES,
        query_waiting=CLIENTS,
    )
    write_events(settings.lake_dir, [("Search", "2026-01-01", "1")])
    url = f"http://{settings.host}:{settings.query_port}"
    with (
        run_query_process(settings) as process,
        httpx.Client(base_url=url, timeout=300, limits=httpx.Limits(max_connections=None)) as client,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        leader = psutil.Process(process.pid)
        httpx.post(f"{url}/sql", json={"query": "SELECT count(*) FROM events"}, timeout=60)
        idle = leader.memory_info().rss
        done = threading.Event()
        waits: list[float] = []
        most_memory = 0

        def watch() -> None:
            nonlocal most_memory
            with httpx.Client(base_url=url, timeout=60) as own:
                while not done.is_set():
                    began = time.monotonic()
                    assert own.get("/health/live").status_code == 200
                    waits.append(time.monotonic() - began)
                    most_memory = max(most_memory, *(_memory(each) for each in leader.children()), 0)
                    done.wait(0.02)

        with ThreadPoolExecutor(1) as watcher:
            watching = watcher.submit(watch)
            try:
                outcomes = list(
                    threads.map(lambda number: _outcome(client, settings, number), range(CLIENTS))
                )
            finally:
                done.set()
            watching.result()

        outcome = Counter(outcomes)
        print(outcome, f"p99 {statistics.quantiles(waits, n=100)[98]:.3f} s, longest {max(waits):.3f} s")
        print(f"leader {idle >> 20} -> {leader.memory_info().rss >> 20} MB, workers {most_memory >> 20} MB")
        assert set(outcome) <= {"200", "400", "429", "504", "cut off", "left"}
        assert statistics.quantiles(waits, n=100)[98] < 3, "on a machine whose cores are all taken"
        # An idle worker has about 110 MB.
        assert most_memory < (MEGABYTES + 256) << 20
        assert leader.memory_info().rss < idle + (128 << 20)
        eventually(
            lambda: client.post("/sql", json={"query": "SELECT count(*) FROM events"}).status_code == 200,
            "it answers as before",
        )
        # The slots of all of them are free again.
        assert client.post("/sql", json={"query": "SELECT 1"}).json()["rows"] == [[1]]
        assert len(leader.children()) <= 4


def _outcome(client: httpx.Client, settings: Settings, number: int) -> str:
    query = HOSTILE[number % len(HOSTILE)]
    if number % 10 == 9:
        return _slow_reader(settings, number)
    try:
        response = client.post("/sql", json={"query": query})
    except httpx.RemoteProtocolError:
        return "cut off"
    if response.status_code != 200:
        assert set(response.json()) == {"error", "message", "remedy"}
    return str(response.status_code)


def _slow_reader(settings: Settings, number: int) -> str:
    """Takes a few bytes of an endless answer now and then, and goes."""
    body = json.dumps({"query": "SELECT i, repeat('x', 1000) FROM range(1000000000000) t(i)"}).encode()
    connection = socket.socket()
    with closing(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((settings.host, settings.query_port))
        head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        for _ in range(10 + number // 10):
            if not connection.recv(100):
                return "cut off"
            time.sleep(0.3)
    return "left"


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
