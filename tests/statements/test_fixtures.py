"""Every pair of `fixtures/*.sql`: a statement gives the plan or the error that stands there."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.statements.fixture_files import Pair, outcome, pairs

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
