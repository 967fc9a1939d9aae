"""The functions that are translated for Spark: one row each, under DuckDB's name.

A row is there only if the two engines give the same for every argument that it lets through; arguments for
which they differ are refused, when the statement is read (`differs`) or, where only the data shows it, when
Spark meets one (`_guarded`). Left out on purpose: what takes memory without bound (lists, repeated texts,
exact quantiles), regular expressions (RE2 and Java's differ), and approximations. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.query.spark.kinds import (
    NUMBERS,
    ORDERED,
    TIMES,
    Kind,
    Value,
    cast,
    differs,
    text_literal,
    unified,
)

Arguments = Sequence[Value]
Translate = Callable[[str, Arguments], Value]

# Letters of which the engines agree what the upper and lower case is, and letters that have none. Without
# those whose other case has several letters or depends on the word, and without alphabets that are new to
# Java.
SAME_LETTERS: Final = (
    (0x00, 0xDE), (0xE0, 0x12F), (0x131, 0x148), (0x14A, 0x17F), (0x391, 0x3A1), (0x3A4, 0x3AB),
    (0x3AC, 0x3AF), (0x3B1, 0x3CE), (0x400, 0x481), (0x48A, 0x513), (0x5D0, 0x5EA), (0x620, 0x64A),
    (0x660, 0x669), (0x900, 0x97F), (0xE00, 0xE7F), (0x2000, 0x206F), (0x20A0, 0x20BF), (0x2190, 0x22FF),
    (0x2500, 0x27BF),
    (0x3000, 0x30FF), (0x3400, 0x4DB5), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xFE00, 0xFE0F),
    (0x1F300, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF),
)  # fmt: skip
_RANGES: Final = "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in SAME_LETTERS)
_ONLY_SAME_LETTERS: Final = f"^[{_RANGES}]*$"
_PARTS: Final[dict[str, str]] = {
    "day": "day({0})", "dayofmonth": "day({0})", "dayofweek": "(dayofweek({0}) - 1)",
    "dow": "(dayofweek({0}) - 1)", "weekday": "(dayofweek({0}) - 1)", "isodow": "(weekday({0}) + 1)",
    "dayofyear": "dayofyear({0})", "doy": "dayofyear({0})", "month": "month({0})",
    "quarter": "quarter({0})", "week": "weekofyear({0})",
    "weekofyear": "weekofyear({0})", "year": "year({0})",
}  # fmt: skip
_PARTS_OF_TIMES: Final[dict[str, str]] = {
    "hour": "hour({0})", "minute": "minute({0})", "second": "second({0})",
}  # fmt: skip
_UNITS: Final = frozenset({"second", "minute", "hour", "day", "week", "month", "quarter", "year"})
_FORMATS: Final[dict[str, str]] = {
    "Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "M": "mm", "S": "ss", "y": "yy", "j": "DDD", "%": "'%'",
}  # fmt: skip
_PLAIN_IN_FORMATS: Final = frozenset(" -/:._,")


def part_of_time(part: str, value: Value) -> Value:
    """EXTRACT and its forms as functions."""
    template = _PARTS.get(part) or (_PARTS_OF_TIMES.get(part) if value.kind is not Kind.DATE else None)
    if template is None:
        raise differs(f"the part `{part[:30]}` of {value.kind.value}", "it is not translated")
    _only(f"`{part}`", [value], TIMES)
    return Value(sql=template.format(value.sql), kind=Kind.INTEGER)


def same_case(value: Value) -> str:
    """The text, if both engines agree on the case of its letters; an error of Spark's otherwise."""
    return _guarded(
        value.sql,
        f"{value.sql} RLIKE {text_literal(_ONLY_SAME_LETTERS)}",
        "the engines differ in upper and lower case of some letters beyond ASCII",
    )


