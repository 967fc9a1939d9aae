"""Every conformance test runs on both engines: Apache Kafka, the oracle, and the embedded broker.

CONFORMANCE_ENGINES names the engines to run, by comma: `kafka`, `embedded` or both (the default).
CONFORMANCE_KAFKA is the address of an Apache Kafka 4.3.1 that runs already, to save its start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from tests.conformance.clients import Client, Java, KafkaPython, Librdkafka
from tests.conformance.engines import EMBEDDED, KAFKA, EmbeddedServer, Engine, Server
from tests.conformance.java_tools import JavaTools
from tests.conformance.raw_client import RawClient
from tests.conformance.topics import create_topic, delete_topics, warm_up
from tests.ports import free_port

ENGINES = tuple(os.environ.get("CONFORMANCE_ENGINES", f"{KAFKA},{EMBEDDED}").split(","))


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path_factory.mktemp("embedded"))
    server.start()
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def engine_named(request: pytest.FixtureRequest) -> Callable[[str], Engine]:
    """An engine of the session by its name; started when it is first asked for."""

    def named(name: str) -> Engine:
        if name not in started:
            if name == KAFKA and "CONFORMANCE_KAFKA" in os.environ:
                bootstrap = os.environ["CONFORMANCE_KAFKA"]
            else:
                fixture = {KAFKA: "kafka", EMBEDDED: "embedded_server"}[name]
                bootstrap = request.getfixturevalue(fixture).bootstrap
            started[name] = Engine(name=name, bootstrap=bootstrap)
            warm_up(started[name])
        return started[name]

    started: dict[str, Engine] = {}
    return named


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest, engine_named: Callable[[str], Engine]) -> Engine:
    return engine_named(str(request.param))


@pytest.fixture(scope="session")
def both_engines(engine_named: Callable[[str], Engine]) -> tuple[Engine, Engine]:
    """The oracle and what is compared with it: with one engine chosen it is compared with itself."""
    return engine_named(ENGINES[0]), engine_named(ENGINES[-1])


@pytest.fixture
def server(engine: Engine, tmp_path: Path, java: JavaRuntime, artifacts: Artifacts) -> Iterator[Server]:
    """A broker of this test's own, of the engine's kind, to be stopped and started again."""
    own: Server
    if engine.name == KAFKA:
        own = ApacheKafka(tmp_path / "data", java, artifacts.jars("kafka"), "127.0.0.1", free_port())
    else:
        own = EmbeddedServer(tmp_path / "data")
    own.start()
    try:
        own.wait_ready(120)
        yield own
    finally:
        own.stop()


@pytest.fixture
def raw(engine: Engine) -> Iterator[RawClient]:
    """A connection to the engine on which every byte is the test's."""
    with engine.connect() as client:
        yield client


@pytest.fixture(scope="session")
def java_tools(java: JavaRuntime, artifacts: Artifacts) -> Iterator[JavaTools]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield tools
    finally:
        tools.close()


@pytest.fixture(scope="session")
def clients(java_tools: JavaTools) -> dict[str, Client]:
    """All clients by name."""
    every: tuple[Client, ...] = (Librdkafka(), KafkaPython(), Java(java_tools))
    return {each.name: each for each in every}


@pytest.fixture
def topic_name(engine: Engine, topic_name: str) -> Iterator[str]:
    """The test's own name, which all its topics begin with: they are deleted after it."""
    yield topic_name
    delete_topics(engine, topic_name)


@pytest.fixture
def new_topic(engine: Engine, topic_name: str) -> Callable[..., str]:
    """Make a topic on the engine, with settings written with underscores; ready when it returns."""

    def make(partitions: int = 1, name: str = topic_name, **configs: str) -> str:
        create_topic(engine, name, partitions, **configs)
        return name

    return make
