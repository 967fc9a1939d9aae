"""The door on a statement service of its own, served by hypercorn on the embedded broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest

from headrace.client.cluster import Cluster
from headrace.http.statements.answers import STATEMENTS_RULES
from headrace.http.statements.app import create_statements_app
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.registry.registry import Registry
from headrace.testing import EmbeddedBroker
from tests.http.registry.serving import served


@pytest.fixture(scope="module")
def service(broker: EmbeddedBroker) -> Iterator[StatementService]:
    """One for a module: tests keep apart by names."""
    registry = Registry(broker.bootstrap, topic=f"_schemas_{uuid.uuid4().hex}")
    registry.start()
    log = StatementLog(broker.bootstrap, topic=f"_statements_{uuid.uuid4().hex}")
    log.start()
    cluster = Cluster(broker.bootstrap)
    made = StatementService(log=log, cluster=cluster, schemas=RegistrySchemas(registry))
    made.start()
    yield made
    made.stop()
    cluster.close()
    log.stop()
    registry.stop()


@pytest.fixture(scope="module")
def address(service: StatementService) -> Iterator[str]:
    with served(create_statements_app(service), STATEMENTS_RULES) as url:
        yield url


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=120) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """A name for a stream or table that no other test uses."""
    return f"S_{uuid.uuid4().hex[:10]}".upper()
