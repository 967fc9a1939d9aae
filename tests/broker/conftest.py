"""A broker without a network, for tests of single APIs; and a disk that fails, for tests of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.broker.asking import open_broker


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Opens a broker with these settings on the test's folder; a second one after the first has closed."""
    opened: list[Broker] = []

    def open_again(**settings: Any) -> Broker:
        for each in opened:
            each.logs.close()
        opened.append(open_broker(tmp_path / "data", **settings))
        return opened[-1]

    yield open_again
    for each in opened:
        each.logs.close()


@pytest.fixture
def broker(start: Callable[..., Broker]) -> Broker:
    return start()


@pytest.fixture
def disk() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
