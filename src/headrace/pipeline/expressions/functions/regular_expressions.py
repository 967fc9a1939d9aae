r"""REGEXP_EXTRACT, REGEXP_EXTRACT_ALL, REGEXP_REPLACE and REGEXP_SPLIT_TO_ARRAY.

Spark and ksqlDB both use Java's regular expressions; for Python they are translated. An invalid pattern gives
null, and so does a group that the pattern does not have. A group that does not participate in the match gives
an empty text (null in ksqlDB).

Java matches a repeated group, such as (a|b)*, by recursion. On a long text its stack overflows, and Spark
ends the JVM, and with it every query. So long texts give null for a pattern that may repeat a group; for
others, the stack of Spark's threads (`spark/session.py`) is large enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, Signature, signature
from headrace.pipeline.expressions.functions.java_pattern_translation import compiled, matches
from headrace.pipeline.expressions.functions.java_patterns import (
    Known,
    closed,
    group_count,
    is_pattern,
    known,
    replacement_fits,
    replacement_text,
    with_groups,
)
from headrace.pipeline.expressions.functions.making import scalar

# More groups than anyone writes.
_MOST_GROUPS: Final = 99


# The longest pattern, and the longest text for a pattern that may repeat a group.
_LONGEST: Final = 10_000
# A quantifier after a group, or the flag that allows spaces and comments between them.
_REPEATS: Final = r"\)\s*[*+{]|\(\?\w*x"


def _bounded(make: Callable[[Call], str]) -> Callable[[Call], str]:
    def spark(call: Call) -> str:
        pattern = call.string("pattern")
        is_short = f"length({{value}}) <= {_LONGEST}"
        if pattern is None:
            repeats = _REPEATS.replace("{", "{{")
            is_short = f"({is_short} OR NOT {{pattern}} RLIKE r'{repeats}')"
            is_short = f"length({{pattern}}) <= {_LONGEST} AND {is_short}"
        elif len(pattern) > _LONGEST:
            is_short = "false"
        elif re.search(_REPEATS, pattern, re.ASCII) is None:
            return make(call)
        return f"CASE WHEN {is_short} THEN {make(call)} END"

    return spark


def _bounded_in_python(compute: Callable[..., Any], *, pattern: int, value: int) -> Callable[..., Any]:
    """`pattern` and `value` are the positions of these arguments."""

    def python(*values: Any) -> Any:
        repeats = len(values[value]) > _LONGEST and re.search(_REPEATS, values[pattern], re.ASCII)
        return None if repeats or len(values[pattern]) > _LONGEST else compute(*values)

    return python


def _known(call: Call, name: str = "pattern") -> Known | None:
    constant = call.string(name)
    return None if constant is None else known(constant)


def _extract(call: Call) -> str:
    if "group" not in call.texts:
        spark = "CASE WHEN {value} RLIKE {pattern} THEN regexp_extract({value}, {pattern}, 0) END"
        return spark if _known(call) else f"CASE WHEN {is_pattern('{pattern}')} THEN {spark} END"
    return _of_group(
        call, "CASE WHEN {{value}} RLIKE {pattern} THEN regexp_extract({{value}}, {pattern}, {{group}}) END"
    )


def _extract_all(call: Call) -> str:
    if "group" not in call.texts:
        spark = "regexp_extract_all({value}, {pattern}, 0)"
        return spark if _known(call) else f"CASE WHEN {is_pattern('{pattern}')} THEN {spark} END"
    return _of_group(call, "regexp_extract_all({{value}}, {pattern}, {{group}})")


def _extracted(pattern: str, value: str, group: int = 0) -> str | None:
    found = compiled(pattern).search(value)
    if not _has_group(pattern, group) or found is None:
        return None
    return found[group] or ""


def _all_extracted(pattern: str, value: str, group: int = 0) -> list[str] | None:
    if not _has_group(pattern, group):
        return None
    return [each[group] or "" for each in matches(compiled(pattern), value)]


def _has_group(pattern: str, group: int) -> bool:
    return 0 <= group <= min(compiled(pattern).groups, _MOST_GROUPS)


def _replaced(value: str, pattern: str, replacement: str) -> str:
    """Raises LookupError or ValueError if there is a match and Java rejects the replacement."""
    parts: list[str] = []
    end = 0
    for found in matches(compiled(pattern), value):
        parts += (value[end : found.start()], replacement_text(replacement, found))
        end = found.end()
    return "".join([*parts, value[end:]])


def _split_up(value: str, pattern: str) -> list[str]:
    separators = compiled(pattern)
    parts: list[str] = []
    end = 0
    for found in matches(separators, value):
        # Java adds no empty part for an empty match at the start.
        if found.end() > 0:
            parts.append(value[end : found.start()])
            end = found.end()
    parts.append(value[end:])
    if value and separators.fullmatch(""):
        while parts and not parts[-1]:
            parts.pop()
    return parts


def _of_group(call: Call, spark: str) -> str:
    pattern = _known(call)
    if pattern is not None:
        return (
            f"CASE WHEN {{group}} BETWEEN 0 AND {pattern.groups} THEN {spark.format(pattern='{pattern}')} END"
        )
    padded = with_groups("{pattern}", f"least(greatest({{group}}, 0), {_MOST_GROUPS})")
    return (
        f"CASE WHEN {is_pattern('{pattern}')} AND {{group}} BETWEEN 0 AND least({group_count('{pattern}')},"
        f" {_MOST_GROUPS}) AND {is_pattern(padded)} THEN {spark.format(pattern=padded)} END"
    )


def _replace(call: Call) -> str:
    pattern, replacement = _known(call), call.string("replacement")
    if pattern is not None and replacement is not None:
        if replacement_fits(replacement, pattern):
            return "regexp_replace({value}, {pattern}, {replacement})"
        # An error in ksqlDB, but only where something is found.
        return "CASE WHEN NOT {value} RLIKE {pattern} THEN {value} END"
    padded = with_groups("{pattern}", "9")
    plain = "regexp_replace({value}, {pattern}, {replacement})"
    highest = (
        r"coalesce(array_max(transform("
        r"regexp_extract_all(regexp_replace({replacement}, r'(?s)\\.', ''), r'\$(\d)', 1),"
        r" __hr_g -> CAST(__hr_g AS INT))), 0)"
    )
    return (
        f"CASE WHEN {{value}} IS NULL OR NOT {is_pattern('{pattern}')} THEN NULL"
        f" WHEN {{replacement}} IS NULL THEN NULL WHEN NOT {{value}} RLIKE {{pattern}} THEN {{value}}"
        rf" WHEN NOT {{replacement}} RLIKE r'[$\\]' THEN {plain}"
        r" WHEN {replacement} RLIKE r'(?s)^([^$\\]|\\.|\$\d)*+$'"
        f" AND {highest} <= {group_count('{pattern}')} AND {is_pattern(padded)}"
        f" THEN regexp_replace({{value}}, {padded}, {{replacement}}) END"
    )


def _split(call: Call) -> str:
    parts = "split({value}, {pattern}, -1)"
    # Where the pattern finds nothing between two characters, Java leaves out empty parts at the end.
    last = (
        "array_max(transform(__hr_s, (__hr_e, __hr_i) -> CASE WHEN __hr_e <> '' THEN __hr_i + 1 ELSE 0 END))"
    )
    cut = (
        "CASE WHEN {value} = '' THEN array('') ELSE"
        f" element_at(transform(array({parts}), __hr_s -> slice(__hr_s, 1, {last})), 1) END"
    )
    whole = f"concat('^(?:', {closed('{pattern}')}, ')$')"
    spark = f"CASE WHEN '' RLIKE {whole} THEN {cut} ELSE {parts} END"
    if _known(call):
        return spark
    return f"CASE WHEN {is_pattern('{pattern}')} AND {is_pattern(whole)} THEN {spark} END"


def _signature(
    text: str, spark: Callable[[Call], str], python: Callable[..., Any], *, pattern_first: bool
) -> Signature:
    positions = (0, 1) if pattern_first else (1, 0)
    bounded = _bounded_in_python(python, pattern=positions[0], value=positions[1])
    return signature(text, _bounded(spark), bounded)


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "REGEXP_EXTRACT",
        "The first match of the pattern, or one of its groups.",
        *(
            _signature(
                f"VARCHAR pattern, VARCHAR value{group} -> VARCHAR", _extract, _extracted, pattern_first=True
            )
            for group in ("", ", INTEGER group")
        ),
    ),
    scalar(
        "REGEXP_EXTRACT_ALL",
        "All matches of the pattern, or one group of each.",
        *(
            _signature(
                f"VARCHAR pattern, VARCHAR value{group} -> ARRAY<VARCHAR>",
                _extract_all,
                _all_extracted,
                pattern_first=True,
            )
            for group in ("", ", INTEGER group")
        ),
    ),
    scalar(
        "REGEXP_REPLACE",
        "The text with every match of the pattern replaced.",
        _signature(
            "VARCHAR value, VARCHAR pattern, VARCHAR replacement -> VARCHAR",
            _replace,
            _replaced,
            pattern_first=False,
        ),
    ),
    scalar(
        "REGEXP_SPLIT_TO_ARRAY",
        "The parts of the text between the matches of the pattern.",
        _signature(
            "VARCHAR value, VARCHAR pattern -> ARRAY<VARCHAR>", _split, _split_up, pattern_first=False
        ),
    ),
)
