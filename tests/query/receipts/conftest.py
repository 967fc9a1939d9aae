"""A small platform for each test, on the log that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.client.cluster import Cluster
from headrace.testing import EmbeddedBroker
from tests.query.receipts.made_platform import MadePlatform
from tests.query.tail.written_table import FeedsOfTests


@pytest.fixture
def feeds(broker: EmbeddedBroker) -> Iterator[FeedsOfTests]:
    made = FeedsOfTests(Cluster(broker.bootstrap))
    yield made
    made.cluster.close()


@pytest.fixture
def make_platform(
    broker: EmbeddedBroker, topic_name: str, feeds: FeedsOfTests, tmp_path: Path
) -> Iterator[Callable[..., MadePlatform]]:
    made: list[MadePlatform] = []

    def make(**options: object) -> MadePlatform:
        name, folder = f"{topic_name}_{len(made)}", tmp_path / str(len(made))
        made.append(MadePlatform(broker, name, folder, feeds, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for platform in made:
        platform.close()


@pytest.fixture
def platform(make_platform: Callable[..., MadePlatform]) -> MadePlatform:
    return make_platform()
