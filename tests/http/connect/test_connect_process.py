"""The Connect process over HTTP: bad input, both ports, files, restarts and kills."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.client.cluster import Cluster
from headrace.testing import EmbeddedBroker
from tests.connect.worker_harness import consume
from tests.connect_process import ConnectProcess, lines_of, running_connect

SOURCE = {"connector.class": "FileStreamSource", "topic": "t"}
SINK = {"connector.class": "FileStreamSink", "file": "out.txt"}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Its own: connectors are for the whole log."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def connect(own_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectProcess]:
    with running_connect(tmp_path_factory.mktemp("connect"), own_broker.bootstrap) as process:
        yield process


def refused(connect: ConnectProcess, method: str, path: str, body: Any, status: int = 400) -> str:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = connect.client.request(
        method, path, content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error_code", "message"}
    assert answer.json()["error_code"] == status
    return str(answer.json()["message"])


class TestRequests:
    def test_both_ports_serve_the_same(self, connect: ConnectProcess) -> None:
        second = f"http://127.0.0.1:{connect.settings.connect_second_port}"
        body = {"name": "of-both", "config": {**SOURCE, "file": "both.txt"}}
        made = httpx.post(f"{second}/connectors/", json=body, timeout=60)
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"{second}/connectors/of-both"
        assert connect.ask("GET", "/connectors/of-both").json()["name"] == "of-both"
        assert connect.ask("DELETE", "/connectors/of-both").status_code == 204
        assert httpx.get(f"{second}/connectors/of-both", timeout=60).status_code == 404

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[" * 100_000,
            b"null",
            b"\xff\xfe",
            b'{"name": "x", "config": []}',
            b'{"name": ["x"], "config": {}}',
            b'{"name": "x", "config": {"connector.class": {"a": 1}}}',
            b'{"name": "x", "config": {"connector.class": "FileStreamSource", "topic": "\\ud800"}}',
            b'{"name": "\\ud800", "config": {"connector.class": "FileStreamSource", "topic": "t"}}',
            b'{"name": "x", "initial_state": 7, "config": {"connector.class": "FileStreamSource"}}',
        ],
        ids=range(11),
    )
    def test_bodies_that_are_no_connector(self, connect: ConnectProcess, body: bytes) -> None:
        assert refused(connect, "POST", "/connectors", body)

    @pytest.mark.parametrize("name", ["a/b", "..", ".", "", "a\nb", "n" * 300])
    def test_names_that_no_path_leads_to(self, connect: ConnectProcess, name: str) -> None:
        config = {**SOURCE, "file": "f.txt"}
        assert "name" in refused(connect, "POST", "/connectors", {"name": name, "config": config})
        assert connect.ask("GET", "/connectors").json() == []

    @pytest.mark.parametrize("name", ["späß 漢字 🙂", "a b", "100%", "..a", "a?b#c", "a;b", "-", "a+b&c=d"])
    def test_strange_names_work_everywhere(self, connect: ConnectProcess, name: str) -> None:
        body = {"name": name, "config": {**SOURCE, "file": "strange.txt"}}
        made = connect.client.post("/connectors", json=body)
        assert made.status_code == 201, made.text
        path = made.headers["location"].partition("/connectors")[2]
        connect.wait(
            lambda: "RUNNING" in connect.client.get(f"/connectors{path}/tasks/0/status").text, f"{name} runs"
        )
        assert connect.client.get(f"/connectors{path}").json()["name"] == name
        assert connect.client.put(f"/connectors{path}/stop").status_code == 204
        assert connect.client.delete(f"/connectors{path}/offsets").status_code == 200
        assert connect.client.delete(f"/connectors{path}").status_code == 204

    def test_configurations_that_are_too_large(self, connect: ConnectProcess) -> None:
        config = {**SOURCE, "file": "f.txt", "more": "x" * 600_000}
        assert "larger than" in refused(connect, "POST", "/connectors", {"name": "large", "config": config})
        config["more"] = "x" * 20_000_000
        refused(connect, "POST", "/connectors", {"name": "large", "config": config}, 413)
        assert connect.ask("GET", "/connectors").json() == []

    def test_a_form_and_a_page_of_another_site_change_nothing(self, connect: ConnectProcess) -> None:
        body = json.dumps({"name": "forged", "config": {**SOURCE, "file": "f.txt"}})
        form = connect.client.post("/connectors", content=body, headers={"Content-Type": "text/plain"})
        assert form.status_code == 415
        foreign = connect.client.post("/connectors", content=body, headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert connect.client.get("/connectors", headers={"Host": "evil.example"}).status_code == 403
        assert connect.ask("GET", "/connectors").json() == []

    def test_the_worker_tells_of_itself(self, connect: ConnectProcess, own_broker: EmbeddedBroker) -> None:
        about = connect.ask("GET", "/").json()
        assert about.keys() == {"version", "commit", "kafka_cluster_id"}
        assert connect.ask("GET", "/health").json()["status"] == "healthy"
        assert connect.ask("PUT", "/admin/loggers/root", {"level": "WARN"}).json() == ["root"]
        assert connect.ask("GET", "/admin/loggers/root").json()["level"] == "WARN"
        connect.ask("PUT", "/admin/loggers/root", {"level": "INFO"})
        assert own_broker.is_running


class TestFiles:
    @pytest.mark.parametrize("file", ["../escape.txt", "/etc/passwd", "way/out.txt", "../run/connect.json"])
    def test_paths_outside_the_allowed_folder(
        self, connect: ConnectProcess, file: str, tmp_path: Path
    ) -> None:
        way = connect.files / "way"
        if not way.is_symlink():
            way.symlink_to(tmp_path)
        for config in ({**SINK, "topics": "t"}, SOURCE):
            message = refused(
                connect, "POST", "/connectors", {"name": "x", "config": {**config, "file": file}}
            )
            assert "file_connector_folders" in message

    def test_a_link_that_appears_later_is_refused_when_the_file_is_opened(
        self, connect: ConnectProcess, tmp_path: Path
    ) -> None:
        body = {"name": "later", "config": {**SOURCE, "file": "later/in.txt"}, "initial_state": "STOPPED"}
        assert connect.ask("POST", "/connectors", body).status_code == 201
        (tmp_path / "in.txt").write_text("secret\n", encoding="utf-8")
        (connect.files / "later").symlink_to(tmp_path)
        connect.ask("PUT", "/connectors/later/resume")
        connect.wait_states("later", "RUNNING", "FAILED")
        trace = connect.ask("GET", "/connectors/later/status").json()["tasks"][0]["trace"]
        assert "not in an allowed folder" in trace
        connect.ask("DELETE", "/connectors/later")

    def test_a_file_goes_through_a_topic_into_a_file(self, connect: ConnectProcess) -> None:
        (connect.files / "from.txt").write_text("one\ntwo\n", encoding="utf-8")
        connect.create("from", connector_class="FileStreamSource", file="from.txt", topic="through")
        connect.create("into", connector_class="FileStreamSink", file="into.txt", topics="through")
        connect.wait(lambda: lines_of(connect.files / "into.txt") == ["one", "two"], "both lines")
        for name in ("from", "into"):
            assert connect.ask("DELETE", f"/connectors/{name}").status_code == 204

    def test_a_generator_counts_to_its_end(self, connect: ConnectProcess, own_broker: EmbeddedBroker) -> None:
        connect.create(
            "gen",
            connector_class="Generator",
            topic="made",
            template='{"n": "{{sequence}}"}',
            rate="0",
            count="2500",
        )
        values = [json.loads(each.value())["n"] for each in consume(own_broker.bootstrap, "made", 2500)]
        assert values == list(range(2500))
        connect.ask("DELETE", "/connectors/gen")


class TestCrashes:
    def test_nothing_that_was_answered_is_lost_by_a_kill(self, tmp_path: Path) -> None:
        """Lines are written all the while; after each kill all of them arrive, at least once and in order."""
        with (
            EmbeddedBroker(tmp_path / "broker") as log,
            running_connect(tmp_path / "data", log.bootstrap) as it,
        ):
            source = it.files / "in.txt"
            lines = [f"line {number}" for number in range(3000)]
            done = threading.Event()

            def write() -> None:
                with source.open("a", encoding="utf-8") as file:
                    for number, line in enumerate(lines):
                        file.write(f"{line}\n")
                        if number % 50 == 0:
                            file.flush()
                            done.wait(0.02)

            writer = threading.Thread(target=write)
            writer.start()
            it.create("in", connector_class="FileStreamSource", file="in.txt", topic="killed")
            # A killed sink's partitions are its own for so long.
            session = {"consumer.override.session.timeout.ms": "6000"}
            it.create("out", connector_class="FileStreamSink", file="out.txt", topics="killed", **session)
            it.create("idle", connector_class="FileStreamSource", file="none.txt", topic="none")
            assert it.ask("PUT", "/connectors/idle/stop").status_code == 204
            target = it.files / "out.txt"
            for seen in (200, 1500):
                it.wait(lambda seen=seen: len(lines_of(target)) >= seen, f"{seen} lines")
                it.kill()
                it.start()
            writer.join()
            it.wait(lambda: set(lines) <= set(lines_of(target)), "all lines")
            assert sorted(it.ask("GET", "/connectors").json()) == ["idle", "in", "out"]
            assert it.states("idle") == ["STOPPED"]
            count = Cluster(log.bootstrap).end_offsets("killed")[0]
            written = [each.value().decode() for each in consume(log.bootstrap, "killed", count)]
            assert _in_order(lines, written)

    def test_a_connector_that_was_answered_survives_a_kill(self, tmp_path: Path) -> None:
        answered: list[str] = []
        with (
            EmbeddedBroker(tmp_path / "broker") as log,
            running_connect(tmp_path / "data", log.bootstrap) as it,
        ):

            def post() -> None:
                try:
                    for number in range(10_000):
                        body = {
                            "name": f"c{number}",
                            "config": {**SOURCE, "file": "f"},
                            "initial_state": "STOPPED",
                        }
                        if it.ask("POST", "/connectors", body).status_code == 201:
                            answered.append(f"c{number}")
                except httpx.HTTPError:
                    """The worker was killed."""

            thread = threading.Thread(target=post)
            thread.start()
            it.wait(lambda: len(answered) >= 40, "some are answered")
            it.kill()
            thread.join()
            it.start()
            there = it.ask("GET", "/connectors").json()
            assert set(answered) <= set(there)
            # The last one may have been written and not answered.
            assert len(there) <= len(answered) + 1

    def test_a_clean_stop_commits_so_nothing_comes_twice(self, tmp_path: Path) -> None:
        with (
            EmbeddedBroker(tmp_path / "broker") as log,
            running_connect(tmp_path / "data", log.bootstrap) as it,
        ):
            (it.files / "in.txt").write_text(
                "".join(f"{number}\n" for number in range(1000)), encoding="utf-8"
            )
            it.create("in", connector_class="FileStreamSource", file="in.txt", topic="stopped")
            it.create("out", connector_class="FileStreamSink", file="out.txt", topics="stopped")
            it.wait(lambda: len(lines_of(it.files / "out.txt")) == 1000, "the first thousand")
            assert it.stop() == 0
            it.start()
            with (it.files / "in.txt").open("a", encoding="utf-8") as file:
                file.write("last\n")
            it.wait(lambda: "last" in lines_of(it.files / "out.txt"), "the last")
            assert len(lines_of(it.files / "out.txt")) == 1001

    @pytest.mark.long
    def test_two_hundred_connectors(self, tmp_path: Path) -> None:
        with (
            EmbeddedBroker(tmp_path / "broker") as log,
            running_connect(tmp_path / "data", log.bootstrap) as it,
        ):
            for number in range(200):
                (it.files / f"{number}.txt").write_text(f"line {number}\n", encoding="utf-8")
                it.create(
                    f"c{number}", connector_class="FileStreamSource", file=f"{number}.txt", topic="many"
                )
            assert len({each.value() for each in consume(log.bootstrap, "many", 200)}) == 200
            listed = it.ask("GET", "/connectors?expand=status").json()
            assert len(listed) == 200
            it.kill()
            it.start()
            it.wait(
                lambda: all(
                    each["status"]["tasks"] and each["status"]["tasks"][0]["state"] == "RUNNING"
                    for each in it.ask("GET", "/connectors?expand=status").json().values()
                ),
                "all run again",
            )
            assert it.stop() == 0


def _in_order(lines: list[str], written: list[str]) -> bool:
    """Whether the lines are there in order, with repetitions that go back and then on again."""
    position = 0
    for each in written:
        number = int(each.partition(" ")[2])
        if number > position:
            return False
        position = max(position, number + 1)
    return position == len(lines)
