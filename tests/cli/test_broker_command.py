"""`headrace broker` as a user runs it: its one line, its signals, mistakes, and what it does not import."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from headrace.cli.broker import FLAGS, broker_settings, parse_quickly
from headrace.core.errors import HeadraceError
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "broker", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line


def refusal(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    return errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_and_stops_in_good_order(
    start: Start, tmp_path: Path, topic_name: str, number: signal.Signals
) -> None:
    process = start("--port", "0", "--data-dir", "logs", "--fsync=always", "--set", "num.partitions=2")
    found = re.fullmatch(r"ready (127\.0\.0\.1:(\d+))\n", ready(process))
    assert found is not None
    bootstrap, port = found.groups()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic_name, b"kept", partition=1)
    assert producer.flush(120) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    assert admin.describe_configs([resource])[resource].result()["num.partitions"].value == "2"
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "", "")
    assert (tmp_path / "logs").is_dir()

    again = start("--port", port, "--data-dir", "logs")
    assert ready(again) == f"ready {bootstrap}\n"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(topic_name, 1, 0)])
    try:
        message = consumer.poll(120)
        assert message is not None
        assert message.value() == b"kept"
    finally:
        consumer.close()


def test_a_port_or_a_folder_in_use_is_named(start: Start) -> None:
    first = start("--port", "0", "--data-dir", "one")
    port = ready(first).strip().rpartition(":")[2]
    assert f"Port {port} on 127.0.0.1 is in use" in refusal(start("--port", port, "--data-dir", "two"))
    said = refusal(start("--port", "0", "--data-dir", "one"))
    assert said.startswith("headrace: ")
    assert "one" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "65536"], "--port = 65536"),
        (["--fsync", "sometimes"], "`always`"),
        (["--fsync-interval-ms", "0"], "at least 1"),
        (["--set", "log.retention.ms"], "NAME=VALUE"),
        (["--set", "log.retention.ms=soon"], "log.retention.ms"),
        (["--set", "no.such.config=1"], "no.such.config"),
        (["--host", "203.0.113.1"], "203.0.113.1"),
        (["--prot", "1"], "--port"),
        (["--port", "many"], "--port"),
        (["--port"], "--port"),
    ],
)
def test_a_mistake_is_said_and_nothing_starts(start: Start, arguments: list[str], says: str) -> None:
    default = [] if "--port" in arguments else ["--port", "0"]
    assert says in refusal(start(*default, *arguments))


def test_help_shows_every_flag_and_the_page_explains_it() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = page.partition("## `headrace broker`")[2].partition("\n## ")[0]
    shown = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "broker", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for flag in FLAGS:
        assert f"{flag.flag} " in shown
        assert f"`{flag.flag}" in section


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], {}),
        (["--port=0", "--data-dir", "x"], {"port": 0, "data_dir": Path("x")}),
        (["--set", "a=b", "--set=c=d=e"], {"set": ["a=b", "c=d=e"]}),
        (["--help"], None),
        (["--port"], None),
        (["--port", "x"], None),
        (["--port", "1", "--port", "2"], None),
        (["here"], None),
    ],
)
def test_the_quick_way_takes_what_is_well_formed_and_leaves_the_rest_to_typer(
    arguments: list[str], values: dict[str, Any] | None
) -> None:
    assert parse_quickly(arguments) == values


def test_flags_become_settings(tmp_path: Path) -> None:
    values = {"host": "0.0.0.0", "advertised_host": "log.test", "data_dir": tmp_path, "set": ["a = b"]}
    settings = broker_settings(values)
    assert (settings.host, settings.advertised_host) == ("0.0.0.0", "log.test")
    assert (settings.port, settings.fsync, settings.configs) == (9092, "os", {"a": "b"})
    with pytest.raises(HeadraceError, match="--node-id"):
        broker_settings({"node_id": -1})


def test_it_imports_nothing_that_a_broker_does_not_need(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "headrace.cli.main", "broker", "--port", "0"]
    imports = tmp_path / "imports"
    with imports.open("w") as file:
        process = subprocess.Popen(
            [*command, "--data-dir", str(tmp_path / "logs")], stdout=subprocess.PIPE, stderr=file, text=True
        )
    try:
        assert ready(process).startswith("ready ")
    finally:
        process.kill()
        process.communicate()
    loaded = {line.rpartition("|")[2].strip() for line in imports.read_text().splitlines()}
    assert {"headrace.broker.server", "kio", "uvloop"} <= loaded
    for heavy in ("typer", "rich", "litestar", "confluent_kafka", "msgspec", "psutil", "hypothesis"):
        assert heavy not in loaded


def test_the_port_of_a_broker_is_the_callers_choice(start: Start) -> None:
    port = free_port()
    assert ready(start("--port", str(port), "--data-dir", "logs")) == f"ready 127.0.0.1:{port}\n"
