"""Names of columns."""

from __future__ import annotations

import pytest

from headrace.core.errors import HeadraceError
from headrace.lake.column_names import column_names
from headrace.lake.layout import COORDINATE_COLUMNS


def test_characters_that_delta_refuses_are_replaced() -> None:
    given = ("a b", "c,d;e", "{f}", "(g)", "h\ni\tj", "k=l", "ü.m`", "")
    assert column_names(given) == ("a_b", "c_d_e", "_f_", "_g_", "h_i_j", "k_l", "ü.m`", "_")


@pytest.mark.parametrize("names", [("a", "A"), ("a b", "a_b"), ("x", "a=", "a_"), ("a", "a")])
def test_names_that_would_be_one_column_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(HeadraceError, match="would be the same column"):
        column_names(names, path="outer")


@pytest.mark.parametrize("name", [name for name, _ in COORDINATE_COLUMNS])
def test_names_of_coordinates_are_refused_at_the_top_only(name: str) -> None:
    with pytest.raises(HeadraceError, match="says where a row comes from"):
        column_names((name.lower(),))
    assert column_names((name,), path="outer") == (name,)
