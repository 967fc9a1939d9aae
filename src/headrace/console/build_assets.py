"""Builds the console's assets: `npm ci` from the lock file, then copies the few files that pages need.

Run as `python -m headrace.console.build_assets`. Does nothing if the files exist and were built from this
lock file and this list (a stamp next to them records both). npm works in a temporary folder and package
scripts do not run, so only the vendor files are added to the source tree. An interrupted build leaves no
stamp, so the next one starts over.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from headrace.console.assets import BUILD_COMMAND, CONSOLE_DIR, VENDOR_DIR, VENDOR_FILES, missing_assets
from headrace.core.errors import HeadraceError

STAMP: Final = "stamp.txt"
NPM_FILES: Final = ("package.json", "package-lock.json")


def build(source_dir: Path = CONSOLE_DIR, vendor_dir: Path = VENDOR_DIR) -> bool:
    """Bring the vendor files up to date. True if something was built, False if they already were."""
    wanted = _fingerprint(source_dir)
    stamp = vendor_dir / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and not missing_assets(vendor_dir):
        return False
    stamp.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-assets-") as folder:
        work_dir = Path(folder)
        for name in NPM_FILES:
            shutil.copyfile(source_dir / name, work_dir / name)
        _npm_ci(work_dir)
        vendor_dir.mkdir(parents=True, exist_ok=True)
        for name, source in VENDOR_FILES.items():
            shutil.copyfile(work_dir / "node_modules" / source, vendor_dir / name)
    stamp.write_text(wanted, encoding="utf-8")
    return True


def _fingerprint(source_dir: Path) -> str:
    digest = hashlib.sha256()
    for name in NPM_FILES:
        digest.update((source_dir / name).read_bytes())
    digest.update(json.dumps(VENDOR_FILES).encode())
    return digest.hexdigest()


def _npm_ci(work_dir: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise HeadraceError(
            "assets_not_built",
            "Cannot build the console's assets: `npm` is not on the PATH.",
            remedy="Install Node.js 18 or newer with npm (Debian: apt-get install nodejs npm), "
            f"then run `{BUILD_COMMAND}`.",
        )
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    finished = subprocess.run(command, cwd=work_dir, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise HeadraceError(
            "assets_not_built",
            f"`npm ci` failed with exit code {finished.returncode}:\n{finished.stderr.strip()}\n",
            remedy="Check that the npm registry can be reached (`npm ping`), "
            f"then run `{BUILD_COMMAND}` again.",
        )


def main() -> int:
    try:
        built = build()
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The console's assets are {'built' if built else 'up to date'}: {VENDOR_DIR}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
