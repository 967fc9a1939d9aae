"""Sets of characters: one bit for each of ASCII's 128, since topic names have no others.

What is not ASCII is in no set, so an expression may name it, and matches no topic with it. Never looks
at more than the set's own definition.
"""

import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from headrace.coordination.expressions.errors import InvalidExpressionError

CharacterSet = int

EVERY: Final[CharacterSet] = (1 << 128) - 1


def holding(characters: str) -> CharacterSet:
    mask = 0
    for character in characters:
        if ord(character) < 128:
            mask |= 1 << ord(character)
    return mask


def _where(condition: Callable[[str], bool]) -> CharacterSet:
    return holding("".join(chr(code) for code in range(128) if condition(chr(code))))


DIGITS: Final = holding("0123456789")
LETTERS: Final = _where(str.isalpha)
WORD: Final = _where(lambda character: character.isalnum() or character == "_")
_SPACE: Final = holding("\t\n\f\r ")

OF_ESCAPE: Final[Mapping[str, CharacterSet]] = {
    "d": DIGITS,
    "D": EVERY & ~DIGITS,
    "w": WORD,
    "W": EVERY & ~WORD,
    "s": _SPACE,
    "S": EVERY & ~_SPACE,
}
_NAMED: Final[Mapping[str, CharacterSet]] = {
    "alnum": DIGITS | LETTERS,
    "alpha": LETTERS,
    "ascii": EVERY,
    "blank": holding("\t "),
    "cntrl": _where(lambda character: unicodedata.category(character) == "Cc"),
    "digit": DIGITS,
    "graph": _where(lambda character: "!" <= character <= "~"),
    "lower": _where(str.islower),
    "print": _where(lambda character: " " <= character <= "~"),
    "punct": _where(lambda character: "!" <= character <= "~" and not character.isalnum()),
    "space": holding("\t\n\v\f\r "),
    "upper": _where(str.isupper),
    "word": WORD,
    "xdigit": holding("0123456789abcdefABCDEF"),
}
# The categories of Unicode, and the letters that stand for whole groups of them.
_CATEGORIES: Final = frozenset(
    {*"LMNPSZC", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf"}
    | {"Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs", "Cc", "Cf", "Co", "Cs"}
)


def complement(characters: CharacterSet) -> CharacterSet:
    return EVERY & ~characters


def span(first: str, last: str) -> CharacterSet:
    """The characters from one to the other. Raises InvalidExpressionError where there is no way."""
    if ord(last) < ord(first):
        raise InvalidExpressionError("invalid character class range")
    return holding("".join(chr(code) for code in range(ord(first), min(ord(last), 127) + 1)))


def named(name: str) -> CharacterSet:
    """`[:name:]`, or its complement with `^` in front. Raises InvalidExpressionError."""
    characters = _NAMED.get(name.removeprefix("^"))
    if characters is None:
        raise InvalidExpressionError("invalid character class range")
    return complement(characters) if name.startswith("^") else characters


def of_unicode(name: str) -> CharacterSet:
    r"""`\p{name}`: a category, `Any`, or Latin, ASCII's one script. Raises InvalidExpressionError."""
    if name == "Any":
        return EVERY
    if name == "Latin":
        return LETTERS
    if name not in _CATEGORIES:
        raise InvalidExpressionError("invalid character class range")
    return _where(lambda character: unicodedata.category(character).startswith(name))


def without_case(characters: CharacterSet) -> CharacterSet:
    """The set together with the other case of its letters."""
    folded = characters
    for code in range(ord("a"), ord("z") + 1):
        pair = (1 << code) | (1 << (code - 32))
        if characters & pair:
            folded |= pair
    return folded
