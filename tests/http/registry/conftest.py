"""A registry on the embedded broker, served over HTTP for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from headrace.http.registry.answers import MEDIA_TYPE, REGISTRY_RULES
from headrace.http.registry.app import create_registry_app
from headrace.registry.registry import Registry
from headrace.testing import EmbeddedBroker
from tests.http.registry.serving import served


@pytest.fixture(scope="module")
def address(
    broker: EmbeddedBroker, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    name = request.module.__name__.rpartition(".")[2]
    registry = Registry(broker.bootstrap, topic=f"_schemas_{tmp_path_factory.getbasetemp().name}_{name}")
    registry.start()
    try:
        with served(create_registry_app(registry), REGISTRY_RULES) as url:
            yield url
    finally:
        registry.stop()


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, headers={"content-type": MEDIA_TYPE}, timeout=120) as opened:
        yield opened
