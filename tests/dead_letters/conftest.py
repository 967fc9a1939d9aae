"""A log with dead letters of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import EmbeddedBroker
from tests.dead_letters.letters import Letters, with_letters


@pytest.fixture
def letters(broker: EmbeddedBroker, topic_name: str) -> Letters:
    return with_letters(broker, topic_name)


@pytest.fixture
def broker_of_its_own() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running