def rounded_double(value: str, digits: int) -> str:
    """As DuckDB does it: scale, round half away from zero, scale back."""
    if digits == 0:
        return _with_sign(f"round({value}, 0)", value)
    factor = f"1e{abs(digits)}D"
    if digits > 0:
        scaled = _with_sign(f"try_divide(round({value} * {factor}, 0), {factor})", value)
        return f"CASE WHEN abs({value}) < 1e{max(0, 300 - digits)}D THEN {scaled} ELSE {value} END"
    return _with_sign(f"(round(try_divide({value}, {factor}), 0) * {factor})", value)


def _with_sign(rounded: str, value: str) -> str:
    """What is rounded to zero keeps its sign."""
    return f"CASE WHEN {rounded} = 0D THEN 0D * signum({value}) ELSE {rounded} END"


def _guarded(value: str, condition: str, reason: str) -> str:
    """An error of Spark's where the data does not meet the condition. Null passes."""
    error = f"raise_error({text_literal(f'{REFUSED}{reason}')})"
    return f"CASE WHEN {value} IS NULL OR {condition} THEN {value} ELSE {error} END"


# Of those that are put together, in bytes.
LONGEST_TEXT: Final = 16_000_000
# How an error begins that is not Spark's but ours.
REFUSED: Final = "headrace: "


def guarded_cast(value: Value, pattern: str, spark_type: str, kind: Kind, reason: str) -> Value:
    text = _guarded(value.sql, f"{value.sql} RLIKE {text_literal(pattern)}", reason)
    return Value(sql=f"CAST({text} AS {spark_type})", kind=kind)


def joined(values: Sequence[Value], template: str) -> str:
    """Texts put together, if the result is not too long: what doubles a text again and again fills the memory
    of a process that others need.
    """
    sizes = " + ".join(f"coalesce(octet_length({value.sql}), 0)" for value in values if value.text is None)
    text = template.format(", ".join(value.sql for value in values))
    if not sizes:
        return text
    error = f"raise_error({text_literal(f'{REFUSED}a text is longer than {LONGEST_TEXT} bytes')})"
    return f"CASE WHEN {sizes} <= {LONGEST_TEXT} THEN {text} ELSE {error} END"


def _only(function: str, values: Arguments, kinds: Sequence[Kind]) -> None:
    for value in values:
        if value.kind not in kinds and value.kind is not Kind.NULL:
            raise differs(f"{function} of {value.kind.value}", "it is not translated")


def _count(function: str, values: Arguments, least: int, most: int | None = None) -> None:
    if not least <= len(values) <= (least if most is None else most):
        raise differs(f"{function} with {len(values)} arguments", "it is not translated")


def _simple(template: str, kind: Kind | None, *kinds: Sequence[Kind]) -> Translate:
    """With exactly these arguments. The kind is that of the first one if it is None."""

    def translate(function: str, values: Arguments) -> Value:
        _count(function, values, len(kinds))
        for value, allowed in zip(values, kinds, strict=True):
            _only(function, [value], allowed)
        sql = template.format(*(value.sql for value in values))
        return Value(sql=sql, kind=kind or values[0].kind)

    return translate


def _changed_case(template: str) -> Translate:
    def translate(function: str, values: Arguments) -> Value:
        _count(function, values, 1)
        _only(function, values, _TEXT)
        return Value(sql=template.format(same_case(values[0])), kind=Kind.TEXT)

    return translate


def _part(part: str) -> Translate:
    def translate(function: str, values: Arguments) -> Value:
        _count(function, values, 1)
        return part_of_time(part, values[0])

    return translate


def _named_part(function: str, values: Arguments) -> Value:
    _count(function, values, 2)
    return part_of_time(_literal(function, values[0]).casefold(), values[1])


def _date_trunc(function: str, values: Arguments) -> Value:
    _count(function, values, 2)
    unit, value = _literal(function, values[0]).casefold(), values[1]
    _only(function, [value], TIMES)
    if unit not in _UNITS:
        raise differs(f"{function} to `{unit[:30]}`", "it is not translated")
    truncated = Value(sql=f"date_trunc({text_literal(unit)}, {value.sql})", kind=Kind.ZONED)
    return cast(truncated, Kind.ZONED if value.kind is Kind.ZONED else Kind.TIMESTAMP)


