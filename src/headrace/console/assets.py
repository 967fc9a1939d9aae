"""The files that the console serves: our own in `static/`, third-party ones in `static/vendor/`.

The vendor files come from the npm registry at build time (`python -m headrace.console.build_assets`), are not
in git, and are shipped in the wheel. Invariants: `VENDOR_FILES` is the only list of them, used by the build
and by the check at run time; a page never refers to another host. Never downloads anything at run time.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

CONSOLE_DIR: Final = Path(__file__).parent
STATIC_DIR: Final = CONSOLE_DIR / "static"
VENDOR_DIR: Final = STATIC_DIR / "vendor"
STATIC_PATH: Final = "/console/static"
BUILD_COMMAND: Final = "python -m headrace.console.build_assets"

# Name in `vendor/` -> file in `node_modules/`. Includes the licences: the wheel redistributes the files.
VENDOR_FILES: Final[dict[str, str]] = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "htmx.LICENSE": "htmx.org/LICENSE",
    "htmx-ext-sse.min.js": "htmx-ext-sse/dist/sse.min.js",
    "htmx-ext-sse.LICENSE": "htmx-ext-sse/LICENSE",
    "uplot.iife.min.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.min.css": "uplot/dist/uPlot.min.css",
    "uplot.LICENSE": "uplot/LICENSE",
}


def missing_assets(vendor_dir: Path = VENDOR_DIR) -> tuple[str, ...]:
    """The missing vendor files; empty if the assets are built."""
    return tuple(name for name in VENDOR_FILES if not (vendor_dir / name).is_file())


class AssetAddresses:
    """The URL of each static file; part of it changes with the content, so browsers may cache it."""

    def __init__(self, static_dir: Path = STATIC_DIR) -> None:
        self._versions = {
            path.relative_to(static_dir).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            for path in sorted(static_dir.rglob("*"))
            if path.is_file()
        }

    def address(self, name: str) -> str:
        version = self._versions.get(name)
        return f"{STATIC_PATH}/{name}?v={version}" if version else f"{STATIC_PATH}/{name}"
