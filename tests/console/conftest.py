"""What the console's tests share: a browser, and services that answer from memory."""

from __future__ import annotations

import pytest

from tests.browser import browser, chromium_path
from tests.console.fakes import FakeServices

__all__ = ["browser", "chromium_path"]


@pytest.fixture
def fake() -> FakeServices:
    return FakeServices()
