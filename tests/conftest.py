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

from headrace.core import settings
from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime, find_java
from headrace.testing import EmbeddedBroker
from tests import jvm_flags
from tests.broker.broker_process import BrokerProcess
from tests.faulty_s3 import FaultyS3, faulty_s3
from tests.ports import free_port
from tests.s3_server import S3Server, running_s3_server
from tests.shared_work import SharedWork, in_order

# How long an example takes says how busy the machine is, nothing about what is tested. Each run of
# `make test` tries other examples; `make test-all` has the profile `thorough`.
for profile, examples in (("quick", 40), ("thorough", 200)):
    hypothesis.settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=(hypothesis.HealthCheck.too_slow,),
    )
hypothesis.settings.load_profile("quick")


def pytest_configure() -> None:
    """Many logs are opened and left open as after a crash: more files than the usual limit of 1,024."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    jvm_flags.use(
        spark=jvm_flags.sharing(jvm_flags.SPARK_ARCHIVE), kafka=jvm_flags.sharing(jvm_flags.KAFKA_ARCHIVE)
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedWork:
    """How processes share the tests (`make test`)."""
    return SharedWork(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = in_order(items)


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
        # Nobody needs its folder: a good end would take up to half a minute.
        engine.stop(timeout=0)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The same of the embedded engine, for tests that need a log and do not care which.

    Nothing expires: many tests give records the timestamps of 1970.
    """
    folder = tmp_path_factory.mktemp("broker")
    configs = {"log.retention.ms": "-1"}
    with EmbeddedBroker(folder, max_message_bytes=2 * 1024 * 1024, configs=configs) as running:
        yield running


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, java: JavaRuntime) -> Iterator[S3Server]:
    """One S3 server for all tests of the run: keep apart by buckets."""
    with running_s3_server(tmp_path_factory.mktemp("s3"), java) as running:
        yield running


@pytest.fixture
def faulty(s3_server: S3Server) -> Iterator[FaultyS3]:
    """The same server behind a proxy of one's own, which can fail."""
    with faulty_s3(s3_server.endpoint) as proxy:
        yield proxy


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
