"""LIKE. Without ESCAPE, ksqlDB has no escape character; Spark always has one.

So Spark gets an escape character that hardly occurs in texts, and is doubled where it does. Patterns with
ESCAPE are rewritten to use it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from headrace.pipeline.expressions.computed import Row, Typed
from headrace.pipeline.expressions.literals import text
from headrace.pipeline.statements.errors import UnsupportedError
from headrace.pipeline.statements.expressions import Like, StringLiteral
from headrace.pipeline.statements.types import BOOLEAN

_ESCAPE: Final = "\x01"
_ESCAPE_IN_SPARK: Final = r"'\u0001'"
_ESCAPE_TWICE_IN_SPARK: Final = r"'\u0001\u0001'"


def like(node: Like, operand: Typed, pattern: Typed) -> Typed:
    of_value, of_pattern = operand.python, pattern.python
    escape, negated = node.escape, node.negated

    def python(row: Row) -> Any:
        value, wanted = of_value(row), of_pattern(row)
        if value is None or wanted is None:
            return None
        return (_expression(wanted, escape).fullmatch(value) is not None) != negated

    return Typed(_spark(node, operand.spark, pattern.spark), BOOLEAN, python)


@lru_cache(maxsize=256)
def _expression(pattern: str, escape: str | None) -> re.Pattern[str]:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, character)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def _spark(node: Like, operand: str, pattern: str) -> str:
    if node.escape is not None:
        if not isinstance(node.pattern, StringLiteral):
            raise UnsupportedError(
                "LIKE … ESCAPE needs a constant pattern.",
                node.pattern.at,
                remedy="Without ESCAPE any will do.",
            )
        pattern = _written_anew(node.pattern.value, node.escape)
    elif isinstance(node.pattern, StringLiteral) and "\\" not in node.pattern.value:
        return _negated(f"{operand} like {pattern}", node.negated)
    elif not isinstance(node.pattern, StringLiteral) or _ESCAPE in node.pattern.value:
        # Spark fails on an escape character before anything but a wildcard or itself.
        pattern = f"replace({pattern}, {_ESCAPE_IN_SPARK}, {_ESCAPE_TWICE_IN_SPARK})"
    return _negated(f"{operand} like {pattern} escape {_ESCAPE_IN_SPARK}", node.negated)


def _negated(spark: str, negated: bool) -> str:
    return f"(not {spark})" if negated else f"({spark})"


def _written_anew(pattern: str, escape: str) -> str:
    found = []
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            found.append(character * 2 if character == _ESCAPE else character)
            continue
        escaped = next(characters, escape)
        found.append(f"{_ESCAPE}{escaped}" if escaped in f"%_{_ESCAPE}" else escaped)
    return text("".join(found)).replace(_ESCAPE, r"\u0001")
