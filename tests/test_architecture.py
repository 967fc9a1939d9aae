"""`docs/architecture.md` describes the tree as it is: its folders, its files, and the ways through them."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.broker.apis import ALL
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


@dataclass(frozen=True)
class Stop:
    """A file on a way. `through`: its step says which topic or table connects it to what came before."""

    file: str
    through: bool


def _way(heading: str) -> tuple[int, list[Stop]]:
    """How often the page says that the way changes folders, and the files of its numbered steps."""
    section = ARCHITECTURE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    said = re.search(r"changes folders (\d+) times", section)
    assert said, "the page does not say how often"
    steps = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    stops = [
        Stop(file, through=place == 0 and re.search(r"\b(?:topic|table) `", step) is not None)
        for step in steps
        for place, file in enumerate(_FILE.findall(step))
        if file.endswith(".py")
    ]
    return int(said[1]), stops


def _imported(file: str) -> set[str]:
    """The files of the package that a file imports, as paths."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
    if file == "broker/apis/__init__.py":
        # The list of APIs names their files, which are imported with the first request.
        names |= {api.module for api in ALL.values()}
    paths = {
        name.removeprefix("headrace.").replace(".", "/") for name in names if name.startswith("headrace.")
    }
    found = {f"{path}.py" for path in paths} | {f"{path}/__init__.py" for path in paths}
    if file == "broker/apis/__init__.py":  # which imports an API by its name when it is first used
        found |= {each.relative_to(PACKAGE).as_posix() for each in (PACKAGE / file).parent.glob("api_*.py")}
    return found


@pytest.mark.parametrize(("heading", "most"), [("The way of an event", 12), ("The way of a statement", 10)])
def test_a_way_names_files_in_the_order_of_the_calls(heading: str, most: int) -> None:
    said, stops = _way(heading)
    assert len(stops) >= 10
    known: set[str] = set()
    for stop in stops:
        reached = not known or stop.through or stop.file in known
        assert reached, f"nothing before {stop.file} imports it, and its step names no topic or table"
        known |= _imported(stop.file)
    folders_passed = [str(Path(stop.file).parent) for stop in stops]
    changes = sum(one != other for one, other in itertools.pairwise(folders_passed))
    assert changes == said <= most
