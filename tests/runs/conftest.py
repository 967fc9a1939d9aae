from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import EmbeddedBroker
from tests.runs.sink_topic import Sink


@pytest.fixture
def sink(broker: EmbeddedBroker) -> Iterator[Sink]:
    made = Sink(broker.bootstrap)
    yield made
    made.cluster.close()
