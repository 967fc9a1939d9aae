"""JSON, most of it valid, and paths into it."""

from __future__ import annotations

import json
import random

_KEYS = ("a", "b", "c", "0", "1", "é", "a b", "x.y", "A")
_SCALARS = (
    *(
        "0",
        "-0",
        "1",
        "42",
        "-7",
        "1.5",
        "1.50",
        "-0.0",
        "1e5",
        "1E-7",
        "12345678901234567890",
        "100.0",
        "1e20",
    ),
    *("9223372036854775807", "9223372036854775808", "0.1", "123456789.123456789", "1e999", "1" * 40),
    *("3.14159265358979323846264338327950288", "true", "false", "null"),
    *('""', '"a"', '"x\\ny"', '"\\u00e9"', '"é😀"', '"\\ud83d\\ude00"', '"it\'s"', '"\\"q\\\\"', '"/\\/"'),
    *('"null"', '"\\u0001\x7f"'),
)
_ODD_STRINGS = ("'s'", '"\t"', '"\\ud83d"')


def a_json(chance: random.Random, depth: int = 3) -> str:
    kind = chance.random()
    if depth and kind < 0.25:
        return an_array(chance, depth)
    if depth and kind < 0.55:
        return an_object(chance, depth)
    return chance.choice(_ODD_STRINGS if chance.random() < 0.02 else _SCALARS)


def an_array(chance: random.Random, depth: int = 2) -> str:
    elements = (a_json(chance, depth - 1) for _ in range(chance.randint(0, 4)))
    return f"[{chance.choice((',', ' , ')).join(elements)}]"


def an_object(chance: random.Random, depth: int = 2) -> str:
    count = chance.randint(0, 4)
    keys = chance.sample(_KEYS, count) if chance.random() < 0.95 else chance.choices(_KEYS, k=count)
    fields = (
        f"{json.dumps(key, ensure_ascii=chance.random() < 0.1)}{chance.choice((':', ' : '))}"
        f"{a_json(chance, depth - 1)}"
        for key in keys
    )
    return "{" + ",".join(fields) + "}"


def damaged(chance: random.Random, text: str) -> str:
    if chance.random() < 0.85:
        return text
    place = chance.randrange(len(text) + 1)
    return chance.choice(
        (
            text[:place] + text[place + 1 :],
            text[:place] + chance.choice('{}[],:"0x ') + text[place:],
            text + chance.choice(" x,}"),
            "",
        )
    )


def a_path(chance: random.Random) -> str:
    if chance.random() < 0.05:
        return chance.choice(("", "a", "$.", "$..a", "$[", "$.a b", "$['a']"))
    path = "$"
    for _ in range(chance.randint(0, 3)):
        # One step of digits: more are understood in constant paths only.
        key = chance.choice(_KEYS[:3] if "0" in path or "1" in path else _KEYS[:5])
        path += chance.choice((f".{key}", f"[{key}]", f'["{key}"]'))
    return path
