"""The log process as the supervisor runs it."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from headrace.assembly.announcements import Announcement, latest
from headrace.core.settings import ENVIRONMENT_PREFIX, Settings, load, to_environment
from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from tests.engines.test_apache_kafka import consume, produce
from tests.ports import free_port

Start = Callable[[Settings], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the log process; what still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start_process(settings: Settings) -> subprocess.Popen[str]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.assembly.run_process", "log"],
            env=environment | to_environment(settings),
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_process
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def settings(tmp_path: Path, artifacts: Artifacts) -> Settings:
    cache_dir = artifacts.jars("kafka")[0].parents[2]
    flags = {"data_dir": tmp_path / "data", "cache_dir": cache_dir, "kafka_port": free_port()}
    return load({**flags, "engine": "kafka"}, environ={}, folder=tmp_path)


@pytest.fixture
def embedded(tmp_path: Path) -> Settings:
    flags = {"data_dir": tmp_path / "data", "kafka_port": free_port()}
    return load(flags, environ={}, folder=tmp_path)


def wait_for_state(settings: Settings, process: subprocess.Popen[str], state: str) -> Announcement:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        word = latest(settings, "log")
        if word is not None and word.state == state:
            return word
        if ended:
            pytest.fail(f"ended with {process.returncode}: {word}")
        time.sleep(0.02)
    pytest.fail(f"not {state} in time: {latest(settings, 'log')}")


def test_it_serves_until_it_is_told_to_stop(settings: Settings, start: Start, topic_name: str) -> None:
    process = start(settings)
    word = wait_for_state(settings, process, "ready")
    assert word.pid == process.pid
    assert settings.bootstrap in word.detail
    produce(settings.bootstrap, topic_name, [b"one"])
    assert consume(settings.bootstrap, topic_name, 1) == [b"one"]
    brokers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not any(broker.is_running() for broker in brokers)
    log = (settings.data_dir / "kafka" / "broker-1" / "server.log").read_text(encoding="utf-8")
    assert "[BrokerServer id=1] shut down completed" in log


def test_the_embedded_broker_is_the_process_itself_and_closes_its_logs(
    embedded: Settings, start: Start, topic_name: str
) -> None:
    process = start(embedded)
    word = wait_for_state(embedded, process, "ready")
    assert word.detail == f"{embedded.bootstrap} (embedded)"
    produce(embedded.bootstrap, topic_name, [b"one"])
    assert psutil.Process(process.pid).children() == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0

    again = start(embedded)
    wait_for_state(embedded, again, "ready")
    assert consume(embedded.bootstrap, topic_name, 1) == [b"one"]
    again.send_signal(signal.SIGINT)
    assert again.wait(60) == 0


def test_a_log_of_the_other_engine_is_not_used_and_that_is_said(embedded: Settings, start: Start) -> None:
    other = embedded.data_dir / "kafka"
    other.mkdir(parents=True)
    word = wait_for_state(embedded, start(embedded), "ready")
    assert f"what engine kafka wrote to {other} is not used" in word.detail


def test_events_of_the_largest_size_fit_into_the_embedded_log(
    embedded: Settings, start: Start, topic_name: str
) -> None:
    settings = dataclasses.replace(embedded, max_event_bytes=5_000_000, fsync="always", default_partitions=2)
    process = start(settings)
    wait_for_state(settings, process, "ready")
    produce(settings.bootstrap, topic_name, [b"x" * 5_000_000])
    metadata = AdminClient({"bootstrap.servers": settings.bootstrap}).list_topics(topic_name, timeout=120)
    assert len(metadata.topics[topic_name].partitions) == 2


def test_a_second_embedded_broker_is_kept_out_of_the_folder_and_a_port_in_use_is_named(
    embedded: Settings, start: Start, tmp_path: Path
) -> None:
    first = start(embedded)
    wait_for_state(embedded, first, "ready")
    for settings, code in (
        (dataclasses.replace(embedded, kafka_port=free_port()), "is in use"),
        (dataclasses.replace(embedded, data_dir=tmp_path / "other"), f"Port {embedded.kafka_port}"),
    ):
        process = start(settings)
        assert process.wait(60) == 1
        word = latest(settings, "log")
        assert word is not None
        assert word.state == "failed"
        assert code in word.detail


def test_a_broker_that_dies_ends_it_with_an_error(settings: Settings, start: Start) -> None:
    process = start(settings)
    wait_for_state(settings, process, "ready")
    (broker,) = psutil.Process(process.pid).children()
    broker.kill()
    assert process.wait(60) == 1
    word = latest(settings, "log")
    assert word is not None
    assert word.state == "failed"
    assert "Kafka broker 1 exited with code -9" in word.detail


def test_a_signal_breaks_off_a_start(settings: Settings, start: Start) -> None:
    process = start(settings)
    deadline = time.monotonic() + 120
    while not (settings.data_dir / "kafka" / "broker-1" / "server.log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    word = latest(settings, "log")
    assert word is not None
    assert word.state == "starting"


def test_an_external_cluster_is_watched_and_left_alone(
    kafka: ApacheKafka, tmp_path: Path, start: Start
) -> None:
    flags = {"data_dir": tmp_path, "engine": "external", "bootstrap_servers": kafka.bootstrap}
    settings = load(flags, environ={}, folder=tmp_path)
    process = start(settings)
    word = wait_for_state(settings, process, "ready")
    assert kafka.bootstrap in word.detail
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    kafka.check_alive()
