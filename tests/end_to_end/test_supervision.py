"""One part in trouble: the others go on, and `/health` and `headrace status` say which part, and why."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from headrace.assembly.restarts import RestartPolicy
from headrace.assembly.supervisor import Supervisor
from headrace.core.settings import Settings, to_environment
from tests.freezing import freeze
from tests.ports import free_ports
from tests.running_platform import Platform, event, new_prefix, wait_for


def _health(platform: Platform) -> httpx.Response:
    return platform.http.get(f"{platform.console_url}/health")


def _problems(platform: Platform) -> dict[str, str]:
    """By what they are of."""
    return {
        each["of"]: each["problem"] + " " + each["remedy"] for each in _health(platform).json()["problems"]
    }


def _status(platform: Platform, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from headrace.cli.main import main; main()", "status", *arguments],
        env=os.environ | to_environment(platform.settings) | {"COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def _stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        freeze(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _pid(platform: Platform, process: str) -> int:
    pid = platform.pid(process)
    assert pid is not None
    return pid


def _jvm(platform: Platform) -> int:
    return next(
        child.pid
        for child in psutil.Process(_pid(platform, "pipeline")).children(recursive=True)
        if child.name() == "java"
    )


def test_processes_that_do_not_answer_are_noticed_and_go_on(platform: Platform) -> None:
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{number}") for number in range(10)])
    platform.wait_in_lake(prefix, 10)
    wait_for(
        lambda: _health(platform).status_code == 200, "all is well", explain=lambda: _health(platform).text
    )
    # Not at once: on a busy machine a query may be behind for a moment.
    wait_for(lambda: _status(platform).returncode == 0, "the status says the same")
    worker = psutil.Process(_pid(platform, "ingest")).children()[0].pid
    jvm = _jvm(platform)
    with _stopped(jvm, worker):
        wait_for(lambda: _problems(platform).keys() >= {"pipeline", "ingest"}, "both are noticed")
        answer = _health(platform)
        assert answer.status_code == 503
        assert platform.http.get(f"{platform.console_url}/health/live").status_code == 200
        problems = _problems(platform)
        assert f"kill -CONT {jvm}" in problems["pipeline"]
        assert f"kill -CONT {worker}" in problems["ingest"]
        assert {query["state"] for query in answer.json()["queries"]} == {"UNKNOWN"}
        status = _status(platform)
        assert status.returncode == 1
        assert "stuck" in status.stdout
    wait_for(
        lambda: _health(platform).status_code == 200, "all is well", explain=lambda: _health(platform).text
    )
    assert _jvm(platform) == jvm, "nothing was restarted"
    platform.post(event(f"{prefix}-last"))
    platform.wait_in_lake(prefix, 11)


@pytest.mark.long
def test_a_log_that_does_not_answer_is_noticed(platform: Platform) -> None:
    wait_for(lambda: _health(platform).status_code == 200, "all is well")
    with _stopped(_pid(platform, "log")):
        wait_for(lambda: "stuck" in _problems(platform).get("log", ""), "it is noticed")
        assert platform.http.get(f"{platform.console_url}/health/live").status_code == 200
    wait_for(lambda: _health(platform).status_code == 200, "all is well again")


@pytest.mark.long
def test_lag_is_told_and_a_query_that_fails_for_ever_is_not_green(platform: Platform) -> None:
    answer = platform.http.post(
        f"{platform.statements_url}/ksql",
        json={"ksql": "CREATE STREAM of_supervision AS SELECT user_key, user_id FROM events EMIT CHANGES;"},
    ).json()
    query = answer[-1]["commandStatus"]["queryId"]

    def ksql(statement: str) -> None:
        platform.http.post(f"{platform.statements_url}/ksql", json={"ksql": statement}).raise_for_status()

    def state() -> dict[str, Any]:
        found = [each for each in _health(platform).json()["queries"] if each["query"] == query]
        return found[0] if found else {}

    wait_for(lambda: state().get("behind_records") == 0, "it runs and is not behind")
    ksql(f"PAUSE {query};")
    wait_for(lambda: state().get("state") == "STOPPED", "it is paused")
    # Whatever it keeps, it cannot keep it any more.
    folder = platform.settings.data_dir / "pipeline" / "checkpoints" / query
    aside = folder.with_name(f"{query}-aside")
    folder.rename(aside)
    folder.write_text("not a folder")
    try:
        ksql(f"RESUME {query};")
        wait_for(lambda: state().get("failures", 0) > 2, "it fails again and again")
        for _ in range(20):
            assert _health(platform).status_code == 503, "also between two failures"
        assert query in _problems(platform)
        assert query in _status(platform).stdout
    finally:
        folder.unlink()
        aside.rename(folder)
    wait_for(lambda: _health(platform).status_code == 200, "it runs again, for a minute")
    ksql(f"TERMINATE {query};")
    ksql("DROP STREAM of_supervision DELETE TOPIC;")


def test_log_and_ingest_go_on_without_a_pipeline(tmp_path: Path) -> None:
    """Observation: a pipeline that failed several times while the platform started ended everything."""
    names = ("kafka_port", "ingest_port", "registry_port", "statements_port", "console_port")
    names += ("connect_port", "connect_second_port", "query_port", "postgres_port")
    ports = free_ports(len(names))
    settings = dataclasses.replace(
        Settings(),
        data_dir=tmp_path,
        cache_dir=Settings().cache_dir.expanduser(),
        spark_ui_port=0,
        # The JVM refuses it.
        spark_memory="1k",
        **dict(zip(names, ports, strict=True)),
    )
    # Two failures are enough to call it broken; the third start comes after the test.
    policy = RestartPolicy(first_delay=0.1, factor=1000, attempts=2)
    with (
        Supervisor(settings, policy=policy) as supervisor,
        closing(Platform(settings, supervisor)) as platform,
    ):
        before = {name: platform.pid(name) for name in ("log", "ingest", "gateway")}
        failed = next(state for state in supervisor.states() if state.name == "pipeline")
        assert failed.restarts >= policy.attempts
        assert platform.post(event("u-1")).status_code == 200
        answer = _health(platform)
        assert answer.status_code == 503
        assert "times in a row" in _problems(platform)["pipeline"]
        assert "logs/pipeline.log" in _problems(platform)["pipeline"]
        status = _status(platform, "--json")
        assert status.returncode == 1
        assert [each["of"] for each in json.loads(status.stdout)["problems"]] == ["pipeline"]
        assert {name: platform.pid(name) for name in before} == before
