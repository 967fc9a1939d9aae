"""A real browser for tests: Debian's Chromium, driven by Playwright.

Import both fixtures, `browser` and `chromium_path`, in the conftest of a folder that needs them.
The browser lives for one test only: while Playwright's synchronous API runs, its event loop occupies the
thread, and another test's `asyncio.run` would fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL: Final = "apt-get update && apt-get install -y --no-install-recommends chromium"
# For a machine that has much else to do; 5 seconds unless told.
PATIENCE_MS: Final = 120_000
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # For tests with pages of other sites. No real site has such a name.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
    # It would refuse some of those pages' requests itself, in some versions; that is not what we test.
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What went wrong on a page that looks fine: errors on its console, and requests to any other place."""

    origin: str
    problems: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self._heard("error", str(error)))
        page.on("request", lambda request: self._asked(request.url))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(f"{kind}: {text}")

    def _asked(self, address: str) -> None:
        if not address.startswith(self.origin + "/"):
            self.problems.append(f"request to {address}")


def watched_page(browser: Browser, origin: str, **context: object) -> tuple[Page, Watch]:
    """A new page in a clean context, and the watch over it. `origin` is like `http://127.0.0.1:9000`."""
    page = browser.new_context(base_url=origin, **context).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE_MS)
    watch = Watch(origin=origin)
    watch.attach(page)
    return page, watch


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is; installed first where it is missing and we may."""
    path = _find()
    if path is None and _may_install():
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        installed = subprocess.run(
            INSTALL, shell=True, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        path = _find()
        if path is None:
            pytest.fail(f"Chromium could not be installed with `{INSTALL}`:\n{installed.stderr[-2000:]}")
    if path is None:
        pytest.fail(f"The browser tests need Chromium on the PATH. Install it, on Debian as root: {INSTALL}")
    return path


@pytest.fixture
def browser(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium_path, args=list(FLAGS), timeout=PATIENCE_MS
        )
        try:
            yield launched
        finally:
            launched.close()


def _may_install() -> bool:
    return os.geteuid() == 0 and Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def _find() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)
