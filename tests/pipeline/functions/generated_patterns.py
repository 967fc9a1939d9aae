"""Java's regular expressions, put together from everything that they can have, and texts to try them on."""

from __future__ import annotations

import random

_ATOMS = (
    *("a", "b", "ab", "é", "-", " ", "1", r"\n", ".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\b", r"\B"),
    *("^", "$", r"\A", r"\z", r"\Z", r"\h", r"\H", r"\v", r"\V", r"\R", "[ab]", "[^ab]", "[a-c]", r"[\d-]"),
    *(
        r"[^\s]",
        "[a-z&&[^b]]",
        "[a[0-9]]",
        "[^a[b]]",
        "[a-z&&b-d]",
        r"[\w&&[^\d]]",
        "[]a]",
        r"[a\]]",
        r"[\W]",
    ),
    *(
        r"[^\W]",
        r"[\D1]",
        "(a)",
        "(b|)",
        "(?:ab)",
        "(?<n>a|1)",
        "(a|b)*",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!b)",
    ),
    *(
        "(?>a*)",
        r"\Qa.b\E",
        r"\Q*\E",
        r"\x61",
        r"\u0061",
        r"\x{61}",
        r"\0141",
        r"\t",
        r"\.",
        r"\p{L}",
        r"\P{L}",
    ),
    *(r"\p{Lu}", r"\p{Alpha}", r"\pL", r"\p{Punct}", r"[\p{L}&&[^a]]", r"[\p{Digit}b]", "(?i)", "(?i:A)"),
    *("(?-i)", "(?s).", "(?s:.)", "(?m)^", "(?m)$", "(?x: a b #c\n)", "(?x: [ a ])", r"\\", r"\-", "]", "}"),
    *("(?iu:É)", "(?i:É)", r"\cA", r"\e", "(?d:.)", "(?dm:$)", "[^é]", "&", "&&", "[a&&]", "[&&a]", "[a&b]"),
    *(
        r"\1",
        "#",
        "(?i)[a-b]",
        "(?i:[^A])",
        "[A-Z&&[^B]]",
        "[a-]",
        "[-a]",
        r"[a\-c]",
        r"[\Qa]\E]",
        r"\_",
        r"\é",
    ),
)
_WRONG = (
    *(
        "(",
        "[",
        ")",
        "*",
        "a{",
        "a{2,1}",
        "\\",
        r"\y",
        "(?",
        "(?<1a>b)",
        "[b-a]",
        "a**",
        "(?<n",
        r"\x{110000}",
    ),
    *("[]", "[^]", r"\k<zz>", "a{99999999999}", "(?z)", "x{2}{3}", "a{,3}", "{1}"),
)
_TIMES = ("", "", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??", "*+", "++", "?+", "{1,}+")
# No characters beyond U+FFFF: Java finds nothing in the middle of them, too.
_CHARACTERS = (
    *("a", "b", "A", "B", "c", "1", "9", " ", "\n", "\r", "\r\n", "\x85", "\u2028", "\t", "é", "É", ".", "-"),
    *("_", "*", "\\", "]", "ab", "\u00a0", "\x0b", "#", "&"),
)


def a_pattern(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randint(1, 4)):
        atom = chance.choice(_WRONG if chance.random() < 0.02 else _ATOMS)
        times = chance.choice(_TIMES)
        # \b{ means something else.
        parts += [atom, "" if atom == r"\b" and times.startswith("{") else times]
        if chance.random() < 0.1:
            parts.append("|")
    return "".join(parts)


def a_text(chance: random.Random) -> str:
    return "".join(chance.choices(_CHARACTERS, k=chance.randint(0, 7)))


def a_replacement(chance: random.Random) -> str:
    parts = ("a", "$1", "x", "<$0>", r"\$") if chance.random() < 0.8 else ("$2", "$12", "$", "\\", r"\\")
    return "".join(chance.choices(parts, k=chance.randint(0, 3)))
