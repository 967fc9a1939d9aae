"""A statement service on the embedded broker, with its own statement log and registry for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.registry.registry import Registry
from headrace.testing import EmbeddedBroker


@pytest.fixture(scope="session")
def schemas(broker: EmbeddedBroker) -> Iterator[RegistrySchemas]:
    registry = Registry(broker.bootstrap, topic=f"_schemas_{uuid.uuid4().hex}")
    registry.start()
    yield RegistrySchemas(registry)
    registry.stop()


@pytest.fixture(scope="session")
def cluster(broker: EmbeddedBroker) -> Iterator[Cluster]:
    opened = Cluster(broker.bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def statement_topic() -> str:
    return f"_statements_{uuid.uuid4().hex}"


@pytest.fixture
def statement_log(broker: EmbeddedBroker, statement_topic: str) -> Iterator[StatementLog]:
    log = StatementLog(broker.bootstrap, topic=statement_topic)
    log.start()
    yield log
    log.stop()


@pytest.fixture
def service(statement_log: StatementLog, cluster: Cluster, schemas: RegistrySchemas) -> StatementService:
    return StatementService(log=statement_log, cluster=cluster, schemas=schemas)
