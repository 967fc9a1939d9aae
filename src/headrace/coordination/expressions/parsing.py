r"""RE2's syntax, from the text of an expression to a program.

Refused, as RE2 refuses them: lookaround, references to groups, atomic groups, possessive and stacked
repetitions, counts above 1,000. Also refused, which RE2 knows: scripts in `\p{…}` other than Latin. Never
recurses deeper than `DEEPEST` groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.coordination.expressions import characters
from headrace.coordination.expressions.characters import CharacterSet
from headrace.coordination.expressions.errors import InvalidExpressionError
from headrace.coordination.expressions.program import (
    LONGEST_PROGRAM,
    Assertion,
    Program,
    Require,
    Take,
    alternatives,
    any_number,
    at_least_once,
    optional,
    repeated,
)

DEEPEST: Final = 100
# RE2's own limit.
MOST_REPETITIONS: Final = 1_000

_ASSERTIONS: Final[Mapping[str, Assertion]] = {
    "A": Assertion.START,
    "z": Assertion.END,
    "b": Assertion.WORD_BOUNDARY,
    "B": Assertion.NO_WORD_BOUNDARY,
}
_ANCHORS: Final[Mapping[str, Assertion]] = {"^": Assertion.START, "$": Assertion.END}
_CONTROL: Final[Mapping[str, str]] = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    """Those of RE2's flags that can matter to a name without line ends."""

    ignore_case: bool = False
    dot_is_every: bool = False


def parse(text: str) -> Program:
    """Raises InvalidExpressionError."""
    parser = _Parser(text)
    program, _ = parser.alternation(_Flags(), depth=0)
    if parser.position < len(text):
        raise InvalidExpressionError("unexpected )")
    return program


