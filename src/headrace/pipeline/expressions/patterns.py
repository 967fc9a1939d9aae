"""LIKE. Without ESCAPE nothing escapes in ksqlDB, while Spark always has one character for it.

So the escape given to Spark is a character that no text has, and a pattern with ESCAPE is written anew with
it.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.expressions.literals import text
from headrace.pipeline.statements.errors import UnsupportedError
from headrace.pipeline.statements.expressions import Like, StringLiteral

_ESCAPE: Final = "\x01"
_ESCAPE_IN_SPARK: Final = r"'\u0001'"


def like(node: Like, operand: str, pattern: str) -> str:
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
    return _negated(f"{operand} like {pattern} escape {_ESCAPE_IN_SPARK}", node.negated)


def _negated(spark: str, negated: bool) -> str:
    return f"(not {spark})" if negated else f"({spark})"


def _written_anew(pattern: str, escape: str) -> str:
    found = []
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            found.append(character)
            continue
        escaped = next(characters, escape)
        found.append(f"{_ESCAPE}{escaped}" if escaped in "%_" else escaped)
    return text("".join(found)).replace(_ESCAPE, r"\u0001")
