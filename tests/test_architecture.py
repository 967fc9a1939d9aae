"""`docs/architecture.md` describes the tree as it is: its folders, its files, and the ways through them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture_page import PACKAGE, PAGES, ROOT, folders, page

ARCHITECTURE = ROOT / "docs" / "architecture.md"
# `log/partition/reading.py`, or with the package's own folder before it.
_FILE = re.compile(r"`(?:src/headrace/)?((?:[\w-]+/)+[\w.-]+\.(?:py|sql|toml))`")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_folder_table_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == page(path), "run: make docs"


def test_every_folder_says_in_one_line_what_it_owns() -> None:
    assert {each.path for each in folders()} == {
        f"{file.parent.relative_to(PACKAGE).as_posix()}/"
        for file in PACKAGE.rglob("*.py")
        if file.parent != PACKAGE
    }
    assert not [each.path for each in folders() if not each.owns or len(each.owns) > 160]


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_the_files_that_a_page_names_exist(path: Path) -> None:
    named = set(_FILE.findall(path.read_text(encoding="utf-8")))
    missing = {name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()}
    assert not missing
