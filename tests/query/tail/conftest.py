"""Tails of tables in a temporary folder, on the log that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.client.cluster import Cluster
from headrace.query.tail.tails import Tails
from headrace.testing import EmbeddedBroker
from tests.query.tail.written_table import FeedsOfTests, WrittenTable

MOST_BYTES = 256 * 1024 * 1024


@pytest.fixture
def feeds(broker: EmbeddedBroker) -> Iterator[FeedsOfTests]:
    made = FeedsOfTests(Cluster(broker.bootstrap))
    yield made
    made.cluster.close()


@pytest.fixture
def tails(broker: EmbeddedBroker, feeds: FeedsOfTests, tmp_path: Path) -> Iterator[Tails]:
    made = Tails(broker.bootstrap, feeds, tmp_path / "tails", most_bytes=MOST_BYTES)
    yield made
    made.close()


@pytest.fixture
def make_table(
    broker: EmbeddedBroker, topic_name: str, feeds: FeedsOfTests, tmp_path: Path
) -> Callable[..., WrittenTable]:
    return lambda **options: WrittenTable(broker, topic_name, tmp_path / "lake", feeds, **options)


@pytest.fixture
def table(make_table: Callable[..., WrittenTable]) -> WrittenTable:
    return make_table()
