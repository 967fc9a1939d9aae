r"""Regular expressions that clients send: for topic names (KIP-848) and transactional ids (KIP-1152).

Apache Kafka uses RE2/J; we use RE2 itself. Both have the same syntax and match in time linear in the name.
Python's `re` has another syntax and backtracks: with `(a*)*b` a client could stop the broker.

Invariants: refusals use the words of RE2/J, which Kafka's error message contains. We also refuse what RE2
accepts and RE2/J does not: `\C`, group names outside ASCII, two groups of the same name. No expression takes
more than `_MAX_MEMORY`.

Kafka accepts some expressions that we refuse: nested counts whose product exceeds 1,000, such as
`(a{100}){11}`; programs that exceed the memory; more than `_MAX_NAMED_GROUPS` named groups; a backslash
before a character outside ASCII.
"""

from functools import lru_cache
from typing import Any, Final

_MAX_MEMORY: Final = 2 * 1024 * 1024
# Every captured group costs time and memory in each match. Only named groups are captured.
_MAX_NAMED_GROUPS: Final = 100

_TOO_LARGE: Final = "expression is too large"
_INVALID_NAME: Final = "invalid named capture"
_WORDS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": _INVALID_NAME,
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": _TOO_LARGE,
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""RE2/J's words for each of RE2's."""

# Parts of a valid expression: those in which a parenthesis is a literal, and the beginnings of named groups.
_PARTS: Final = r"(?s)\\Q.*?(?:\\E|\z)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\(\?P?<(?P<name>[^>]*)>"


class InvalidExpressionError(ValueError):
    """RE2/J does not accept this expression. The message is the description in Kafka's error message."""


class Expression:
    """A compiled expression."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name."""
        return self._compiled.fullmatch(name) is not None


@lru_cache(maxsize=128)
def compile_expression(text: str) -> Expression:
    """Raises InvalidExpressionError."""
    # Few brokers ever see an expression; the others save the 4 MB of the library.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.never_capture = True
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        raise InvalidExpressionError(_reason(error.args[0].decode(errors="replace"))) from None
    names: set[str] = set()
    for part in re2.finditer(_PARTS, text):
        if part.group() == r"\C":
            raise InvalidExpressionError("invalid escape sequence")
        name = part["name"]
        if name is None:
            continue
        if not name.isascii():
            raise InvalidExpressionError(_INVALID_NAME)
        if name in names:
            raise InvalidExpressionError("duplicate capture group name")
        names.add(name)
    if len(names) > _MAX_NAMED_GROUPS:
        raise InvalidExpressionError(_TOO_LARGE)
    return Expression(compiled)


def _reason(message: str) -> str:
    """RE2/J's words for an error of RE2, which has the form `kind: part of the expression`."""
    kind, _, part = message.partition(": ")
    if kind == "invalid perl operator" and part.startswith("(?<"):
        # RE2 reads this as a lookbehind, RE2/J as a named group.
        return _INVALID_NAME
    return _WORDS[kind]
