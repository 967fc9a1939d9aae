"""The Connect REST API: Apache Kafka's own worker and ours have the same conversation, and answer alike."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.java.artifacts import Artifacts
from headrace.java.process import JavaProcess
from headrace.java.runtime import JavaRuntime
from headrace.testing import EmbeddedBroker
from tests.conformance.connect_differences import DIFFERENCES
from tests.conformance.connect_requests import CONVERSATION, Request
from tests.connect_process import running_connect
from tests.ports import free_port
from tests.running_platform import wait_for

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TEXT = "org.apache.kafka.connect.storage.StringConverter"
PATIENCE = 60.0
# Different in every run, or of no importance.
HIDDEN = {"worker_id", "version", "trace", "documentation", "commit", "kafka_cluster_id", "last_modified"}
OURS_ALONE = ("headrace.", "io.confluent.")
_OFTEN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    content: Any


@pytest.fixture(scope="module")
def kafkas(
    tmp_path_factory: pytest.TempPathFactory, java: JavaRuntime, artifacts: Artifacts, broker: EmbeddedBroker
) -> Iterator[dict[str, Answer]]:
    """What Apache Kafka's worker answers. It keeps its state on the embedded broker."""
    folder = tmp_path_factory.mktemp("kafka-connect")
    port = free_port()
    properties = {
        "bootstrap.servers": broker.bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "group.id": "oracle",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "offset.flush.interval.ms": "200",
        "plugin.discovery": "service_load",
        "scheduled.rebalance.max.delay.ms": "0",
        **{f"{kind}.storage.topic": f"oracle-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")},
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    jars = os.pathsep.join(map(str, artifacts.jars("kafka")))
    command = [str(java.executable), *FLAGS, "-cp", jars, MAIN, str(file)]
    process = JavaProcess(command, folder=folder, log_file=folder / "connect.log")
    try:
        yield _conversation(f"http://127.0.0.1:{port}", folder, "oracle", process.last_lines)
    finally:
        process.stop(0)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Answer]]:
    """On a broker of its own: the groups of the sinks have the same names."""
    folder = tmp_path_factory.mktemp("connect")
    with EmbeddedBroker(folder / "broker") as own, running_connect(folder / "data", own.bootstrap) as connect:
        url = f"http://127.0.0.1:{connect.settings.connect_port}"
        yield _conversation(url, connect.files, "ours", connect.output.read_text)


def _conversation(url: str, folder: Path, topic: str, explain: Any) -> dict[str, Answer]:
    (folder / "in.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "folder").mkdir()
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        wait_for(lambda: _is_up(client), "the worker is up", seconds=PATIENCE, explain=explain)
        talk = _Talk(client, folder, f"talk-{topic}", explain)
        return {request.name: talk.ask(request) for request in CONVERSATION}


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.HTTPError:
        return False


class _Talk:
    def __init__(self, client: httpx.Client, folder: Path, topic: str, explain: Any) -> None:
        self._client = client
        self._folder = folder
        self._topic = topic
        self._explain = explain

    def ask(self, request: Request) -> Answer:
        if request.name in ("its topics", "its offsets"):
            self._wait_for_records(request)
        headers = {} if request.content is None else {"Content-Type": request.media_type}
        content = None if request.content is None else self._filled(request.content)
        found = self._client.request(
            request.method, self._filled(request.path), headers=headers, content=content
        )
        if request.until is not None:
            status = f"/connectors/{self._filled(request.of)}/status"
            # A restart begins a moment after its answer: until then, everything is as before.
            often = _OFTEN if "restart" in request.path else 1
            seen: list[bool] = []

            def is_so() -> bool:
                seen.append(self._states(status) == request.until)
                return len(seen) >= often and all(seen[-often:])

            wait_for(
                is_so,
                f"{request.name}: {request.until}, not {self._states(status)}",
                seconds=PATIENCE,
                explain=self._explain,
            )
        return Answer(status=found.status_code, content=self._normal(found))

    def _wait_for_records(self, request: Request) -> None:
        path = self._filled(request.path)
        wait_for(
            lambda: any(self._client.get(path).json().values()) and "[]" not in self._client.get(path).text,
            request.name,
            seconds=PATIENCE,
        )

    def _states(self, path: str) -> tuple[str, ...]:
        answer = self._client.get(path)
        if answer.status_code != 200:
            return ()
        content = answer.json()
        state = content["connector"]["state"]
        # Kafka's statuses of stopped tasks go away a little later.
        tasks = () if state == "STOPPED" else tuple(task["state"] for task in content["tasks"])
        return (state, *tasks)

    def _filled(self, text: str) -> str:
        filled = text.replace("{folder}", str(self._folder)).replace("{topic}", self._topic)
        return filled.replace("{name}", "talk")

    def _normal(self, found: httpx.Response) -> Any:
        text = found.text.replace(str(self._folder), "{folder}").replace(self._topic, "{topic}")
        try:
            content = json.loads(text) if text else None
        except ValueError:
            return text
        return _without_chance(content)


def _without_chance(content: Any) -> Any:
    """Without what differs from run to run, what only we have, and the order where Kafka has none."""
    if isinstance(content, dict):
        return {
            name: "" if name in HIDDEN else _without_chance(each) for name, each in sorted(content.items())
        }
    if isinstance(content, list):
        kept = [each for each in content if not _is_ours_alone(each) and not _is_removed_offset(each)]
        walked = [_without_chance(each) for each in kept]
        return sorted(walked, key=str) if all(isinstance(each, str) for each in walked) else walked
    return re.sub(r"^\d+\.\d+\.\d+$", "", content) if isinstance(content, str) else content


def _is_removed_offset(entry: Any) -> bool:
    """Kafka shows an offset that was removed for another moment."""
    return isinstance(entry, dict) and entry.keys() == {"partition", "offset"} and entry["offset"] is None


def _is_ours_alone(plugin: Any) -> bool:
    return isinstance(plugin, dict) and str(plugin.get("class", "")).startswith(OURS_ALONE)


def test_every_request_has_a_name_of_its_own() -> None:
    names = [request.name for request in CONVERSATION]
    assert len(set(names)) == len(names)
    assert set(DIFFERENCES) <= set(names)


def test_the_answers_are_those_of_apache_kafka(kafkas: dict[str, Answer], ours: dict[str, Answer]) -> None:
    different = {
        name: f"Kafka: {answer}\n  ours: {ours[name]}"
        for name, answer in kafkas.items()
        if answer != ours[name]
    }
    unexpected = {name: text for name, text in different.items() if name not in DIFFERENCES}
    assert not unexpected, "\n".join(f"{name}\n  {text}" for name, text in unexpected.items())
    assert not DIFFERENCES.keys() - different.keys(), "these no longer differ"
