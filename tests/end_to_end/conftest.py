"""One platform for all end-to-end tests of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import browser, chromium_path  # noqa: F401 - fixtures
from tests.running_platform import Platform, running_platform


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with running_platform(tmp_path_factory.mktemp("platform"), default_partitions=4) as running:
        yield running
