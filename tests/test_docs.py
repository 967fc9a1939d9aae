"""The documentation says what is there: settings, commands, links. What nobody checks becomes untrue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from headrace.cli.app import app
from headrace.cli.compatibility_page import compatibility_page
from headrace.cli.druid_page import druid_page
from headrace.cli.settings_page import settings_page

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])
# A link in Markdown, but no image's text; the target ends at a space (a title may follow) or the bracket.
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)[^)]*\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _commands(group: object, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_settings_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "run: python -m headrace.cli.settings_page docs/settings.md"


def test_the_page_of_druid_sql_is_up_to_date() -> None:
    page = (ROOT / "docs" / "druid-sql.md").read_text(encoding="utf-8")
    assert page == druid_page(), "run: make docs"


def test_the_compatibility_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert page == compatibility_page(), "run: make docs"


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    documented = re.findall(r"^## `(headrace [^`]+)`$", page, re.MULTILINE)
    assert sorted(documented) == sorted(_commands(typer.main.get_command(app), "headrace"))


def test_there_are_pages_to_look_at() -> None:
    assert ROOT / "docs" / "commands.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        leads_out = ROOT not in there.parents and there != ROOT
        if leads_out or not there.exists() or (anchor and anchor not in _anchors(there)):
            broken.append(target)
    assert not broken


TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_tests_that_are_named_exist() -> None:
    named = [found for page in PAGES for found in TEST.findall(page.read_text(encoding="utf-8"))]
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert named
    assert not missing
