"""An answer as a chart for the terminal: bars for a category and a number, a line for a time and a number.

Invariants: every row is in the chart, or the chart says how many are not; a value is never drawn that the
answer does not have: where several rows share a column of a line, it says so and shows their mean. Pure.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.sql import QueryResult

MOST_BARS: Final = 100
HEIGHT: Final = 10
_WIDEST_LABEL: Final = 40
_NARROWEST: Final = 10
# An eighth of a block more each.
_ACROSS: Final = " ▏▎▍▌▋▊▉█"
_UP: Final = " ▁▂▃▄▅▆▇█"
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES: Final = ("DATE", "TIMESTAMP")
_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")


def chart(result: QueryResult, width: int) -> list[str]:
    """The lines of the chart, at most so wide. Raises bad_request if the answer does not fit one."""
    if len(result.columns) != 2 or not result.types[1].startswith(_NUMBERS) or result.types[1] == "UUID":
        listed = ", ".join(f"{name} {kind}" for name, kind in zip(result.columns, result.types, strict=True))
        raise HeadraceError(
            "bad_request",
            f"The answer does not fit a chart: its columns are {listed}.",
            remedy="Select two columns: a category or a time, then a number; or leave `--chart` out.",
        )
    if not result.rows:
        return ["no rows"]
    values = [_number(value) for _, value in result.rows]
    times = _times(result)
    if times is not None and len(set(times)) > 2 and any(value is not None for value in values):
        return _line(times, values, result, width)
    return _bars(
        [_label(label) for label, _ in result.rows], values, [value for _, value in result.rows], width
    )


def _bars(labels: list[str], values: list[float | None], shown: list[object], width: int) -> list[str]:
    rest = len(labels) - MOST_BARS
    labels, values, shown = labels[:MOST_BARS], values[:MOST_BARS], shown[:MOST_BARS]
    texts = ["NULL" if value is None else str(value) for value in shown]
    label_width = max(len(label) for label in labels)
    space = max(_NARROWEST, width - label_width - max(len(text) for text in texts) - 4)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    below = -min(0.0, *finite) if finite else 0.0
    above = max(0.0, *finite) if finite else 0.0
    # Numbers below zero go to the left of a common axis.
    scale = space / (below + above) if below + above > 0 else 0.0
    left = math.ceil(below * scale)
    lines = []
    for label, value, text in zip(labels, values, texts, strict=True):
        drawn = value if value is not None and math.isfinite(value) else 0.0
        lines.append(f"{label.rjust(label_width)} {_bar(drawn * scale, left)} {text}".rstrip())
    return [*lines, f"… and {rest} more rows"] if rest > 0 else lines


def _bar(length: float, left: int) -> str:
    if length < 0:
        return f"{'█' * max(1, round(-length))}".rjust(left) + "│"
    whole, eighths = divmod(round(length * 8), 8)
    bar = "█" * whole + (_ACROSS[eighths] if eighths else "")
    # A number that is small is not none.
    return f"{' ' * left}│{bar or ('▏' if length > 0 else '')}"


def _line(times: list[float], values: list[float | None], result: QueryResult, width: int) -> list[str]:
    known = [
        (at, value)
        for at, value in zip(times, values, strict=True)
        if value is not None and math.isfinite(value)
    ]
    if not known:
        return ["no numbers"]
    first, last = min(times), max(times)
    low, high = min(value for _, value in known), max(value for _, value in known)
    low = 0.0 if 0 <= low <= high / 2 else low
    margin = max(len(_short(low)), len(_short(high)))
    columns = max(_NARROWEST, min(width - margin - 2, 120))
    # If the times fit, each step between them has its own columns, all of the same width.
    distinct = sorted(set(times))
    step = min(later - earlier for earlier, later in pairwise(distinct))
    steps = round((last - first) / step) + 1
    count, wide = (steps, max(1, columns // steps)) if steps <= columns else (columns, 1)
    gathered: list[list[float]] = [[] for _ in range(count)]
    for at, value in known:
        gathered[min(count - 1, int((at - first) / (last - first) * (count - 1) + 0.5))].append(value)
    columns = count * wide
    means = [sum(value / len(each) for value in each) if each else None for each in gathered]
    # Halves, because the difference of two large numbers may be too large for a number.
    span = (high / 2 - low / 2) or 1.0
    eighths = [
        None if mean is None else max(1, round((mean / 2 - low / 2) / span * HEIGHT * 8)) for mean in means
    ]
    lines = []
    for row in range(HEIGHT, 0, -1):
        cells = "".join(
            (" " if level is None else _UP[max(0, min(8, level - (row - 1) * 8))]) * wide for level in eighths
        )
        label = _short(high) if row == HEIGHT else _short(low) if row == 1 else ""
        lines.append(f"{label.rjust(margin)} ┤{cells}".rstrip())
    by_time = sorted(zip(times, (label for label, _ in result.rows), strict=True), key=lambda each: each[0])
    begin, end = _label(by_time[0][1]), _label(by_time[-1][1])
    gap = max(1, columns - len(begin) - len(end))
    lines.append(f"{' ' * margin}  {begin}{' ' * gap}{end}")
    most = max(len(each) for each in gathered)
    if most > 1:
        lines.append(f"{' ' * margin}  each column is the mean of the rows at its time, up to {most}")
    missing = len(values) - len(known)
    if missing:
        lines.append(f"{' ' * margin}  {missing} rows without a number are not shown")
    return lines


def _times(result: QueryResult) -> list[float] | None:
    """As seconds, if every label is a time; texts count if they are written as dates."""
    if not result.types[0].startswith((*_TIMES, "VARCHAR")):
        return None
    times = [_time(label) for label, _ in result.rows]
    return [time for time in times if time is not None] if None not in times else None


def _time(label: object) -> float | None:
    if isinstance(label, str) and _ISO.fullmatch(label):
        try:
            label = datetime.fromisoformat(label)
        except ValueError:
            return None
    if isinstance(label, datetime):
        return (label if label.tzinfo is not None else label.replace(tzinfo=UTC)).timestamp()
    if isinstance(label, date):
        return datetime(label.year, label.month, label.day, tzinfo=UTC).timestamp()
    return None


def _number(value: object) -> float | None:
    match value:
        case bool() | None:
            return None
        case int() | float() | Decimal():
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
        case str():
            # How JSON has numbers that are none, such as infinity.
            return _not_finite(value)
    return None


def _not_finite(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _label(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (date, datetime)):
        text = value.isoformat()
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    text = "".join(letter if letter.isprintable() else "·" for letter in text)
    return text if len(text) <= _WIDEST_LABEL else f"{text[: _WIDEST_LABEL - 1]}…"


def _short(value: float) -> str:
    return f"{value:,.6g}"
