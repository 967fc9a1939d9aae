"""Fixtures that all tests share: brokers of both engines for the whole run, a topic name for each test."""

from __future__ import annotations

import os
import re
import resource
import uuid
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from headrace.core import settings
from headrace.engines import apache_kafka
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

# Its tests share a platform, which takes long to start.
_TOGETHER = "tests/end_to_end/"
_COMPUTE = ("tests/acceptance/", "tests/pipeline/")
_WAIT = ("tests/engines/", "tests/conformance/", "tests/load/", "tests/broker/test_", "tests/assembly/")
_STATEMENT_CASES = "tests/pipeline/test_statement_cases.py::"
# Tests give Spark and Kafka little data and end them soon: the JVM's second compiler would take a third of
# the processor time and never pay for itself.
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
# Without it, the JVM also has only a fifth of the space for compiled code, and Spark ends when that is full.
_SPARK_JVM = f"{_FIRST_COMPILER} -XX:ReservedCodeCacheSize=240m"


def pytest_configure() -> None:
    """Many logs are opened and left open as after a crash: more files than the usual limit of 1,024."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ["SPARK_SUBMIT_OPTS"] = _SPARK_JVM
    apache_kafka.JVM_FLAGS = (*apache_kafka.JVM_FLAGS, _FIRST_COMPILER)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Which tests stay together when processes share them (`make test`)."""
    return _Scopes(config, log)


class _Scopes(LoadScopeScheduling):
    """Gives each scope to the process that is free first; a process makes at most one Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def _scope(nodeid: str) -> str:
    """What stays together: a file, for its fixtures, and the folder that shares a platform.

    The statement cases are many: each file of theirs is a scope.
    """
    if nodeid.startswith(_TOGETHER):
        return _TOGETHER
    return nodeid.partition("-" if nodeid.startswith(_STATEMENT_CASES) else "::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest scope and end with short ones, so that all processes end at about the same time.

    Between them, scopes that compute (on Spark) take turns with those that mostly wait (for clients and
    processes): beside each other they use the machine best, and slow each other down least.
    """
    kinds: dict[str, dict[str, list[pytest.Item]]] = {
        kind: {} for kind in ("first", "compute", "wait", "last")
    }
    for item in items:
        scope = _scope(item.nodeid)
        kinds[_kind(scope)].setdefault(scope, []).append(item)
    in_turn = zip_longest(kinds["compute"].values(), kinds["wait"].values(), fillvalue=[])
    middle = [scope for both in in_turn for scope in both]
    items[:] = chain.from_iterable([*kinds["first"].values(), *middle, *kinds["last"].values()])


def _kind(scope: str) -> str:
    if scope == _TOGETHER:
        return "first"
    if scope.startswith(_COMPUTE):
        return "compute"
    return "wait" if scope.startswith(_WAIT) else "last"


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
    """The same of the embedded engine, for tests that need a log and do not care which.

    Nothing expires: many tests give records the timestamps of 1970.
    """
    folder = tmp_path_factory.mktemp("broker")
    configs = {"log.retention.ms": "-1"}
    with EmbeddedBroker(folder, max_message_bytes=2 * 1024 * 1024, configs=configs) as running:
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
