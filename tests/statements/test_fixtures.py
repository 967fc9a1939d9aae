"""Every pair of `fixtures/*.sql`: a statement gives the plan or the error that stands there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.statements.fixture_files import FOLDER, Pair, filled, outcome, pairs

PAIRS = tuple(pairs())


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{pair.file}: {pair.name}" for pair in PAIRS])
def test_pair(pair: Pair) -> None:
    mark, text = outcome(pair)
    assert f"{mark}\n{text}" == f"{pair.mark}\n{pair.expected}"


def test_there_are_pairs_and_each_has_a_name_of_its_own() -> None:
    assert len(PAIRS) >= 250
    names = Counter((pair.file, pair.name) for pair in PAIRS)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(pair.name and pair.expected for pair in PAIRS)


def test_rewriting_replaces_what_no_longer_holds_and_says_what_turned(tmp_path: Path) -> None:
    original = (FOLDER / "sources.sql").read_text()
    path = tmp_path / "sources.sql"
    path.write_text(original)
    assert filled(path, rewrite=True).after == original
    plan = next(pair for pair in pairs() if pair.file == "sources" and pair.mark == "==>")
    wrong = original.replace(f"==>\n{plan.expected}", "!!>\nan error of old", 1)
    path.write_text(wrong)
    assert filled(path, rewrite=False).after == wrong
    change = filled(path, rewrite=True)
    assert change.after == original
    assert change.turned == (plan.name,)
    assert "-an error of old" in change.diff("sources.sql").splitlines()
