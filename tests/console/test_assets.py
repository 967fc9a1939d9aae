"""The assets: built from npm once, from a lock file without addresses, and named where they are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.console import assets, build_assets
from headrace.core.errors import HeadraceError

NPM_STANDING_IN = """#!{python}
import pathlib, sys
assert sys.argv[1:] == ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], sys.argv
assert pathlib.Path("package-lock.json").is_file()
with open({calls!r}, "a") as calls:
    calls.write("ci\\n")
for name in {files!r}:
    path = pathlib.Path("node_modules") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
sys.exit({exit_code})
"""


class StandInNpm:
    """A program called `npm` that makes the files which the real one would fetch, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._calls = folder / "calls"
        folder.mkdir()
        self.answer(0)

    def answer(self, exit_code: int) -> None:
        program = self.folder / "npm"
        program.write_text(
            NPM_STANDING_IN.format(
                python=sys.executable,
                calls=str(self._calls),
                files=list(assets.VENDOR_FILES.values()),
                exit_code=exit_code,
            )
        )
        program.chmod(0o755)

    @property
    def runs(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInNpm:
    stand_in = StandInNpm(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(stand_in.folder))
    return stand_in


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name in build_assets.NPM_FILES:
        (folder / name).write_bytes((assets.CONSOLE_DIR / name).read_bytes())
    return folder


def test_the_second_build_does_nothing(npm: StandInNpm, source: Path, tmp_path: Path) -> None:
    vendor = tmp_path / "vendor"
    assert assets.missing_assets(vendor) == tuple(assets.VENDOR_FILES)
    assert build_assets.build(source, vendor) is True
    assert assets.missing_assets(vendor) == ()
    assert (vendor / "htmx.min.js").read_text() == "htmx.org/dist/htmx.min.js"
    assert build_assets.build(source, vendor) is False
    assert npm.runs == 1
    assert sorted(path.name for path in source.iterdir()) == sorted(build_assets.NPM_FILES)


def test_a_new_lock_file_or_a_lost_file_is_built_again(npm: StandInNpm, source: Path, tmp_path: Path) -> None:
    vendor = tmp_path / "vendor"
    build_assets.build(source, vendor)
    (vendor / "uplot.min.css").unlink()
    assert build_assets.build(source, vendor) is True
    lock = source / "package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    assert build_assets.build(source, vendor) is True
    assert npm.runs == 3


def test_a_failed_build_is_not_taken_for_a_good_one(npm: StandInNpm, source: Path, tmp_path: Path) -> None:
    vendor = tmp_path / "vendor"
    build_assets.build(source, vendor)
    (source / "package-lock.json").write_text("{}")
    npm.answer(1)
    with pytest.raises(HeadraceError, match="exit code 1") as failure:
        build_assets.build(source, vendor)
    assert "npm ping" in failure.value.remedy
    npm.answer(0)
    assert build_assets.build(source, vendor) is True


def test_without_npm_there_is_one_clear_message(tmp_path: Path) -> None:
    """As a user would see it: on stderr, without a traceback, with a remedy."""
    program = (
        "from pathlib import Path\n"
        "from headrace.console import build_assets\n"
        f"build = build_assets.build\n"
        f"build_assets.build = lambda: build(vendor_dir=Path({str(tmp_path / 'vendor')!r}))\n"
        "raise SystemExit(build_assets.main())\n"
    )
    environment = {**os.environ, "PATH": str(tmp_path)}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert "`npm` is not on the PATH" in finished.stderr
    assert "apt-get install nodejs npm" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_the_lock_file_pins_everything_and_names_no_registry() -> None:
    text = (assets.CONSOLE_DIR / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text
    assert "://" not in text
    packages = {name: entry for name, entry in json.loads(text)["packages"].items() if name}
    assert {"node_modules/htmx.org", "node_modules/htmx-ext-sse", "node_modules/uplot"} <= packages.keys()
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())


def test_the_built_assets_are_there() -> None:
    """`make setup` builds them before tests run; the browser test needs them too."""
    assert assets.missing_assets() == (), f"run `{assets.BUILD_COMMAND}`"


def test_an_address_changes_with_the_content(tmp_path: Path) -> None:
    (tmp_path / "page.css").write_text("a {}")
    first = assets.AssetAddresses(tmp_path).address("page.css")
    (tmp_path / "page.css").write_text("b {}")
    second = assets.AssetAddresses(tmp_path).address("page.css")
    assert first.startswith("/console/static/page.css?v=")
    assert second.startswith("/console/static/page.css?v=")
    assert first != second
