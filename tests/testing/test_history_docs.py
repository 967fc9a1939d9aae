"""The page on histories names every rule, in the words of the rule and in its order."""

from __future__ import annotations

from pathlib import Path

from headrace.testing.history import RULES

PAGE = Path(__file__).parents[2] / "docs" / "histories.md"


def test_the_page_has_every_rule() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [f"| `{rule.name}` | {rule.meaning} |" for rule in RULES]
