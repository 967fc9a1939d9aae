"""The pytest plugin: the fixture `headrace_broker`, a broker of its own for each test that asks for one.

Loaded by pytest wherever Headrace is installed, so importing it costs nothing.
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
    """A Kafka broker on a free port, empty; it can be stopped, killed and started again."""
    from headrace.testing.embedded_broker import EmbeddedBroker  # noqa: PLC0415

    with EmbeddedBroker(tmp_path / "headrace-broker") as broker:
        yield broker
