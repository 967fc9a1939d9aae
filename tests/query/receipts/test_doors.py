"""`GET /receipts/…` and `POST /sql` with `after`, over a real server, real workers, and real files."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from headrace.query.questions import QuestionLimits
from headrace.query.receipts import watching
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.ways import Yield
from headrace.query.sources import TailView
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.tail.tails import Tails
from tests.http.query.sql_server import SqlServer, sql_server
from tests.query.receipts.made_platform import MadePlatform
from tests.query.records import wait_until


@pytest.fixture
def server(platform: MadePlatform) -> Iterator[SqlServer]:
    with served(platform) as server:
        yield server


def served(platform: MadePlatform) -> Any:
    return sql_server(
        platform.table.folder.parent.parent,
        limits=QuestionLimits(seconds=60),
        tails=platform.tails,
        receipts=platform.receipts,
    )


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def get(server: SqlServer, receipt: Receipt, **parameters: Any) -> httpx.Response:
    return server.client.get(f"/receipts/{receipt}", params=parameters)


def count(server: SqlServer, platform: MadePlatform, **more: Any) -> Any:
    answer = server.ask(f'SELECT count(*) FROM "{platform.sink}"', **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"][0][0]


def is_waiting(platform: MadePlatform, asked: Future[Any]) -> bool:
    return platform.receipts.waited_for > 0 and not asked.done()


def test_a_receipt_over_http(platform: MadePlatform, server: SqlServer, threads: ThreadPoolExecutor) -> None:
    good, bad = platform.post(2)
    found = get(server, good)
    assert (found.status_code, found.json()["sql"], found.json()["offset"]) == (200, "pending", 0)
    # The time is over: what is known so far, with another status.
    late = get(server, good, wait="sql", timeout=0.1)
    assert (late.status_code, late.json()["sql"]) == (202, "pending")
    assert late.json()["queries"][0]["behind"] == 1
    asked = threads.submit(get, server, good, wait="sql")
    wait_until(lambda: is_waiting(platform, asked), "it waits")
    platform.derive([good])
    content = asked.result().json()
    assert (asked.result().status_code, content["sql"], content["lake"]) == (200, "visible", "pending")
    assert content["tables"][0]["source"] == {"topic": platform.sink, "partition": 0, "offset": 0}
    platform.reject(bad, "it is bad")
    letter = get(server, bad, wait="lake")
    assert (letter.status_code, letter.json()["lake"]) == (200, "dead_letter")
    assert letter.json()["dead_letters"] == [
        {"topic": platform.letters, "partition": 0, "offset": 0, "by": "CSAS_7", "reason": "it is bad"}
    ]
    version = platform.table.write()
    assert get(server, good, wait="lake").json()["tables"][0]["version"] == version


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("{source}/0/7", 404, "event_not_found"),
        ("{source}/3/0", 404, "event_not_found"),
        ("none_of_that_name/0/0", 404, "no_such_topic"),
        ("{source}/x/0", 400, "bad_request"),
        ("{source}/0/-1", 400, "bad_request"),
        ("{source}/0/99999999999999999999", 400, "bad_request"),
        ("{source}/0/0?wait=never", 400, "bad_request"),
        ("{source}/0/0?wait=sql&timeout=x", 400, "bad_request"),
        ("{source}/0/0?wait=sql&timeout=nan", 400, "bad_request"),
        ("{source}/0/0?wait=sql&timeout=1e9", 400, "bad_request"),
        ("{source}/0/0?until=sql", 400, "bad_request"),
    ],
)
def test_requests_that_make_no_sense(
    platform: MadePlatform, server: SqlServer, path: str, status: int, code: str
) -> None:
    platform.post()
    found = server.client.get(f"/receipts/{path.format(source=platform.source)}")
    assert (found.status_code, found.json()["error"]) == (status, code)


def test_a_client_that_hangs_up_frees_its_place(platform: MadePlatform, server: SqlServer) -> None:
    (receipt,) = platform.post()
    with socket.create_connection(server.address.removeprefix("http://").split(":")) as connection:
        connection.sendall(
            f"GET /receipts/{receipt}?wait=sql&timeout=600 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        wait_until(lambda: platform.receipts.waited_for == 1, "it waits")
    wait_until(lambda: platform.receipts.waited_for == 0, "its place is free", seconds=10)


def test_a_client_of_a_question_that_hangs_up(platform: MadePlatform, server: SqlServer) -> None:
    (receipt,) = platform.post()
    body = f'{{"query": "SELECT 1 FROM \\"{platform.sink}\\"", "after": "{receipt}", "after_seconds": 600}}'
    with socket.create_connection(server.address.removeprefix("http://").split(":")) as connection:
        connection.sendall(
            b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        wait_until(lambda: server.is_idle() and platform.receipts.waited_for == 1, "it waits")
    wait_until(lambda: platform.receipts.waited_for == 0, "its place is free", seconds=10)


def test_so_many_can_be_waited_for(
    platform: MadePlatform, server: SqlServer, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_WAITED_FOR", 2)
    first, second, third = platform.post(3)
    waiting = [threads.submit(get, server, each, wait="sql", timeout=60) for each in (first, second)]
    wait_until(lambda: platform.receipts.waited_for == 2, "both wait")
    refused = get(server, third, wait="sql")
    assert (refused.status_code, refused.json()["error"]) == (429, "too_many_waiting")
    assert refused.headers["retry-after"] == "1"
    platform.derive([first, second])
    assert [each.result().json()["sql"] for each in waiting] == ["visible", "visible"]
    platform.derive([third])
    assert get(server, third, wait="sql").status_code == 200


def test_a_question_sees_what_it_must(
    platform: MadePlatform, server: SqlServer, threads: ThreadPoolExecutor
) -> None:
    receipts = platform.post(3)
    platform.derive(receipts[:1])
    asked = threads.submit(count, server, platform, after=[str(each) for each in receipts[:2]])
    wait_until(lambda: is_waiting(platform, asked), "it waits")
    # It has neither a slot nor a worker meanwhile: others do not wait for it.
    wait_until(server.is_idle, "nothing runs")
    assert count(server, platform, after=str(receipts[0])) == 1
    platform.derive(receipts[1:2])
    assert asked.result() == 2
    platform.table.write()
    # Every way to say it, also the whole answer of the events API.
    accepted = {
        "index": 0, "topic": platform.source, "partition": 0, "offset": receipts[1].offset
    }  # fmt: skip
    answer = {"accepted": [accepted], "rejected": [], "unknown": []}
    for after in (str(receipts[1]), [str(receipts[1])], accepted, [accepted], answer):
        assert count(server, platform, after=after) == 2
    in_address = server.client.post(
        f"/sql?after={receipts[0]}&after={receipts[1]}&after_seconds=5",
        content=f'SELECT count(*) FROM "{platform.sink}"',
    )
    assert in_address.json()["rows"] == [[2]]
    # With the lake only, it waits for a version.
    in_lake = threads.submit(count, server, platform, after=str(receipts[2]), freshness="lake")
    wait_until(lambda: is_waiting(platform, in_lake), "it waits")
    platform.derive(receipts[2:])
    assert is_waiting(platform, in_lake)
    platform.table.write()
    assert in_lake.result() == 3


@dataclasses.dataclass
class FoldersByTheClock:
    """As if the lake decided the column KIND when it writes."""

    tails: Tails

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:
        return dataclasses.replace(self.tails.view(snapshot, wait_seconds=wait_seconds), unknown=("KIND",))


def test_a_question_for_what_only_the_lake_knows_waits_for_the_lake(
    platform: MadePlatform, threads: ThreadPoolExecutor
) -> None:
    (receipt,) = platform.post()
    platform.derive([receipt])
    with sql_server(
        platform.table.folder.parent.parent,
        limits=QuestionLimits(seconds=60),
        tails=FoldersByTheClock(platform.tails),
        receipts=platform.receipts,
    ) as server:
        numbers = server.ask(f'SELECT NUMBER FROM "{platform.sink}"', after=str(receipt))
        assert numbers.json()["rows"] == [[0]]
        sql = f"SELECT count(*) FROM \"{platform.sink}\" WHERE KIND = 'a'"
        asked = threads.submit(server.ask, sql, after=str(receipt), after_seconds=20)
        wait_until(lambda: is_waiting(platform, asked) or asked.done(), "it waits")
        platform.table.write()
        assert asked.result().json()["rows"] == [[1]]


def test_a_question_does_not_wait_for_what_never_comes(
    make_platform: Callable[..., MadePlatform],
) -> None:
    platform = make_platform(gives=Yield.ANY)
    with served(platform) as server:
        good, bad, dropped = platform.post(3)
        platform.derive([good])
        platform.reject(bad, "it is bad")
        platform.commit_query()
        assert count(server, platform, after=[str(good), str(bad), str(dropped)]) == 1
        # Nor in a question that reads nothing of it.
        (pending,) = platform.post()
        assert server.ask("SELECT 1", after=str(pending)).json()["rows"] == [[1]]


def test_a_question_that_waits_in_vain(platform: MadePlatform, server: SqlServer) -> None:
    (receipt,) = platform.post()
    late = server.ask(f'SELECT 1 FROM "{platform.sink}"', after=str(receipt), after_seconds=0.3)
    assert (late.status_code, late.json()["error"]) == (504, "after_timed_out")
    assert "query CSAS_7 has about 1 records to read up to it" in late.json()["message"]
    beyond = server.ask(f'SELECT 1 FROM "{platform.sink}"', after=f"{platform.source}/0/9")
    assert (beyond.status_code, beyond.json()["error"]) == (404, "event_not_found")
    for after in ("nothing", {"topic": platform.source}, 7, [f"{platform.source}/0/true"], [[[None]], True]):
        wrong = server.ask("SELECT 1", after=after)
        assert (wrong.status_code, wrong.json()["error"]) == (400, "bad_request"), after


def test_a_question_that_waits_can_be_cancelled(
    platform: MadePlatform, server: SqlServer, threads: ThreadPoolExecutor
) -> None:
    (receipt,) = platform.post()
    statement = f'SELECT 1 FROM "{platform.sink}"'
    asked = threads.submit(server.ask, statement, after=str(receipt), after_seconds=600, id="mine")
    wait_until(lambda: server.is_idle() and is_waiting(platform, asked), "it waits")
    assert server.client.delete("/sql/mine").status_code == 200
    assert asked.result().json()["error"] == "query_cancelled"
    wait_until(lambda: platform.receipts.waited_for == 0, "its place is free")


def test_without_a_log_there_is_nothing_to_wait_for(platform: MadePlatform) -> None:
    with sql_server(platform.table.folder.parent.parent, limits=QuestionLimits(seconds=60)) as server:
        refused = server.ask(f'SELECT 1 FROM "{platform.sink}"', after="events/0/0")
        assert (refused.status_code, refused.json()["error"]) == (400, "bad_request")
        assert server.client.get("/receipts/events/0/0").status_code == 503
