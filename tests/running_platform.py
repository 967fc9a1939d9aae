"""The whole platform for tests: real processes on free ports, and the ways a user reaches them."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from headrace.assembly.demo import make_pipeline
from headrace.assembly.preparation import prepare
from headrace.assembly.restarts import RestartPolicy
from headrace.assembly.supervisor import Supervisor
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, to_environment
from headrace.query.sql import LakeQuery
from tests.ports import free_ports

PATIENCE_SECONDS = 240.0
# Between two questions about the lake: more of them would take the processor from what they wait for.
LAKE_PAUSE_SECONDS = 0.5
# A restart after each kill, soon: that the pauses grow is shown by the tests of the supervisor.
RESTARTS = RestartPolicy(first_delay=0.1, longest_delay=0.5)


class Platform:
    """A platform that runs. Tests share it: each keeps to user ids of its own (`new_prefix`)."""

    def __init__(self, settings: Settings, supervisor: Supervisor) -> None:
        self.settings = settings
        self._supervisor = supervisor
        self.events_url = f"http://{settings.host}:{settings.ingest_port}/events"
        self.console_url = f"http://{settings.host}:{settings.console_port}"
        self.statements_url = f"http://{settings.host}:{settings.statements_port}"
        self.registry_url = f"http://{settings.host}:{settings.registry_port}"
        # One for all requests: certificates, which nothing here needs, take longer to load than an answer
        # takes. Each request has a connection of its own, as the other end may have been killed meanwhile.
        self.http = httpx.Client(
            verify=False,
            trust_env=False,
            timeout=PATIENCE_SECONDS,
            headers={"connection": "close"},
        )
        self._killed: set[int] = set()
        self._lake = LakeQuery(settings.lake_dir, time_limit_seconds=PATIENCE_SECONDS)

    def close(self) -> None:
        self.http.close()
        self._lake.close()

    def post(self, events: list[dict[str, str]] | dict[str, str]) -> httpx.Response:
        return self.http.post(self.events_url, json=events)

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        return list(self._lake.run(statement).rows)

    def pid(self, process: str) -> int | None:
        return next(state.pid for state in self._supervisor.states() if state.name == process)

    def kill(self, process: str) -> int:
        """SIGKILL the process, once it runs; gives the pid that it had."""

        def running() -> int | None:
            pid = self.pid(process)
            # The supervisor may not have noticed the last kill yet.
            return pid if self._is_running(process) and pid not in self._killed else None

        killed: int = wait_for(running, f"{process} runs")
        os.kill(killed, signal.SIGKILL)
        self._killed.add(killed)
        return killed

    def wait_restarted(self, process: str, *, after: int) -> None:
        wait_for(
            lambda: self._is_running(process) and self.pid(process) != after,
            f"{process} runs again after pid {after}",
        )

    def wait_in_lake(self, prefix: str, count: int) -> None:
        """Until so many different users with that prefix have a row."""
        question = f"SELECT count(DISTINCT USER_ID) FROM events WHERE USER_ID LIKE '{prefix}-%'"

        def found() -> object:
            try:
                return self.sql(question)[0][0]
            except HeadraceError as error:
                # Before the first schema there is no table.
                if "events" not in str(error):
                    raise
                return str(error)

        wait_for(
            lambda: found() == count,
            f"{count} users {prefix}-* are in the lake",
            pause_seconds=LAKE_PAUSE_SECONDS,
            explain=lambda: str(found()),
        )

    def rows(self, prefix: str) -> dict[str, int]:
        """How many rows each user with that prefix has."""
        statement = f"SELECT USER_ID, count(*) FROM events WHERE USER_ID LIKE '{prefix}-%' GROUP BY USER_ID"
        try:
            return {str(user): int(str(rows)) for user, rows in self.sql(statement)}
        except HeadraceError as error:
            # Before the first schema there is no table.
            if "events" not in str(error):
                raise
            return {}

    def flow(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.get(f"{self.console_url}/flow").json()
        return answer

    def settled_flow(self) -> dict[str, Any]:
        """The flow, once nothing is under way: it looks the same twice in a row, a second apart."""
        counts = ("accepted", "avro", "dead_letters", "lake")
        last: dict[str, Any] = {}

        def unchanged() -> dict[str, Any] | None:
            nonlocal last
            earlier, last = last, self.flow()
            time.sleep(1)
            return last if earlier and all(earlier[name] == last[name] for name in counts) else None

        settled: dict[str, Any] = wait_for(unchanged, "the flow settles")
        return settled

    def reconcile(self, *flags: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """The exit code of `headrace reconcile`, and its findings by query."""
        answer = subprocess.run(
            [str(Path(sys.executable).with_name("headrace")), "reconcile", "--json", *flags],
            env={**os.environ, **to_environment(self.settings)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.stderr == ""
        return answer.returncode, {finding["query"]: finding for finding in json.loads(answer.stdout)}

    def takes_requests(self) -> bool:
        return all(self._is_running(name) for name in ("ingest", "gateway", "connect"))

    def _is_running(self, process: str) -> bool:
        return any(state.name == process and state.state == "running" for state in self._supervisor.states())


@contextmanager
def running_platform(
    folder: Path, *, policy: RestartPolicy = RESTARTS, **overrides: Any
) -> Iterator[Platform]:
    """With the example's topic and statements, and one event.

    They are there before Spark has started: it would warm up if there were no event, which takes longer than
    all the rest.
    """
    kafka_port, ingest_port, registry_port, statements_port, console_port, query_port, *others = free_ports(9)
    settings = dataclasses.replace(
        Settings(),
        data_dir=folder,
        cache_dir=Settings().cache_dir.expanduser(),
        kafka_port=kafka_port,
        ingest_port=ingest_port,
        registry_port=registry_port,
        statements_port=statements_port,
        console_port=console_port,
        query_port=query_port,
        postgres_port=others[2],
        connect_port=others[0],
        connect_second_port=others[1],
        spark_ui_port=0,
        **overrides,
    )
    prepare(settings)
    supervisor = Supervisor(settings, policy=policy, whole=True)
    platform = Platform(settings, supervisor)
    try:
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(supervisor.start)
            wait_for(
                lambda: starting.done() or platform.takes_requests(),
                "events, statements and connectors are taken",
                explain=lambda: str(supervisor.states()),
            )
            if starting.done():
                # It raises, unless Spark was very quick.
                starting.result()
            make_pipeline(settings)
            first = new_prefix()
            assert platform.post(event(f"{first}-0")).status_code == 200
            starting.result()
        # No test counts it among its own.
        platform.wait_in_lake(first, 1)
        yield platform
    finally:
        platform.close()
        supervisor.stop()


def new_prefix() -> str:
    return f"u{uuid.uuid4().hex[:10]}"


def event(user: str, **fields: str) -> dict[str, str]:
    return {
        "Event_Type": "ListingView",
        "Event_Version": "1",
        "User_ID": user,
        "Listing_ID": "l1",
        "Server_Time": "2026-03-14T09:26:53Z",
        "Device_Type": "web",
    } | fields


@dataclasses.dataclass(kw_only=True)
class Sent:
    """What became of a stream of posts: receipts by user, and the users whose request got no answer."""

    receipts: dict[str, tuple[int, int]]
    unknown: list[str]


class Stream:
    """Events posted in batches from several threads, in the background.

    A request that got no connection at all is sent again; one whose answer was lost is not, since what became
    of its events is unknown.
    """

    def __init__(
        self, platform: Platform, prefix: str, count: int, *, batch: int = 50, senders: int = 4
    ) -> None:
        self.sent = Sent(receipts={}, unknown=[])
        self._platform = platform
        self._pool = ThreadPoolExecutor(senders)
        users = [f"{prefix}-{number}" for number in range(count)]
        self._futures = [
            self._pool.submit(self._post, users[begin : begin + batch]) for begin in range(0, count, batch)
        ]

    @property
    def progress(self) -> int:
        return len(self.sent.receipts) + len(self.sent.unknown)

    def finish(self) -> Sent:
        for future in self._futures:
            future.result()
        self._pool.shutdown()
        return self.sent

    def _post(self, users: list[str]) -> None:
        try:
            response = wait_for(lambda: self._try(users), "the events API takes connections")
        except httpx.TransportError:
            self.sent.unknown.extend(users)
            return
        accepted = {entry["index"]: entry for entry in response.json()["accepted"]}
        for index, user in enumerate(users):
            if index in accepted:
                self.sent.receipts[user] = (accepted[index]["partition"], accepted[index]["offset"])
            else:
                self.sent.unknown.append(user)

    def _try(self, users: list[str]) -> httpx.Response | None:
        try:
            return self._platform.post([event(user) for user in users])
        except httpx.ConnectError:
            return None


def wait_for(
    condition: Callable[[], Any],
    what: str,
    *,
    seconds: float = PATIENCE_SECONDS,
    pause_seconds: float = 0.1,
    explain: Callable[[], str] = str,
) -> Any:
    """The first truthy answer of `condition`. Pause longer before asking one that takes much time again."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s still waiting until {what} {explain()}")
        time.sleep(pause_seconds)