class _Parser:
    """One pass over the text; each method reads one part of it and leaves the position behind that."""

    __slots__ = ("_names", "position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._names: set[str] = set()

    def alternation(self, flags: _Flags, *, depth: int) -> tuple[Program, _Flags]:
        """Up to the end, or to the parenthesis that closes the group."""
        if depth > DEEPEST:
            raise InvalidExpressionError("expression nests too deeply")
        branches: list[Program] = []
        while True:
            branch, flags = self._sequence(flags, depth)
            branches.append(branch)
            if not self._skip("|"):
                break
        program = branches.pop()
        while branches:
            program = alternatives(branches.pop(), program)
        return program, flags

    def _sequence(self, flags: _Flags, depth: int) -> tuple[Program, _Flags]:
        parts: list[Program] = []
        length = 0
        while self._peek() not in ("", "|", ")"):
            if self._skip("(?"):
                part, flags = self._special_group(flags, depth)
                if not part and self._peek() in ("*", "+", "?"):
                    raise InvalidExpressionError("missing argument to repetition operator")
            elif self._skip("("):
                part = self._group(flags, depth)
            elif self._skip("\\Q"):
                part = self._quoted(flags)
            else:
                part = self._atom(flags)
            part = self._repetition(part)
            length += len(part)
            parts.append(part)
            # Long before thousands of parts of thousands of instructions each are put together.
            if length > LONGEST_PROGRAM:
                raise InvalidExpressionError("expression is too large")
        return tuple(instruction for part in parts for instruction in part), flags

    def _group(self, flags: _Flags, depth: int) -> Program:
        program, _ = self.alternation(flags, depth=depth + 1)
        if not self._skip(")"):
            raise InvalidExpressionError("missing closing )")
        return program

    def _special_group(self, flags: _Flags, depth: int) -> tuple[Program, _Flags]:
        """Behind `(?`: a group without a number, with a name, or flags for it or for what follows."""
        if self._skip("P<") or self._skip("<"):
            self._name_group(self._until(">", "invalid named capture"))
            return self._group(flags, depth), flags
        on = True
        inner = flags
        while True:
            letter = self._next("invalid or unsupported Perl syntax")
            if letter == "i":
                inner = replace(inner, ignore_case=on)
            elif letter == "s":
                inner = replace(inner, dot_is_every=on)
            elif letter in ("m", "U"):
                # Lines and greed do not change whether a name matches.
                continue
            elif letter == "-" and on:
                on = False
            elif letter == ")":
                return (), inner
            elif letter == ":":
                return self._group(inner, depth), flags
            else:
                raise InvalidExpressionError("invalid or unsupported Perl syntax")

    def _name_group(self, name: str) -> None:
        if not name.isascii() or not name.replace("_", "0").isalnum():
            raise InvalidExpressionError("invalid named capture")
        if name in self._names:
            raise InvalidExpressionError("duplicate capture group name")
        self._names.add(name)

    def _quoted(self, flags: _Flags) -> Program:
        end = self.text.find("\\E", self.position)
        quoted = self.text[self.position : end if end >= 0 else len(self.text)]
        self.position = end + 2 if end >= 0 else len(self.text)
        return tuple(_take(characters.holding(character), flags) for character in quoted)

    def _repetition(self, part: Program) -> Program:
        counts = self._counts()
        if counts is None:
            return part
        self._skip("?")  # Lazy: another match first, but the same names match.
        if self._peek() in ("*", "+", "?") or self._looks_like_counts():
            raise InvalidExpressionError("invalid nested repetition operator")
        match counts:
            case (0, 1):
                return optional(part)
            case (0, None):
                return any_number(part)
            case (1, None):
                return at_least_once(part)
            case (least, most):
                return repeated(part, least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        if self._skip("*"):
            return 0, None
        if self._skip("+"):
            return 1, None
        if self._skip("?"):
            return 0, 1
        if not self._looks_like_counts():
            return None
        self._skip("{")
        least, comma, most = self._until("}").partition(",")
        lower = int(least)
        upper = int(most) if most else None if comma else lower
        if lower > MOST_REPETITIONS or (upper is not None and not lower <= upper <= MOST_REPETITIONS):
            raise InvalidExpressionError("invalid repeat count")
        return lower, upper

    def _looks_like_counts(self) -> bool:
        """Other braces are just characters."""
        if self._peek() != "{":
            return False
        end = self.text.find("}", self.position)
        if end < 0 or end - self.position > 12:
            return False
        least, _, most = self.text[self.position + 1 : end].partition(",")
        return _is_number(least) and (not most or _is_number(most))

    def _atom(self, flags: _Flags) -> Program:
        character = self._next("")
        if character in ("*", "+", "?"):
            raise InvalidExpressionError("missing argument to repetition operator")
        if character == "[":
            return (_take(self._class(flags), flags),)
        if character == ".":
            everything = characters.EVERY
            return (Take(everything if flags.dot_is_every else everything & ~characters.holding("\n")),)
        if character in _ANCHORS:
            return (Require(_ANCHORS[character]),)
        if character != "\\":
            return (_take(characters.holding(character), flags),)
        assertion = _ASSERTIONS.get(self._peek())
        if assertion is not None:
            self.position += 1
            return (Require(assertion),)
        return (_take(self._escape(), flags),)

    def _class(self, flags: _Flags) -> CharacterSet:
        """Behind `[`."""
        negated = self._skip("^")
        found = 0
        first = True
        while first or self._peek() != "]":
            first = False
            if ":]" in self.text[self.position :] and self._skip("[:"):
                found |= characters.named(self._until(":]"))
                continue
            start = self._next("missing closing ]")
            if start == "\\":
                low = self._escape_in_class()
                if isinstance(low, int):
                    found |= low
                    continue
            else:
                low = start
            if self._peek() == "-" and self.text[self.position + 1 : self.position + 2] not in ("]", ""):
                self.position += 1
                high = self._next("missing closing ]")
                if high == "\\":
                    escaped = self._escape_in_class()
                    if isinstance(escaped, int):
                        raise InvalidExpressionError("invalid escape sequence")
                    high = escaped
                found |= characters.span(low, high)
            else:
                found |= characters.holding(low)
        self.position += 1
        if flags.ignore_case:
            found = characters.without_case(found)
        return characters.complement(found) if negated else found

    def _escape(self) -> CharacterSet:
        escaped = self._escape_in_class()
        return escaped if isinstance(escaped, int) else characters.holding(escaped)

    def _escape_in_class(self) -> CharacterSet | str:
        """Behind a backslash: a set, or one character."""
        letter = self._next("trailing backslash at end of expression")
        if letter in characters.OF_ESCAPE:
            return characters.OF_ESCAPE[letter]
        if letter in ("p", "P"):
            name = self._until("}") if self._skip("{") else self._next("invalid character class range")
            negated = (letter == "P") != name.startswith("^")
            found = characters.of_unicode(name.removeprefix("^"))
            return characters.complement(found) if negated else found
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "x":
            digits = self._until("}") if self._skip("{") else self._next("") + self._next("")
            return _character(digits, 16)
        if letter == "0" or (letter in "1234567" and self._peek() in tuple("01234567")):
            digits = letter
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._next("")
            return _character(digits, 8)
        if letter.isalnum() or not letter.isascii():
            raise InvalidExpressionError("invalid escape sequence")
        return letter

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _skip(self, expected: str) -> bool:
        if not self.text.startswith(expected, self.position):
            return False
        self.position += len(expected)
        return True

    def _next(self, missing: str) -> str:
        character = self._peek()
        if not character:
            raise InvalidExpressionError(missing or "invalid escape sequence")
        self.position += 1
        return character

    def _until(self, closing: str, missing: str = "invalid character class range") -> str:
        end = self.text.find(closing, self.position)
        if end < 0:
            raise InvalidExpressionError(missing)
        found = self.text[self.position : end]
        self.position = end + len(closing)
        return found


def _take(found: CharacterSet, flags: _Flags) -> Take:
    return Take(characters.without_case(found) if flags.ignore_case else found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _character(digits: str, base: int) -> str:
    try:
        return chr(int(digits, base))
    except (ValueError, OverflowError):
        raise InvalidExpressionError("invalid escape sequence") from None
