"""One platform for all end-to-end tests; gone when they are over, as it needs the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import browser, chromium_path  # noqa: F401 - fixtures
from tests.lake_connectors import Connectors
from tests.running_platform import Platform, running_platform


@pytest.fixture(scope="package")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with running_platform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
def connectors(platform: Platform) -> Iterator[Connectors]:
    """Of one test; gone when it is over."""
    created = Connectors(platform)
    try:
        yield created
    finally:
        created.close()
