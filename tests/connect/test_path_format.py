"""Folders by time: what `path.format` means as columns, and which patterns are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.connectors.lake_sink.path_format import read_path_format

NAMES = st.from_regex(r"[a-z][a-z_'0-9]{0,7}", fullmatch=True)
TIMES = st.sampled_from(
    ["YYYY", "yyyy", "yy", "MM", "M", "dd", "HH", "mm", "ss", "YYYY-MM-dd", "yyyyMMdd-HHmmss"]
)


@pytest.mark.parametrize(
    ("pattern", "columns"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd", [("year", "yyyy"), ("month", "MM"), ("day", "dd")]),
        ("YYYY/MM/dd/HH/mm", [(n, p) for n, p in zip(
            ("year", "month", "day", "hour", "minute"), ("yyyy", "MM", "dd", "HH", "mm"), strict=True)]),
        ("'dt='yyyy-MM-dd'/hour='HH", [("dt", "yyyy-MM-dd"), ("hour", "HH")]),
        ("/'dt'=YYYY-MM-dd/'hour'=HH/", [("dt", "yyyy-MM-dd"), ("hour", "HH")]),
        ("'dt'=YYYY'-'MM'-'dd", [("dt", "yyyy-MM-dd")]),
        ("YYYY-MM-dd/HH", [("date", "yyyy-MM-dd"), ("hour", "HH")]),
        ("YYYYMM", [("month", "yyyyMM")]),
        ("yyyyMMddHH", [("hour", "yyyyMMddHH")]),
        ("'calc_id='yyyyMMdd-HHmmss", [("calc_id", "yyyyMMdd-HHmmss")]),
        ("'at'='T'HH", [("at", "'T'HH")]),
        ("'year'=YYYY/'day'=dd'", [("year", "yyyy"), ("day", "dd")]),
        ("''''=Y", [("''", "yyyy")]),
        ("'it''s'=Y", [("it's", "yyyy")]),
        ("'q'='a''b'YYYY", [("q", "'a''b'yyyy")]),
        ("'q'='a'#'b'YYYY", [("q", "'a#b'yyyy")]),
    ],
)  # fmt: skip
def test_each_folder_is_a_column(pattern: str, columns: list[tuple[str, str]]) -> None:
    assert list(read_path_format(pattern)) == columns


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "no folder"),
        ("/", "no folder"),
        ("'a'=YYYY//'b'=MM", "without a name"),
        ("'fixed'/YYYY", "the folder 'fixed' has no part of the time"),
        ("'dt'=YYYY-MM-dd/'hr'=HH'/us-east-1'", "the folder 'us-east-1' has no part"),
        ("year=YYYY", "'e' is not supported"),
        ("MMM", "'MMM' is not supported"),
        ("YYYYY", "'YYYYY' is not supported"),
        ("'week'=xxxx-ww", "'xxxx' is not supported"),
        ("hh", "'hh' is not supported"),
        ("'year=YYYY", "the folder 'year=YYYY' has no part of the time"),
        ("'Year'=YYYY/'year'=MM", "two folders would be the column 'year'"),
        ("'a b'=YYYY", "a column named 'a b'"),
        ("=YYYY", "a column named ''"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_pattern(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_path_format(pattern)


@given(st.lists(st.tuples(NAMES, TIMES), min_size=1, max_size=4, unique_by=lambda pair: pair[0].casefold()))
def test_names_come_back_whatever_they_are(folders: list[tuple[str, str]]) -> None:
    quoted = [("'" + name.replace("'", "''") + "'", time) for name, time in folders]
    found = read_path_format("/".join(f"{name}={time}" for name, time in quoted))
    assert [name for name, _ in found] == [name for name, _ in folders]
    assert [pattern for _, pattern in found] == [time.replace("Y", "y") for _, time in folders]


@given(st.text(alphabet="yYMdHmsEawx'/=-_ ab", max_size=20))
def test_every_pattern_is_read_or_refused(pattern: str) -> None:
    try:
        columns = read_path_format(pattern)
    except ValueError:
        return
    for name, java in columns:
        assert name
        # Outside of apostrophes there are only letters that Spark knows as parts of a time.
        assert re.sub(r"'(?:[^']|'')*'", "", java).strip("-_.: yMdHms") == ""
        assert re.search("[yMdHms]", re.sub(r"'(?:[^']|'')*'", "", java))
