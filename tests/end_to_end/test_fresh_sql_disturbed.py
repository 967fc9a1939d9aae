"""A thousand events, asked for as soon as they are posted, while the lake is merged, restored and vacuumed,
and the pipeline is killed: each is in the answers once, and no answer forgets what an earlier one had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from headrace.core.settings import to_environment
from tests.running_platform import PATIENCE_SECONDS, Platform, event, new_prefix

pytestmark = pytest.mark.long

EVENTS: Final = 1000
# An event that is not in the answer by then waits for something, and the answer says for what.
TOLD_SECONDS: Final = 3.0
COUNT: Final = "SELECT count(*), count(DISTINCT USER_ID) FROM events WHERE USER_ID LIKE '{prefix}-%'"


def test_a_thousand_events_while_the_lake_changes(platform: Platform) -> None:
    prefix = new_prefix()
    disturbances = Disturbances(platform)
    seen = 0
    versions: set[int] = set()
    slowest: dict[str, float] = {}
    with ThreadPoolExecutor(1) as beside:
        for posted in range(1, EVENTS + 1):
            disturbances.at(posted, beside)
            under_way = disturbances.under_way
            assert platform.post(event(f"{prefix}-{posted}")).status_code == 200
            began = time.monotonic()
            seen_before = seen
            while seen < posted:
                answer = ask(platform, COUNT.format(prefix=prefix))
                ((count, users),) = answer["rows"]
                (table,) = answer["tables"]
                assert count == users, f"an event is there twice, {under_way}: {answer}"
                assert seen <= count <= posted, f"{seen} events were there, {under_way}: {answer}"
                seen = count
                versions.add(table["version"])
                if seen < posted and time.monotonic() > began + TOLD_SECONDS:
                    assert told(table), f"{posted - seen} events are missing, {under_way}: {answer}"
                assert time.monotonic() < began + PATIENCE_SECONDS, f"{seen_before} of {posted}: {answer}"
            slowest[under_way] = max(slowest.get(under_way, 0), time.monotonic() - began)
        disturbances.finish()
    print({what: round(seconds, 3) for what, seconds in slowest.items()}, f"{len(versions)} versions")
    assert set(slowest) >= {"nothing", "optimize", "restore", "kill", "vacuum"}
    platform.wait_in_lake(prefix, EVENTS)
    assert set(platform.rows(prefix).values()) == {1}


class Disturbances:
    """What happens to the lake and to the pipeline, one thing after the other, each beside the events."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._planned: list[tuple[int, str, Callable[[], object]]] = [
            (100, "optimize", lambda: self._lake("optimize")),
            (200, "restore", self._restore),
            (300, "kill", self._kill),
            (450, "vacuum", self._vacuum),
            (550, "restore", self._restore),
            (600, "optimize", lambda: self._lake("optimize")),
            (700, "kill", self._kill),
            (800, "restore", self._restore),
        ]
        self._what = "nothing"
        # Of earlier versions the files may have been vacuumed.
        self._oldest = 1
        self._future: Future[object] | None = None

    @property
    def under_way(self) -> str:
        if self._future is None:
            return "nothing"
        if not self._future.done():
            return self._what
        self._future.result()
        self._future = None
        return "nothing"

    def at(self, number: int, beside: ThreadPoolExecutor) -> None:
        """Begin the next one if it is its turn; it waits until the one before it has ended."""
        if self._planned and number >= self._planned[0][0] and self.under_way == "nothing":
            _, self._what, work = self._planned.pop(0)
            self._future = beside.submit(work)

    def finish(self) -> None:
        if self._future is not None:
            self._future.result()
        assert not self._planned

    def _lake(self, order: str, *flags: str) -> Any:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("headrace")), "lake", order, "events", *flags, "--json"],
            env={**os.environ, **to_environment(self._platform.settings)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _restore(self) -> None:
        version = max(self._newest() - 3, self._oldest)
        answer = self._lake("restore", "--version", str(version), "--yes")
        assert "Later rows come back from topic" in answer["message"]

    def _vacuum(self) -> None:
        self._lake("vacuum", "--hours", "0", "--force")
        self._oldest = self._newest()

    def _newest(self) -> int:
        return DeltaTable(self._platform.settings.lake_dir / "events").version()

    def _kill(self) -> None:
        killed = self._platform.kill("pipeline")
        self._platform.wait_restarted("pipeline", after=killed)


def told(table: dict[str, Any]) -> bool:
    """Whether the answer says that records are missing, and why."""
    waiting = [each for each in table["upstream"] if each["records"] > 0 and each["reason"]]
    return bool(waiting or (table["behind"] > 0 and table["reason"]))


def ask(platform: Platform, statement: str) -> dict[str, Any]:
    url = f"http://{platform.settings.host}:{platform.settings.query_port}/sql"
    answer = platform.http.post(url, json={"query": statement})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found
