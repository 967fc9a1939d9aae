"""MASK and related functions replace capital letters, small letters, digits and other characters.

A null mask leaves its kind of characters unchanged. A mask that is not a single character gives null.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Function, Signature, signature
from headrace.pipeline.expressions.functions.making import scalar
from headrace.pipeline.expressions.functions.text import CHARACTERS

# The order matters: no pattern matches the replacements of earlier ones.
_BY_DEFAULT: Final = (
    (r"[^\p{{Lu}}\p{{Ll}}\p{{Nd}}]", "-"),
    (r"\p{{Lu}}", "X"),
    (r"\p{{Ll}}", "x"),
    (r"\p{{Nd}}", "n"),
)
_MASKS: Final = ("upper", "lower", "digit", "other")
_MASK_PARAMETERS: Final = ", ".join(f"VARCHAR {each}" for each in _MASKS)

# What stays on the left, what is masked, what stays on the right.
_KEPT: Final = "least({n}, length({value}))"
_PARTS: Final = {
    "MASK_KEEP_LEFT": (f"substring({{value}}, 1, {_KEPT})", f"substring({{value}}, {_KEPT} + 1)", ""),
    "MASK_KEEP_RIGHT": (
        "",
        f"substring({{value}}, 1, length({{value}}) - {_KEPT})",
        f"substring({{value}}, length({{value}}) - {_KEPT} + 1)",
    ),
    "MASK_LEFT": ("", f"substring({{value}}, 1, {_KEPT})", f"substring({{value}}, {_KEPT} + 1)"),
    "MASK_RIGHT": (
        f"substring({{value}}, 1, length({{value}}) - {_KEPT})",
        f"substring({{value}}, length({{value}}) - {_KEPT} + 1)",
        "",
    ),
}
_DESCRIPTIONS: Final = {
    "MASK_KEEP_LEFT": "Masked except for so many characters on the left.",
    "MASK_KEEP_RIGHT": "Masked except for so many characters on the right.",
    "MASK_LEFT": "With so many characters on the left masked.",
    "MASK_RIGHT": "With so many characters on the right masked.",
}


def _masked_by_default(part: str) -> str:
    for pattern, mask in _BY_DEFAULT:
        part = f"regexp_replace({part}, r'{pattern}', '{mask}')"
    return part


def _masked(part: str) -> str:
    single = " AND ".join(f"coalesce(length({{{each}}}), 1) = 1" for each in _MASKS)
    character = (
        r"__hr_c -> CASE WHEN __hr_c RLIKE r'\p{{Lu}}' THEN coalesce({upper}, __hr_c)"
        r" WHEN __hr_c RLIKE r'\p{{Ll}}' THEN coalesce({lower}, __hr_c)"
        r" WHEN __hr_c RLIKE r'\p{{Nd}}' THEN coalesce({digit}, __hr_c) ELSE coalesce({other}, __hr_c) END"
    )
    return f"CASE WHEN {single} THEN array_join(transform({CHARACTERS.format(part)}, {character}), '') END"


_KINDS: Final = {"Lu": 0, "Ll": 1, "Nd": 2}
_OTHER: Final = 3


def _value_masked(value: str, *masks: str | None) -> str:
    """Masks with the given characters, or with the default ones."""
    masks = masks or ("X", "x", "n", "-")
    if any(mask is not None and len(mask) != 1 for mask in masks):
        raise ValueError("a mask is one character")
    chosen = [masks[_KINDS.get(unicodedata.category(each), _OTHER)] for each in value]
    return "".join(each if mask is None else mask for each, mask in zip(value, chosen, strict=True))


def _partly(cut: Callable[[str, int], tuple[str, str, str]]) -> Callable[..., Any]:
    def python(value: str | None, count: int | None, *masks: str | None) -> str | None:
        if value is None or count is None or count < 0:
            return None
        left, masked, right = cut(value, min(count, len(value)))
        return left + _value_masked(masked, *masks) + right

    return python


_CUT: Final[dict[str, Callable[[str, int], tuple[str, str, str]]]] = {
    "MASK_KEEP_LEFT": lambda value, count: (value[:count], value[count:], ""),
    "MASK_KEEP_RIGHT": lambda value, count: ("", value[: len(value) - count], value[len(value) - count :]),
    "MASK_LEFT": lambda value, count: ("", value[:count], value[count:]),
    "MASK_RIGHT": lambda value, count: (value[: len(value) - count], value[len(value) - count :], ""),
}


def _forms(name: str) -> tuple[Signature, ...]:
    left, middle, right = _PARTS[name]
    python = _partly(_CUT[name])

    def spark(masked: str) -> str:
        parts = ", ".join(each for each in (left, masked, right) if each)
        return f"CASE WHEN {{n}} >= 0 THEN concat({parts}) END"

    return (
        signature("VARCHAR value, INTEGER n -> VARCHAR", spark(_masked_by_default(middle)), python),
        signature(
            f"VARCHAR value, INTEGER n, {_MASK_PARAMETERS} -> VARCHAR",
            spark(_masked(middle)),
            python,
            nulls=True,
        ),
    )


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "MASK",
        "With every character masked: X for capital letters, x for small ones, n for digits, - for others.",
        signature("VARCHAR value -> VARCHAR", _masked_by_default("{value}"), _value_masked),
        signature(
            f"VARCHAR value, {_MASK_PARAMETERS} -> VARCHAR",
            _masked("{value}"),
            lambda value, *masks: None if value is None else _value_masked(value, *masks),
            nulls=True,
        ),
    ),
    *(scalar(name, description, *_forms(name)) for name, description in _DESCRIPTIONS.items()),
)
