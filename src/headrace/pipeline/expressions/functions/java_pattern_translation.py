r"""Regular expressions of Java as those of Python's `re`.

`compiled` reads a pattern as Java 17 does. It raises ValueError if Java refuses the pattern. It raises
UnsupportedError if Python cannot do what the pattern means: \G, \X, scripts and blocks (\p{IsGreek}), the
flag U, lookbehind of variable length, references to later groups.

Python compiles the result with re.ASCII: so \d, \w, \s and (?i) mean ASCII, as in Java. Other differences are
written out: line terminators, \b (which goes by Unicode's letters), classes in classes, flags inside.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from headrace.pipeline.expressions.functions.refusing import refused

_ENDS: Final = r"\n\r\x85\u2028\u2029"
_ANY: Final = r"[\s\S]"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CLASSES: Final = {
    **{letter: f"\\{letter}" for letter in "dDwWsS"},
    "h": r"[ \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]",
    "H": r"[^ \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]",
    "v": r"[\n\x0B\f\r\x85\u2028\u2029]",
    "V": r"[^\n\x0B\f\r\x85\u2028\u2029]",
}
_POSIX: Final = {
    "Lower": "[a-z]",
    "Upper": "[A-Z]",
    "ASCII": r"[\x00-\x7F]",
    "Alpha": "[a-zA-Z]",
    "Digit": "[0-9]",
    "Alnum": "[a-zA-Z0-9]",
    "Punct": r"[!-/:-@\[-`{-~]",
    "Graph": "[!-~]",
    "Print": "[ -~]",
    "Blank": r"[ \t]",
    "Cntrl": r"[\x00-\x1F\x7F]",
    "XDigit": "[0-9a-fA-F]",
    "Space": r"[ \t\n\x0B\f\r]",
}
_CATEGORY: Final = re.compile("[CLMNPSZ][a-z]?")
_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9]*")
_COUNT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_FLAGS: Final = re.compile("([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_LARGEST_COUNT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Mode:
    """The flags at a place."""

    i: bool = False
    d: bool = False
    m: bool = False
    s: bool = False
    u: bool = False
    x: bool = False


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    first = _Translation(pattern, groups=0)
    first.result()
    translated = _Translation(pattern, groups=first.groups).result()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise refused(f"Pull queries do not support the pattern {pattern!r}: {error}.") from error


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """All that Java finds, one after the other: after nothing it goes on at the next character."""
    place = 0
    while place <= len(text):
        found = pattern.search(text, place)
        if found is None:
            return
        yield found
        place = found.end() + (found.end() == found.start())


class _Translation:
    """`groups` is how many the pattern has, which only a first translation tells."""

    def __init__(self, pattern: str, groups: int) -> None:
        self._pattern = pattern
        self._place = 0
        self._all_groups = groups
        self.groups = 0
        self._names: set[str] = set()
        self._mode = _Mode()

    def result(self) -> str:
        found = self._alternatives()
        if self._place < len(self._pattern):
            raise ValueError("unmatched )")
        return found

    # Reading.

    def _next(self, count: int = 1) -> str:
        return self._pattern[self._place : self._place + count]

    def _take(self, count: int = 1) -> str:
        found = self._next(count)
        if len(found) < count:
            raise ValueError("the pattern ends too early")
        self._place += count
        return found

    def _take_if(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._place):
            return False
        self._place += len(text)
        return True

    def _until(self, end: str) -> str:
        place = self._pattern.find(end, self._place)
        if place < 0:
            raise ValueError(f"no {end}")
        found = self._pattern[self._place : place]
        self._place = place + len(end)
        return found

    def _skip_comments(self) -> None:
        while self._mode.x and self._next():
            if self._next() in " \t\n\x0b\f\r":
                self._place += 1
            elif self._next() == "#":
                while self._next() and self._next() not in "\n\r\x85\u2028\u2029":
                    self._place += 1
            else:
                break

    # Sequences.

    def _alternatives(self) -> str:
        before = self._mode
        parts = [self._sequence()]
        while self._take_if("|"):
            parts.append(self._sequence())
        self._mode = before
        return "|".join(parts)

    def _sequence(self) -> str:
        parts: list[str] = []
        while True:
            self._skip_comments()
            if self._next() in ("", "|", ")"):
                return "".join(parts)
            if self._next() in "*+?":
                raise ValueError("nothing to repeat")
            atom = self._quotation() if self._take_if("\\Q") else [self._atom()]
            if atom and atom[-1] is not None:
                parts += [each for each in atom[:-1] if each]
                self._skip_comments()
                parts.append(atom[-1] + self._quantifier())

    def _quotation(self) -> list[str | None]:
        place = self._pattern.find("\\E", self._place)
        end = len(self._pattern) if place < 0 else place
        text = self._pattern[self._place : end]
        self._place = end if place < 0 else end + 2
        return [self._literal(each) for each in text]

    def _quantifier(self) -> str:
        found = self._next()
        if found and found in "*+?":
            self._place += 1
        elif found == "{":
            count = _COUNT.match(self._pattern, self._place)
            if count is None:
                raise ValueError("no count")
            low, high = int(count[1]), int(count[3]) if count[3] else None
            if max(low, high or 0) > _LARGEST_COUNT or (high is not None and high < low):
                raise ValueError("no such count")
            self._place = count.end()
            found = count[0]
        else:
            return ""
        if self._next() and self._next() in "?+":
            found += self._take()
        return found

    def _atom(self) -> str | None:  # noqa: PLR0911 - one for each kind
        """None for what only sets flags."""
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._cased(self._class())
            case "\\":
                return self._escape()
            case ".":
                return self._dot()
            case "^":
                return self._start()
            case "$":
                return self._end()
            case "{":
                # Java repeats nothing.
                self._place -= 1
                return "(?:)"
            case _:
                return self._literal(character)

    def _literal(self, character: str) -> str:
        return self._cased(re.escape(character))

    def _cased(self, text: str) -> str:
        if not self._mode.i:
            return text
        return f"(?{'iu' if self._mode.u else 'i'}:{text})"

    def _dot(self) -> str:
        if self._mode.s:
            return _ANY
        return r"[^\n]" if self._mode.d else f"[^{_ENDS}]"

    def _start(self) -> str:
        if not self._mode.m:
            return r"(?:\A)"
        if self._mode.d:
            return r"(?:(?:\A|(?<=\n))(?!\Z))"
        return r"(?:(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))(?!\Z))"

    def _end(self) -> str:
        at_end = "" if self._mode.m else r"\Z"
        if self._mode.d:
            return rf"(?:(?=\n{at_end})|\Z)"
        return rf"(?:(?=\r\n{at_end})|(?<!\r)(?=\n{at_end})|(?=[\r\x85\u2028\u2029]{at_end})|\Z)"

    # Groups.

    def _group(self) -> str | None:
        if not self._take_if("?"):
            self.groups += 1
            return f"({self._inside()})"
        for plain in (":", "=", "!", "<=", "<!", ">"):
            if self._take_if(plain):
                found = f"(?{plain}{self._inside()})"
                return found if plain in (":", ">") else f"(?:{found})"
        if self._take_if("<"):
            name = self._until(">")
            if not _NAME.fullmatch(name) or name in self._names:
                raise ValueError(f"no name: {name}")
            self._names.add(name)
            self.groups += 1
            return f"(?P<{name}>{self._inside()})"
        return self._flags()

    def _flags(self) -> str | None:
        found = _FLAGS.match(self._pattern, self._place)
        if found is None:
            raise ValueError("no such group")
        on, off = found[1], found[2] or ""
        if "U" in on + off:
            raise refused("Pull queries do not support the flag U in regular expressions.")
        self._place = found.end()
        before = self._mode
        self._mode = replace(before, **dict.fromkeys(on, True), **dict.fromkeys(off, False))
        if found[3] == ")":
            return None
        inner = f"(?:{self._inside()})"
        self._mode = before
        return inner

    def _inside(self) -> str:
        found = self._alternatives()
        if not self._take_if(")"):
            raise ValueError("a group does not end")
        return found

    # Escapes.

    def _escape(self) -> str:  # noqa: PLR0911 - one for each kind
        character = self._take()
        match character:
            case "b":
                if self._take_if("{"):
                    raise refused("Pull queries do not support \\b{g} in regular expressions.")
                return r"(?:(?u:\b))"
            case "B":
                return r"(?!(?u:\b))"
            case "A":
                return r"(?:\A)"
            case "z":
                return r"(?:\Z)"
            case "Z":
                before, self._mode = self._mode, replace(self._mode, m=False)
                found = self._end()
                self._mode = before
                return found
            case "R":
                return r"(?>\r\n|[\n\x0B\f\r\x85\u2028\u2029])"
            case "G" | "X" | "N":
                raise refused(f"Pull queries do not support \\{character} in regular expressions.")
            case "k":
                return self._named_reference()
        if character in "123456789":
            return self._reference(int(character))
        self._place -= 1
        named = self._escaped_class()
        return self._cased(named) if named is not None else self._literal(self._escaped_character())

    def _named_reference(self) -> str:
        if not self._take_if("<"):
            raise ValueError("no name")
        name = self._until(">")
        if name not in self._names:
            raise ValueError(f"no group {name}")
        return self._cased(f"(?P={name})")

    def _reference(self, number: int) -> str:
        while (
            self._next().isdecimal()
            and self._next().isascii()
            and number * 10 + int(self._next()) <= self.groups
        ):
            number = number * 10 + int(self._take())
        if number > max(self.groups, self._all_groups):
            # There is no such group, so nothing is found.
            return "(?!)"
        if number > self.groups:
            raise refused("Pull queries do not support references to later groups in regular expressions.")
        return self._cased(f"(?:\\{number})")

    def _escaped_class(self) -> str | None:
        """A class such as \\d or \\p{Lu}, if there is one."""
        letter = self._next()
        if letter in _CLASSES:
            self._place += 1
            return _CLASSES[letter]
        if letter not in ("p", "P"):
            return None
        self._place += 1
        name = self._until("}") if self._take_if("{") else self._take()
        cases = ("Lu", "Ll", "Lt")
        # Without regard to case, Java takes capital and small letters for each other.
        is_any_case = self._mode.i and name.removeprefix("Is") in cases
        found = f"(?:{'|'.join(map(_property, cases))})" if is_any_case else _property(name)
        return found if letter == "p" else f"(?:(?!{found}){_ANY})"

    def _escaped_character(self) -> str:
        character = self._take()
        match character:
            case "x":
                return self._code(self._until("}") if self._take_if("{") else self._take(2))
            case "u":
                return self._code(self._take(4))
            case "0":
                digits = re.compile("[0-3][0-7]{2}|[0-7]{1,2}").match(self._pattern, self._place)
                if digits is None:
                    raise ValueError("no octal number")
                self._place = digits.end()
                return chr(int(digits[0], 8))
            case "c":
                return chr(ord(self._take()) ^ 64)
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character.isascii() and character.isalnum():
            raise ValueError(f"no such escape: {character}")
        return character

    def _code(self, digits: str) -> str:
        if not re.fullmatch("[0-9A-Fa-f]+", digits) or int(digits, 16) > sys.maxunicode:
            raise ValueError(f"no character: {digits}")
        return chr(int(digits, 16))

    # Classes.

    def _class(self) -> str:
        """One character; the opening bracket is read."""
        is_negated = self._take_if("^")
        sides: list[list[str]] = [[]]
        is_first = True
        while True:
            if not self._next():
                raise ValueError("a class does not end")
            if self._next() == "]" and not is_first:
                self._place += 1
                break
            if self._take_if("&&"):
                sides.append([])
                is_first = False
                continue
            sides[-1] += self._class_part()
            is_first = False
        kept = [_united(side) for side in sides if side]
        if not kept:
            raise ValueError("a class without characters")
        *conditions, last = kept
        found = "".join(f"(?={each})" for each in conditions) + last
        if not is_negated:
            return f"(?:{found})" if conditions else found
        return f"(?:(?!{found}){_ANY})"

    def _class_part(self) -> list[str]:
        if self._mode.x and self._next() in " \t\n\x0b\f\r#":
            self._skip_comments()
            return []
        if self._take_if("\\Q"):
            return [re.escape(each) for each in self._class_quotation()]
        if self._take_if("["):
            return [self._class()]
        first = self._class_character()
        if isinstance(first, list):
            return first
        if self._next() != "-" or self._next(2) in ("-]", "-[", "-") or self._next(3) == "-&&":
            return [re.escape(first)]
        self._place += 1
        last = self._class_character()
        if isinstance(last, list) or last < first:
            raise ValueError("no such range")
        return [f"{re.escape(first)}-{re.escape(last)}"]

    def _class_quotation(self) -> str:
        place = self._pattern.find("\\E", self._place)
        if place < 0:
            raise ValueError("a class does not end")
        text = self._pattern[self._place : place]
        self._place = place + 2
        return text

    def _class_character(self) -> str | list[str]:
        if not self._take_if("\\"):
            return self._take()
        found = self._escaped_class()
        return self._escaped_character() if found is None else [found]


def _united(parts: list[str]) -> str:
    """One character of any of the parts: classes, characters and ranges."""
    plain = [each for each in parts if not each.startswith(("[", "(")) and each not in (r"\D", r"\W", r"\S")]
    classes = [each for each in parts if each not in plain]
    if plain:
        classes.insert(0, f"[{''.join(plain)}]")
    return classes[0] if len(classes) == 1 else f"(?:{'|'.join(classes)})"


@cache
def _property(name: str) -> str:
    """The class of a property's name: POSIX's for ASCII, or a category of Unicode."""
    if name in _POSIX:
        return _POSIX[name]
    bare = name.removeprefix("Is") if _CATEGORY.fullmatch(name.removeprefix("Is")) else name
    if not _CATEGORY.fullmatch(bare):
        raise refused(f"Pull queries do not support \\p{{{name}}} in regular expressions.")
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(bare):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    if not ranges:
        raise ValueError(f"no property {name}")
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"
