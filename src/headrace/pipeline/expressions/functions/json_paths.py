"""ksqlDB's paths into JSON as Spark's.

A path is `$` followed by steps: `.name` (letters, digits, `_`, `:` and `@`), `[name]`, `["any text"]`, `[0]`.
A numeric step is a position in an array and a name in an object. Spark must know which, so both are tried.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any, Final

from headrace.pipeline.expressions.functions.json_values import Object, as_text
from headrace.pipeline.expressions.functions.spark_text import string_literal

_STEP: Final = re.compile(r'\.([\w:@]+)|\[(\w+)\]|\["((?:[^"\\]|\\["\\])*)"\]')
# Two paths for each step of digits.
_MOST_NUMBERS: Final = 3


def steps(path: str) -> tuple[str, ...] | None:
    """The names and positions, or None if the path is invalid."""
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
    """Spark's paths to try, as constants; None if the path is invalid."""
    found = steps(path)
    if found is None:
        return None
    numbers = sum(1 for each in found if each.isdecimal())
    choices = [_choices(each, both=numbers <= _MOST_NUMBERS) for each in found]
    return [string_literal("$" + "".join(each)) for each in product(*choices)]


def parent_path(path: str) -> str:
    """The path without its last step; numeric steps are positions."""
    found = (steps(path) or ())[:-1]
    return string_literal("$" + "".join(_choices(each, both=False)[0] for each in found))


def _choices(step: str, *, both: bool) -> list[str]:
    # Neither form takes everything: a quote ends one, a point or bracket the other.
    named = f"['{step}']" if not re.search(r"['?]", step) else f".{step}"
    if not step.isdecimal():
        return [named]
    return [f"[{step}]", named] if both else [f"[{step}]"]


def at_path(value: Any, path: tuple[str, ...]) -> str | None:
    """The text of the value at the path; a null field gives the text `null`."""
    by_number = sum(1 for each in path if each.isdecimal()) <= _MOST_NUMBERS
    found = _found(value, path, by_number=by_number)
    if found is not None:
        return found
    if not path or path[-1].isdecimal():
        return None
    *before, name = path
    parents = [value] if not before else _values(value, tuple(before))
    is_there = any(isinstance(each, Object) and name in each.names() for each in parents[:1])
    return "null" if is_there else None


def _found(value: Any, path: tuple[str, ...], *, by_number: bool) -> str | None:
    """Spark goes on to a later field of the same name if the first has nothing at the path."""
    if not path:
        return as_text(value)
    name, *rest = path
    if isinstance(value, list) and name.isdecimal():
        return _found(value[int(name)], tuple(rest), by_number=by_number) if int(name) < len(value) else None
    if isinstance(value, Object) and (by_number or not name.isdecimal()):
        for key, each in value.pairs:
            if key == name and each is not None:
                found = _found(each, tuple(rest), by_number=by_number)
                if found is not None:
                    return found
    return None


def _values(value: Any, path: tuple[str, ...]) -> list[Any]:
    """The values at the path; numeric steps are positions."""
    if not path:
        return [value]
    name, *rest = path
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return _values(value[int(name)], tuple(rest))
    if isinstance(value, Object) and not name.isdecimal():
        return [found for key, each in value.pairs if key == name for found in _values(each, tuple(rest))]
    return []


# For paths that are not constants: the same steps, rewritten when the query runs.
_IS_PATH: Final = r"""r'^\$(\.[\p{{L}}\p{{Nd}}_:@]+|\[[\p{{L}}\p{{Nd}}_]+\]|\["[^"\\\x27?]*"\])*+$'"""
_STEP_AT_RUN_TIME: Final = r"""r'\.([\p{{L}}\p{{Nd}}_:@]+)|\[([\p{{L}}\p{{Nd}}_]+)\]|\["([^"]*)"\]'"""


def extracted_at(path: str, value: str) -> str:
    """Spark SQL: the value at a path that is known only when the query runs.

    Numeric steps are either all positions or all names.
    """
    names = f"""regexp_replace({path}, {_STEP_AT_RUN_TIME}, r"['$1$2$3']")"""
    positions = rf"""regexp_replace({names}, r"\['(\d+)'\]", r'[$1]')"""
    parent = r"""regexp_replace(__hr_p.p, r"\['[^']*'\]$", '')"""
    name = r"""regexp_extract(__hr_p.p, r"\['([^']*)'\]$", 1)"""
    around = f"CASE WHEN {parent} = '$' THEN {value} ELSE get_json_object({value}, {parent}) END"
    is_there = f"array_contains(json_object_keys({around}), {name})"
    found = (
        f"coalesce(get_json_object({value}, __hr_p.p), get_json_object({value}, __hr_p.n),"
        f""" CASE WHEN __hr_p.p LIKE "%']" AND {is_there} THEN 'null' END)"""
    )
    bound = f"element_at(transform(array(struct({names} AS n, {positions} AS p)), __hr_p -> {found}), 1)"
    return f"CASE WHEN {path} RLIKE {_IS_PATH} THEN {bound} END"
