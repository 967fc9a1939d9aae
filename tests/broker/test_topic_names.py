"""What a topic may be called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.errors import ApiError
from headrace.broker.topic_names import check_name, colliding, is_internal, is_valid

NOT_THESE = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "-", "x" * 249, "__consumer_offsets"])
def test_names_that_are_taken(name: str) -> None:
    check_name(name)
    assert is_valid(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", f"'a b' {NOT_THESE}"),
        ("a/b", f"'a/b' {NOT_THESE}"),
        ("ä", f"'ä' {NOT_THESE}"),
        ("a\n", f"'a\n' {NOT_THESE}"),
        ("\0", f"'\0' {NOT_THESE}"),
    ],
)
def test_names_that_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ApiError) as refusal:
        check_name(name)
    assert refusal.value.code.name == "invalid_topic_exception"
    assert refusal.value.message == f"Topic name is invalid: {reason}"
    assert not is_valid(name)


@given(st.text(max_size=300))
def test_only_names_that_are_safe_as_folders_are_taken(name: str) -> None:
    assert is_valid(name) == (bool(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name)) and name not in {".", ".."})


@pytest.mark.parametrize(
    ("name", "others", "found"),
    [
        ("a.b", ["a_b"], "a_b"),
        ("a_b", ["x", "a.b"], "a.b"),
        ("a.b", ["a.b"], None),
        ("ab", ["a.b"], None),
        ("a-b", ["a_b"], None),
    ],
)
def test_names_that_collide(name: str, others: list[str], found: str | None) -> None:
    assert colliding(name, others) == found


def test_internal_names() -> None:
    assert [
        name for name in ("__consumer_offsets", "__transaction_state", "_schemas", "a") if is_internal(name)
    ] == [
        "__consumer_offsets",
        "__transaction_state",
    ]
