"""Java's properties files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.properties import parse_properties, read_properties
from headrace.core.errors import HeadraceError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b \n c: d\ne f", {"a": "b ", "c": "d", "e": "f"}),
        ("# comment\n! another\n\n  a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one\\\n   two\\\n three", {"a": "onetwothree"}),
        ("a=back\\\\", {"a": "back\\"}),
        ("a\\=b=c\\:d", {"a=b": "c:d"}),
        ("a=\\u00e4\\t\\n", {"a": "ä\t\n"}),
        ("a=b=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=ends in a backslash \\", {"a": "ends in a backslash "}),
        ("listeners=http://127.0.0.1:18083", {"listeners": "http://127.0.0.1:18083"}),
    ],
)
def test_lines(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    parse_properties(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="nowhere"):
        read_properties(tmp_path / "nowhere.properties")
