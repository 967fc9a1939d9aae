"""Functions of text. Arguments of other kinds become text first, as Druid's implicit casts do it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Call, Family, built
from headrace.query.druid.casting import text
from headrace.query.druid.kinds import Kind

STRINGS: Final = Family(title="Text")
_RE2: Final = "regular expressions are those of RE2: no look-around, no back references"
_CODE_POINTS: Final = "counts characters, not UTF-16 code units"


def _texts(call: Call, *indexes: int) -> list[exp.Expr]:
    return [text(call.arguments[index], call.context) for index in indexes]


def _of_texts(template: str, *indexes: int) -> Callable[[Call], exp.Expr]:
    """The template over all arguments, of which those at `indexes` (the first one by default) become text."""

    def build(call: Call) -> exp.Expr:
        trees = [
            text(argument, call.context) if index in (indexes or (0,)) else argument.tree
            for index, argument in enumerate(call.arguments)
        ]
        return built(template, *trees)

    return build


def concat(call: Call) -> exp.Expr:
    """Null if one of them is null, as in Druid and with `||`."""
    trees = _texts(call, *range(len(call)))
    return built(f"({' || '.join(f'{{{index}}}' for index in range(len(trees)))})", *trees)


def _padded(function: str) -> Callable[[Call], exp.Expr]:
    def build(call: Call) -> exp.Expr:
        (value,) = _texts(call, 0)
        if len(call) == 2:
            return built(f"{function}({{0}}, {{1}}, ' ')", value, call.tree(1))
        filling = call.arguments[2].original
        if filling is not None and filling.this:
            return built(f"{function}({{0}}, {{1}}, {{2}})", value, call.tree(1), filling)
        # DuckDB fails where there is nothing to pad with.
        return built(
            "CASE WHEN {2} = '' THEN left({0}, {1}) "
            f"ELSE {function}({{0}}, {{1}}, nullif({{2}}, '')) END",
            value, call.tree(1), *_texts(call, 2),
        )  # fmt: skip

    return build


def _regexp_extract(call: Call) -> exp.Expr:
    index = call.number(2, "The group") if len(call) == 3 else 0
    template = f"CASE WHEN regexp_matches({{0}}, {{1}}) THEN regexp_extract({{0}}, {{1}}, {index}) END"
    return built(template, *_texts(call, 0), call.tree(1))


def _regexp_replace(call: Call) -> exp.Expr:
    value, pattern = _texts(call, 0)[0], call.tree(1)
    replacement = call.arguments[2].original
    if replacement is not None:
        escaped = str(replacement.this).replace("\\", "\\\\")
        with_groups = exp.Literal.string(re.sub(r"\$(\d)", r"\\\1", escaped))
        return built("regexp_replace({0}, {1}, {2}, 'g')", value, pattern, with_groups)
    return built(
        r"regexp_replace({0}, {1}, regexp_replace(replace({2}, '\', '\\'), '\$(\d)', '\\\1', 'g'), 'g')",
        value, pattern, call.tree(2),
    )  # fmt: skip


def _position(call: Call) -> exp.Expr:
    value, needle = _texts(call, 0, 1)
    if len(call) == 2:
        return built("strpos({0}, {1})", value, needle)
    rest = "strpos(substr({0}, {2}), {1})"
    return built(f"CASE WHEN {rest} = 0 THEN 0 ELSE {rest} + {{2}} - 1 END", value, needle, call.tree(2))


def _parse_long(call: Call) -> exp.Expr:
    radix = call.number(1, "The radix") if len(call) == 2 else 10
    prefixes = {2: "'0b' || ", 10: "", 16: "'0x' || "}
    if radix not in prefixes:
        raise call.error("PARSE_LONG takes the radix 2, 10 or 16 here", unsupported=True)
    return built(f"TRY_CAST({prefixes[radix]}{{0}} AS BIGINT)", *_texts(call, 0))


def _trimmed(function: str) -> Callable[[Call], exp.Expr]:
    def build(call: Call) -> exp.Expr:
        (value,) = _texts(call, 0)
        return built(
            f"{function}({{0}}, {{1}})", value, call.tree(1) if len(call) == 2 else exp.Literal.string(" ")
        )

    return build


def _lookup(call: Call) -> exp.Expr:
    raise call.error(
        "LOOKUP is not supported: there are no lookup tables here; join a table instead", unsupported=True
    )


STRINGS.add("CONCAT(expr[, ...])", concat, Kind.STRING)
STRINGS.add("TEXTCAT(expr, expr)", concat, Kind.STRING)
STRINGS.add("CONTAINS_STRING(expr, str)", _of_texts("contains({0}, {1})", 0, 1), Kind.BOOLEAN)
STRINGS.add("ICONTAINS_STRING(expr, str)", _of_texts("contains(lower({0}), lower({1}))", 0, 1), Kind.BOOLEAN)
STRINGS.add("DECODE_BASE64_UTF8(expr)", "decode(from_base64({0}))", Kind.STRING)
STRINGS.add("LEFT(expr, n)", _of_texts("left({0}, {1})"), Kind.STRING)
STRINGS.add("RIGHT(expr, n)", _of_texts("right({0}, {1})"), Kind.STRING)
STRINGS.add(
    "LENGTH(expr)", _of_texts("length({0})"), Kind.LONG, "CHAR_LENGTH", "CHARACTER_LENGTH", "STRLEN",
    note=_CODE_POINTS,
)  # fmt: skip
STRINGS.add(
    "LOOKUP(expr, lookupName[, missing])", _lookup, Kind.STRING, note="an error: there are no lookups"
)
STRINGS.add("LOWER(expr)", _of_texts("lower({0})"), Kind.STRING)
STRINGS.add("UPPER(expr)", _of_texts("upper({0})"), Kind.STRING)
STRINGS.add("LPAD(expr, length[, chars])", _padded("lpad"), Kind.STRING)
STRINGS.add("RPAD(expr, length[, chars])", _padded("rpad"), Kind.STRING)
STRINGS.add("PARSE_LONG(string[, radix])", _parse_long, Kind.LONG, note="radix 2, 10 or 16")
STRINGS.add(
    "POSITION(expr, substring[, start])", _position, Kind.LONG, note="as `POSITION(substring IN expr)`"
)
STRINGS.add("REGEXP_EXTRACT(expr, pattern[, index])", _regexp_extract, Kind.STRING, note=_RE2)
STRINGS.add("REGEXP_LIKE(expr, pattern)", _of_texts("regexp_matches({0}, {1})"), Kind.BOOLEAN, note=_RE2)
STRINGS.add("REGEXP_REPLACE(expr, pattern, replacement)", _regexp_replace, Kind.STRING, note=_RE2)
STRINGS.add(
    "REPLACE(expr, substring, replacement)", _of_texts("replace({0}, {1}, {2})", 0, 1, 2), Kind.STRING
)
STRINGS.add("REPEAT(expr, n)", _of_texts("repeat({0}, {1})"), Kind.STRING)
STRINGS.add("REVERSE(expr)", _of_texts("reverse({0})"), Kind.STRING)
STRINGS.add(
    "STRING_FORMAT(pattern[, ...])",
    lambda call: call.build(f"printf({', '.join(f'{{{index}}}' for index in range(len(call)))})"),
    Kind.STRING,
    note="formats of C's printf",
)
STRINGS.add("STRPOS(expr, substring)", _of_texts("strpos({0}, {1})", 0, 1), Kind.LONG)
STRINGS.add(
    "SUBSTRING(expr, index[, length])",
    lambda call: built(
        "substr({0}, {1})" if len(call) == 2 else "substr({0}, {1}, {2})",
        *_texts(call, 0), *(argument.tree for argument in call.arguments[1:]),
    ),
    Kind.STRING,
    "SUBSTR",
    note=_CODE_POINTS,
)  # fmt: skip
STRINGS.add("BTRIM(expr[, chars])", _trimmed("trim"), Kind.STRING)
STRINGS.add("LTRIM(expr[, chars])", _trimmed("ltrim"), Kind.STRING)
STRINGS.add("RTRIM(expr[, chars])", _trimmed("rtrim"), Kind.STRING)