def _strftime(function: str, values: Arguments) -> Value:
    _count(function, values, 2)
    _only(function, values[:1], TIMES)
    form, pattern = _literal(function, values[1]), ""
    letters = iter(form)
    for letter in letters:
        if letter != "%" and letter not in _PLAIN_IN_FORMATS:
            pattern += f"'{letter}'" if letter != "'" else "''"
        elif letter != "%":
            pattern += letter
        else:
            code = next(letters, "")
            if code not in _FORMATS:
                raise differs(f"%{code} in {function}", "it is not translated")
            pattern += _FORMATS[code]
    return Value(sql=f"date_format({values[0].sql}, {text_literal(pattern)})", kind=Kind.TEXT)


def _date_diff(function: str, values: Arguments) -> Value:
    _count(function, values, 3)
    _only(function, values[1:], TIMES)
    if _literal(function, values[0]).casefold() not in ("day", "days"):
        raise differs(f"{function} of something other than days", "it is not translated")
    first, second = (cast(value, Kind.DATE) for value in values[1:])
    return Value(sql=f"datediff({second.sql}, {first.sql})", kind=Kind.INTEGER)


def _substring(function: str, values: Arguments) -> Value:
    _count(function, values, 2, 3)
    _only(function, values[:1], _TEXT)
    for position, least in zip(values[1:], (1, 0), strict=False):
        if position.number is None or position.number < least:
            raise differs(
                f"{function} from a position before 1 or one that is computed",
                "the engines count differently",
            )
    return Value(sql=f"substring({', '.join(value.sql for value in values)})", kind=Kind.TEXT)


def _side(function: str, values: Arguments) -> Value:
    _count(function, values, 2)
    _only(function, values[:1], _TEXT)
    if values[1].number is None or values[1].number < 0:
        raise differs(
            f"{function} with a length that is negative or computed", "the engines count differently"
        )
    return Value(sql=f"{function.lower()}({values[0].sql}, {values[1].sql})", kind=Kind.TEXT)


def _searching(template: str, kind: Kind) -> Translate:
    """The second argument is a text that is not empty."""

    def translate(function: str, values: Arguments) -> Value:
        _count(function, values, template.count("{"))
        _only(function, values, _TEXT)
        if not _literal(function, values[1]):
            raise differs(f"{function} of an empty text", "the engines differ there")
        return Value(sql=template.format(*(value.sql for value in values)), kind=kind)

    return translate


def _concat(function: str, values: Arguments) -> Value:
    _count(function, values, 1, 1000)
    _only(function, values, _TEXT)
    parts = [Value(sql=f"coalesce({value.sql}, '')", kind=Kind.TEXT, text=value.text) for value in values]
    return Value(sql=joined(parts, "concat({0})"), kind=Kind.TEXT)


def _replaced(function: str, values: Arguments) -> Value:
    value = _REPLACE(function, values)
    old, new = _literal(function, values[1]), _literal(function, values[2])
    if len(new) > len(old) * _MOST_GROWTH:
        raise differs(f"{function} by a text that is much longer", "it may need more memory than there is")
    return value


def _first_of(template: str) -> Translate:
    """Of arguments of one kind."""

    def translate(function: str, values: Arguments) -> Value:
        _count(function, values, 2, 1000)
        same, kind = unified(values, function)
        if kind not in ORDERED:
            raise differs(f"{function} of a value that is {kind.value}", "it is not translated")
        return Value(sql=template.format(", ".join(value.sql for value in same)), kind=kind)

    return translate


def _coalesce(function: str, values: Arguments) -> Value:
    _count(function, values, 1, 1000)
    same, kind = unified(values, function)
    return Value(sql=f"coalesce({', '.join(value.sql for value in same)})", kind=kind)


