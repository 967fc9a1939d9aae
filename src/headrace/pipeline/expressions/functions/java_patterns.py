r"""What is known of a regular expression before the query runs.

Spark fails on an invalid pattern. Only Java can tell for sure, so `try_reflect` asks it when the query runs,
if the pattern is not constant or not of the ordinary kind. Spark regards that as nondeterministic and rejects
it in aggregates, so ordinary constant patterns are checked here instead.

Our own patterns repeat groups possessively (*+): Java then needs no stack, however long the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# What Java and Python read alike. No class within a class, no braces but counts, no flags, nothing that looks
# around.
_ORDINARY: Final = re.compile(
    r"""(?:
      \\[dDwWsSbBtnrf]
    | \\[^A-Za-z0-9]
    | \[\^?(?:\\[dDwWsStnrf]|\\[^A-Za-z0-9]|[^\\\[\]&])+\]
    | \((?!\?)
    | \(\?:
    | \(\?<[A-Za-z][A-Za-z0-9]*>
    | \{[0-9]{1,3}(?:,[0-9]{0,3})?\}
    | [^\\\[\](){}]
    | \)
    )*""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A pattern that is certainly one: how many groups it has, and their names."""

    groups: int
    names: frozenset[str]


def known(pattern: str) -> Known | None:
    if not _ORDINARY.fullmatch(pattern):
        return None
    try:
        compiled = re.compile(re.sub(r"\(\?<([A-Za-z])", r"(?P<\1", pattern))
    except (re.error, OverflowError):
        return None
    return Known(compiled.groups, frozenset(compiled.groupindex))


def is_pattern(spark: str) -> str:
    """Spark SQL: whether the text is a regular expression to Java."""
    return f"try_reflect('java.util.regex.Pattern', 'compile', {spark}) IS NOT NULL"


def group_count(spark: str) -> str:
    """Spark SQL: the number of groups, by counting parentheses outside of quotes and classes."""
    bare = rf"regexp_replace({spark}, r'(?s)\\Q.*?(?:\\E|$)|\\.|\[(?:\\.|[^\]])*+\]', '')"
    return rf"regexp_count({bare}, r'\((?!\?)|\(\?<[A-Za-z]')"


def with_groups(spark: str, count: str) -> str:
    """Spark SQL: a pattern that finds the same and has at least so many groups, so that none is missing."""
    return f"concat('(?:', {closed(spark)}, ')(?:(?!)', repeat('()', {count}), ')?')"


def closed(spark: str) -> str:
    """Spark SQL: the pattern with a quotation or comment at its end closed, so that more can follow."""
    is_quotation = rf"{spark} RLIKE r'(?s)\\Q(?:(?!\\E).)*+$'"
    has_comments = rf"{spark} RLIKE r'^\(\?x\)'"
    return (
        rf"CASE WHEN {is_quotation} THEN concat({spark}, r'\E')"
        rf" WHEN {has_comments} THEN concat({spark}, '\n') ELSE {spark} END"
    )


def replacement_fits(replacement: str, pattern: Known) -> bool:
    """Whether Java takes the text as a replacement: `$1` and `${name}` mean groups, a backslash quotes."""
    rest = re.sub(r"\\.", "", replacement, flags=re.DOTALL)
    if "\\" in rest:
        return False
    for reference in re.finditer(r"\$(?:([0-9])|\{([A-Za-z][A-Za-z0-9]*)\}|)", rest):
        digit, name = reference[1], reference[2]
        if digit is not None and int(digit) <= pattern.groups:
            continue
        if name is not None and name in pattern.names:
            continue
        return False
    return True


def replacement_text(replacement: str, found: re.Match[str]) -> str:
    """What stands for a match in Java. Raises LookupError or ValueError if Java does not take the text."""
    parts: list[str] = []
    place = 0
    while place < len(replacement):
        character = replacement[place]
        place += 1
        if character == "\\":
            parts.append(replacement[place])
            place += 1
        elif character == "$":
            group, place = _reference(replacement, place, found)
            parts.append(found[group] or "")
        else:
            parts.append(character)
    return "".join(parts)


def _reference(replacement: str, place: int, found: re.Match[str]) -> tuple[int | str, int]:
    """The group that is meant, and where the reference ends."""
    name = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(replacement, place)
    if name is not None:
        return name[1], name.end()
    group = int(_digit(replacement, place) or "none")
    place += 1
    # More digits belong to it as long as there is such a group.
    while (digit := _digit(replacement, place)) and group * 10 + int(digit) <= found.re.groups:
        group = group * 10 + int(digit)
        place += 1
    return group, place


def _digit(text: str, place: int) -> str:
    found = text[place : place + 1]
    return found if found.isascii() and found.isdecimal() else ""
