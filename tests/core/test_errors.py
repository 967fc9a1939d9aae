"""The one error type: its codes, its JSON shape, its text."""

from __future__ import annotations

import pytest

from headrace.core.errors import HTTP_STATUS, HeadraceError


def test_a_code_outside_the_table_cannot_be_raised() -> None:
    with pytest.raises(KeyError, match="made_up"):
        HeadraceError("made_up", "x")


def test_every_code_has_an_error_status() -> None:
    assert all(400 <= status < 600 for status in HTTP_STATUS.values())


def test_codes_are_sorted_so_that_two_people_add_without_conflict() -> None:
    assert list(HTTP_STATUS) == sorted(HTTP_STATUS)


def test_text_and_json_carry_message_and_remedy() -> None:
    error = HeadraceError("port_in_use", "Port 1 is in use.", remedy="Take another.")
    assert str(error) == "Port 1 is in use. Take another."
    assert error.http_status == 409
    assert error.as_json() == {
        "error": "port_in_use",
        "message": "Port 1 is in use.",
        "remedy": "Take another.",
    }
    assert str(HeadraceError("port_in_use", "Port 1 is in use.")) == "Port 1 is in use."
