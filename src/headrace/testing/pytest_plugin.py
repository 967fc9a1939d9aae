"""The pytest plugin: the fixture `headrace_broker`, a separate broker for each test that requests it.

pytest loads it wherever Headrace is installed, so importing it must cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.testing.embedded_broker import EmbeddedBroker


@pytest.fixture
def headrace_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """An empty Kafka broker on a free port; it can be stopped, killed and restarted."""
    from headrace.testing.embedded_broker import EmbeddedBroker  # noqa: PLC0415

    with EmbeddedBroker(tmp_path / "headrace-broker") as broker:
        yield broker