def _nullif(function: str, values: Arguments) -> Value:
    _count(function, values, 2)
    same, kind = unified(values, function)
    return Value(
        sql=f"nullif({same[0].sql}, {same[1].sql})", kind=kind if kind is not Kind.NULL else values[0].kind
    )


def _round(function: str, values: Arguments) -> Value:
    _count(function, values, 1, 2)
    _only(function, values, NUMBERS)
    digits = values[1].number if len(values) == 2 else 0
    if digits is None or not -15 <= digits <= 15:
        raise differs(f"{function} to a number of digits that is computed or large", "it is not translated")
    value = values[0]
    if value.kind is Kind.DOUBLE:
        return Value(sql=rounded_double(value.sql, digits), kind=Kind.DOUBLE)
    if digits < 0:
        raise differs(f"{function} to tens of an exact number", "the engines differ in the type")
    return Value(sql=f"round({value.sql}, {digits})", kind=value.kind)


def _whole(function: str, values: Arguments) -> Value:
    """FLOOR and CEIL: of doubles, Spark's are integers, which are not large enough for all of them."""
    _count(function, values, 1)
    _only(function, values, NUMBERS)
    value = values[0]
    called = "floor" if function.lower() == "floor" else "ceil"
    if value.kind is not Kind.DOUBLE:
        return Value(sql=f"{called}({value.sql})", kind=value.kind)
    small = _with_sign(f"CAST({called}({value.sql}) AS DOUBLE)", value.sql)
    return Value(
        sql=f"CASE WHEN abs({value.sql}) < 4e15D THEN {small} ELSE {value.sql} END", kind=Kind.DOUBLE
    )


def _literal(function: str, value: Value) -> str:
    if value.text is None:
        raise differs(f"{function} with an argument that is not a literal text", "it is not translated")
    return value.text


_TEXT: Final = (Kind.TEXT,)
_REPLACE: Final = _searching("replace({0}, {1}, {2})", Kind.TEXT)
_MOST_GROWTH: Final = 8
_WHOLE: Final = (Kind.INTEGER,)

FUNCTIONS: Final[dict[str, Translate]] = {
    "abs": _simple("abs({0})", None, NUMBERS),
    "ceil": _whole,
    "ceiling": _whole,
    "char_length": _simple("char_length({0})", Kind.INTEGER, _TEXT),
    "character_length": _simple("char_length({0})", Kind.INTEGER, _TEXT),
    "coalesce": _coalesce,
    "concat": _concat,
    "contains": _searching("contains({0}, {1})", Kind.BOOLEAN),
    "current_date": _simple("current_date()", Kind.DATE),
    "date_diff": _date_diff,
    "date_part": _named_part,
    "date_trunc": _date_trunc,
    "datediff": _date_diff,
    "datepart": _named_part,
    "datetrunc": _date_trunc,
    "ends_with": _searching("endswith({0}, {1})", Kind.BOOLEAN),
    "epoch_ms": _simple("unix_millis(CAST({0} AS TIMESTAMP))", Kind.INTEGER, TIMES),
    "floor": _whole,
    "get_current_timestamp": _simple("current_timestamp()", Kind.ZONED),
    "greatest": _first_of("greatest({0})"),
    "ifnull": _coalesce,
    "instr": _searching("instr({0}, {1})", Kind.INTEGER),
    "lcase": _changed_case("lower({0})"),
    "least": _first_of("least({0})"),
    "left": _side,
    "len": _simple("char_length({0})", Kind.INTEGER, _TEXT),
    "length": _simple("char_length({0})", Kind.INTEGER, _TEXT),
    "lower": _changed_case("lower({0})"),
    "ltrim": _simple("ltrim({0})", Kind.TEXT, _TEXT),
    "md5": _simple("md5({0})", Kind.TEXT, _TEXT),
    "now": _simple("current_timestamp()", Kind.ZONED),
    "nullif": _nullif,
    "prefix": _searching("startswith({0}, {1})", Kind.BOOLEAN),
    "replace": _replaced,
    "right": _side,
    "round": _round,
    "rtrim": _simple("rtrim({0})", Kind.TEXT, _TEXT),
    "sha256": _simple("sha2({0}, 256)", Kind.TEXT, _TEXT),
    "starts_with": _searching("startswith({0}, {1})", Kind.BOOLEAN),
    "strftime": _strftime,
    "strpos": _searching("instr({0}, {1})", Kind.INTEGER),
    "substr": _substring,
    "substring": _substring,
    "suffix": _searching("endswith({0}, {1})", Kind.BOOLEAN),
    "today": _simple("current_date()", Kind.DATE),
    "trim": _simple("trim({0})", Kind.TEXT, _TEXT),
    "ucase": _changed_case("upper({0})"),
    "upper": _changed_case("upper({0})"),
    **{part: _part(part) for part in (*_PARTS, *_PARTS_OF_TIMES)},
}


