"""ksqlDB's paths into JSON as Spark's.

A path is `$` and then steps: `.name` of letters, digits, `_`, `:` and `@`, `[name]`, `["any text"]`, `[0]`. A
step of digits is a position in an array and a name in an object; Spark wants to know which, so there are two
paths to try for each.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from headrace.pipeline.expressions.functions.spark_text import string_literal

_STEP: Final = re.compile(r'\.([\w:@]+)|\[(\w+)\]|\["((?:[^"\\]|\\["\\])*)"\]')
# Two paths for each step of digits.
_MOST_NUMBERS: Final = 3


def steps(path: str) -> tuple[str, ...] | None:
    """The names and positions, or None where it is no path."""
    if not path.startswith("$"):
        return None
    found: list[str] = []
    place = 1
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            return None
        name, subscript, quoted = step.groups()
        found.append(name or subscript or re.sub(r"\\(.)", r"\1", quoted or ""))
        place = step.end()
    return tuple(found)


def spark_paths(path: str) -> list[str] | None:
    """Spark's paths, as constants, of which one leads there; None where it is no path."""
    found = steps(path)
    if found is None:
        return None
    numbers = sum(1 for each in found if each.isdecimal())
    choices = [_choices(each, both=numbers <= _MOST_NUMBERS) for each in found]
    return [string_literal("$" + "".join(each)) for each in product(*choices)]


def parent_path(path: str) -> str:
    """Where the last step starts from; steps of digits are positions."""
    found = (steps(path) or ())[:-1]
    return string_literal("$" + "".join(_choices(each, both=False)[0] for each in found))


def _choices(step: str, *, both: bool) -> list[str]:
    # Neither form takes everything: a quote ends one, a point or bracket the other.
    named = f"['{step}']" if not re.search(r"['?]", step) else f".{step}"
    if not step.isdecimal():
        return [named]
    return [f"[{step}]", named] if both else [f"[{step}]"]


# For paths that are no constants: the same rewritten when the query runs, without names of digits.
_IS_PATH: Final = r"""r'^\$(\.[\p{{L}}\p{{Nd}}_:@]+|\[[\p{{L}}\p{{Nd}}_]+\]|\["[^"\\\x27?]*"\])*$'"""


def extracted_at(path: str, value: str) -> str:
    """Spark SQL: what stands at a path that is known only when the query runs."""
    subscript = r"""r'\["([^"]*)"\]|\[([\p{{L}}_][\p{{L}}\p{{Nd}}_]*)\]'"""
    names = f"""regexp_replace({path}, {subscript}, r"['$1$2']")"""
    return f"CASE WHEN {path} RLIKE {_IS_PATH} THEN get_json_object({value}, {names}) END"
