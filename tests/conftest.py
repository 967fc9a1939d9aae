"""Fixtures that all tests share: brokers of both engines for the whole run, a topic name for each test."""

from __future__ import annotations

import os
import re
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from headrace.core import settings
from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime, find_java
from headrace.testing import EmbeddedBroker
from tests.broker.broker_process import BrokerProcess
from tests.ports import free_port

# How long an example takes says how busy the machine is, nothing about what is tested.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=(hypothesis.HealthCheck.too_slow,)
)
hypothesis.settings.load_profile("untimed")

# Each folder shares something that takes long to start: a platform, a Spark session.
_TOGETHER = ("tests/end_to_end/", "tests/pipeline/")
_RUN_SPARK = ("tests/acceptance/", *_TOGETHER)
_WAIT = ("tests/engines/", "tests/conformance/", "tests/load/", "tests/broker/test_")
_STATEMENT_CASES = "tests/pipeline/test_statement_cases.py::"
# Tests give Spark little data and end it soon: the JVM's second compiler would take a third of the processor
# time and never pay for itself.
# Without it, the JVM also has only a fifth of the space for compiled code, and it ends when that is full.
_SPARK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


def pytest_configure() -> None:
    """Many logs are opened and left open as after a crash: more files than the usual limit of 1,024."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ["SPARK_SUBMIT_OPTS"] = _SPARK_JVM


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Which tests stay together when processes share them (`make test`)."""
    return _FilesAndSpark(config, log)


class _FilesAndSpark(LoadScopeScheduling):
    """A file stays whole, for its fixtures, and so do the folders that share a platform or a Spark session.

    The statement cases are many: each of their files goes to whichever process is free, on its own session.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if nodeid.startswith(_STATEMENT_CASES):
            return nodeid.partition("-")[0]
        return next((folder for folder in _TOGETHER if file.startswith(folder)), file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with Spark, then the files that mostly wait; the statement cases fill up the end."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.nodeid.startswith(_STATEMENT_CASES):
        return 3
    if item.nodeid.startswith(_RUN_SPARK):
        return 0
    return 1 if item.nodeid.startswith(_WAIT) else 2


@pytest.fixture(scope="session")
def java() -> JavaRuntime:
    return find_java()


@pytest.fixture(scope="session")
def artifacts() -> Artifacts:
    """The user's own cache: it is filled once, not once a run."""
    configured = settings.load({}, environ=os.environ, folder=Path("/"))
    return Artifacts(configured.cache_dir)


@pytest.fixture(scope="session")
def kafka(
    tmp_path_factory: pytest.TempPathFactory, java: JavaRuntime, artifacts: Artifacts
) -> Iterator[ApacheKafka]:
    """One broker that serves, for all tests of the run: keep apart by topic names."""
    jars = artifacts.jars("kafka", progress=True)
    engine = ApacheKafka(tmp_path_factory.mktemp("kafka"), java, jars, "127.0.0.1", free_port())
    engine.start()
    try:
        engine.wait_ready(timeout=120)
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The same of the embedded engine, for tests that need a log and do not care which."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), max_message_bytes=2 * 1024 * 1024) as running:
        yield running


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of one's own, in a process that can be stopped, frozen and killed."""
    process = BrokerProcess(tmp_path / "broker")
    process.start()
    try:
        yield process
    finally:
        process.end()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, and that tells which test it was."""
    return re.sub(r"[^A-Za-z0-9_]", "_", request.node.name)[:60] + "_" + uuid.uuid4().hex[:8]