def _summed(function: str, values: Arguments) -> Value:
    _count(function, values, 1)
    _only(function, values, NUMBERS)
    return Value(sql=f"sum({values[0].sql})", kind=values[0].kind)


def _average(function: str, values: Arguments) -> Value:
    _count(function, values, 1)
    _only(function, values, NUMBERS)
    return Value(sql=f"avg({cast(values[0], Kind.DOUBLE).sql})", kind=Kind.DOUBLE)


def _counted(function: str, values: Arguments) -> Value:
    _count(function, values, 0, 1)
    return Value(sql=f"count({values[0].sql if values else '*'})", kind=Kind.INTEGER)


def _extreme(function: str, values: Arguments) -> Value:
    _count(function, values, 1)
    _only(function, values, tuple(ORDERED))
    return Value(sql=f"{function.lower()}({values[0].sql})", kind=values[0].kind)


AGGREGATES: Final[dict[str, Translate]] = {
    "avg": _average,
    "bool_and": _simple("bool_and({0})", Kind.BOOLEAN, (Kind.BOOLEAN,)),
    "bool_or": _simple("bool_or({0})", Kind.BOOLEAN, (Kind.BOOLEAN,)),
    "count": _counted,
    "count_if": _simple("count_if({0})", Kind.INTEGER, (Kind.BOOLEAN,)),
    "count_star": _counted,
    "max": _extreme,
    "mean": _average,
    "min": _extreme,
    "sum": _summed,
}


def _offset(function: str, values: Arguments) -> Value:
    _count(function, values, 1, 2)
    if len(values) == 2 and values[1].number is None:
        raise differs(f"{function} by a computed number of rows", "it is not translated")
    return Value(sql=f"{function.lower()}({', '.join(value.sql for value in values)})", kind=values[0].kind)


def _ntile(function: str, values: Arguments) -> Value:
    _count(function, values, 1)
    if not values[0].number or values[0].number < 1:
        raise differs(f"{function} of a computed number", "it is not translated")
    return Value(sql=f"ntile({values[0].sql})", kind=Kind.INTEGER)


WINDOW_FUNCTIONS: Final[dict[str, Translate]] = {
    **{name: AGGREGATES[name] for name in ("avg", "count", "max", "mean", "min", "sum")},
    "cume_dist": _simple("cume_dist()", Kind.DOUBLE),
    "dense_rank": _simple("dense_rank()", Kind.INTEGER),
    "first_value": _simple("first_value({0})", None, tuple(Kind)),
    "lag": _offset,
    "last_value": _simple("last_value({0})", None, tuple(Kind)),
    "lead": _offset,
    "ntile": _ntile,
    "percent_rank": _simple("percent_rank()", Kind.DOUBLE),
    "rank": _simple("rank()", Kind.INTEGER),
    "row_number": _simple("row_number()", Kind.INTEGER),
}
