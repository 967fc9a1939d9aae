"""How values become text: numbers and times as people read them, and nothing of other people's as markup."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from jinja2 import UndefinedError

from headrace.console.rendering import (
    LONGEST_VALUE,
    Renderer,
    count,
    message_value,
    milliseconds,
    moment,
    rate,
    size,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0.4, "0.4 ms"),
        (9.96, "10.0 ms"),
        (85.4, "85 ms"),
        (1240, "1.24 s"),
        (64_000, "64.0 s"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


def test_counts_and_rates() -> None:
    assert count(1234567) == "1,234,567"
    assert [rate(value) for value in (0, 0.25, 9.94, 10.4, 12345.6)] == ["0", "0.2", "9.9", "10", "12,346"]


def test_times_are_utc_and_no_time_is_too_odd_to_show() -> None:
    assert moment(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert moment(-1) == "1969-12-31 23:59:59.999"
    assert moment(2**62) == str(2**62)


def test_a_value_is_laid_out_as_json_with_names_numbers_and_literals_told_apart() -> None:
    shown = message_value({"name": "x", "price": -1.5e3, "sold": True, "note": None})
    assert (
        '<span class="token-name">&#34;name&#34;</span>: <span class="token-string">&#34;x&#34;</span>'
        in shown
    )
    assert '<span class="token-number">-1500.0</span>' in shown
    assert '<span class="token-literal">true</span>' in shown
    assert '<span class="token-literal">null</span>' in shown


@pytest.mark.parametrize(
    "value",
    [
        "<script>alert(1)</script>",
        {"<script>alert(1)</script>": 1},
        {"a": '"<script>alert(1)</script>'},
        ["</pre><script>alert(1)</script>"],
        {"a": "\\\"<script>'alert(1)'</script>"},
        b"<script>",
    ],
)
def test_no_value_becomes_markup(value: object) -> None:
    shown = str(message_value(value))
    assert "<script" not in shown
    assert "</pre" not in shown


def test_a_long_value_is_cut_and_says_so() -> None:
    shown = message_value("x" * (LONGEST_VALUE + 1234))
    assert shown.count("x") == LONGEST_VALUE
    assert "1,234 more characters" in shown
    assert "more characters" in message_value({"a": "y" * 2 * LONGEST_VALUE})


def test_values_that_json_does_not_know_are_shown_all_the_same() -> None:
    assert "2.50" in message_value({"price": Decimal("2.50")})
    assert "00ff" in message_value({"raw": b"\x00\xff"})


def test_a_value_nested_without_end_does_not_break_the_page() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert "nested too deeply" in message_value(value)


def test_a_template_cannot_use_a_name_that_is_not_there() -> None:
    with pytest.raises(UndefinedError):
        Renderer().render("parts/latency.html")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (123_456, "123 kB"),
        (999_600, "1 MB"),
        (5_300_000_000, "5.3 GB"),
        (7_000_000_000_000, "7,000 GB"),
    ],
)
def test_sizes_read_well(value: int | None, expected: str) -> None:
    assert size(value) == expected
