r"""Spark SQL as text: reads and writes constants, and fills templates so that arguments are computed once.

Invariant: an argument's text contains no free variable of ours. Templates contain lambdas of ours, whose
variables begin with `__hr`, so they never hide a name that an argument uses. If a template needs an argument
more than once, `filled` binds it with a lambda over a struct that is built outside that lambda. Aggregates
are not allowed in lambdas, so their arguments are repeated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from string import Formatter
from typing import Final

from headrace.pipeline.expressions.literals import text
from headrace.pipeline.expressions.types_in_spark import spark_name, spark_type

__all__ = [
    "filled",
    "integer_value",
    "lambda_parts",
    "spark_name",
    "spark_type",
    "string_literal",
    "string_value",
]

_NAME: Final = r"`(?:[^`]|``)*`"
_ATOM: Final = (
    rf"(?:{_NAME}(?:\.{_NAME})*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|-?\d+(?:\.\d+)?(?:L|BD|D)?|'(?:[^'\\]|\\.)*')"
)
# Cheap to compute twice: columns, constants, and casts of them.
_CHEAP: Final = re.compile(
    rf"{_ATOM}|CAST\({_ATOM} AS [A-Z]+(?:\(\d+,\s*\d+\))?\)", re.IGNORECASE | re.DOTALL
)
_INTEGER: Final = re.compile(r"(-?)\s*(\d+)L?")
_STRING: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_LAMBDA: Final = re.compile(rf"\(?\s*({_NAME}|\w+)((?:\s*,\s*(?:{_NAME}|\w+))*)\s*\)?\s*->\s*(.*)", re.DOTALL)


def string_literal(value: str) -> str:
    """A constant. Unescaped, Spark would replace `${name}` with the setting of that name."""
    return text(value).replace("${", "$\\{")


def filled(template: str, texts: Mapping[str, str], *, binds: bool) -> str:
    """Replaces `{name}` in the template. Costly arguments that it needs twice are bound first."""
    needed = Counter(name for _, name, _, _ in Formatter().parse(template) if name is not None)
    costly = (
        [name for name, count in needed.items() if count > 1 and not _CHEAP.fullmatch(texts[name])]
        if binds
        else []
    )
    if not costly:
        return template.format(**texts)
    bound = ", ".join(f"{texts[name]} AS v_{name}" for name in costly)
    body = template.format(**{**texts, **{name: f"__hr.v_{name}" for name in costly}})
    return f"element_at(transform(array(struct({bound})), __hr -> {body}), 1)"


def string_value(spark: str) -> str | None:
    """The value of a constant text, or None for other expressions."""
    found = _STRING.fullmatch(spark.strip())
    return None if found is None else _ESCAPE.sub(_unescaped, found[1])


def _unescaped(escape: re.Match[str]) -> str:
    body = escape[1]
    if len(body) == 5:
        return chr(int(body[1:], 16))
    if len(body) == 3:
        return chr(int(body, 8))
    return _ESCAPED.get(body, body)


def integer_value(spark: str) -> int | None:
    bare = spark.strip()
    while bare.startswith("(") and bare.endswith(")"):
        bare = bare[1:-1].strip()
    # A sign before parentheses: `-(2)`.
    bare = re.sub(r"^-\s*\((\d+)\)$", r"-\1", bare)
    found = _INTEGER.fullmatch(bare)
    return None if found is None else int(found[1] + found[2])


def lambda_parts(spark: str) -> tuple[tuple[str, ...], str]:
    """Parameters and body of a lambda: `(`K`, `V`) -> body`."""
    found = _LAMBDA.fullmatch(spark.strip())
    assert found is not None, spark
    others = re.findall(rf"{_NAME}|\w+", found[2])
    return (found[1], *others), found[3]
