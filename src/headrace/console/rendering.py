"""Turns values into text on a page: templates, numbers, times, and the values of other people's messages.

Invariants: everything inserted into a page is escaped (Jinja's autoescape is on for all templates, and
`message_value` escapes before it adds its own tags); an undefined name in a template is an error, not a
blank. Never marks an outside value as safe.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from headrace.console.assets import BUILD_COMMAND, CONSOLE_DIR, AssetAddresses, missing_assets

# Pages refresh every second, so large messages are cut here; the JSON of the messages has them in full.
LONGEST_VALUE: Final = 6_000
NOTHING: Final = "\N{EN DASH}"

_JSON_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*")(?P<colon>\s*:)?|(?P<literal>\b(?:true|false|null)\b)|(?P<number>-?\b\d[\d.eE+-]*)"""
)


class Renderer:
    """Renders the console's templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(CONSOLE_DIR / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            count=count,
            rate=rate,
            size=size,
            milliseconds=milliseconds,
            moment=moment,
            message_value=message_value,
        )
        self._environment.globals.update(
            asset=AssetAddresses().address, missing_assets=missing_assets(), build_command=BUILD_COMMAND
        )

    def render(self, template: str, **context: Any) -> str:
        return self._environment.get_template(template).render(**context)


def count(value: int) -> str:
    return f"{value:,}"


def size(value: int | None) -> str:
    """Bytes in the most readable unit; empty if unknown."""
    if value is None:
        return NOTHING
    amount = float(value)
    units = ["B", "kB", "MB", "GB"]
    while amount >= 999.5 and len(units) > 1:
        amount /= 1_000
        units.pop(0)
    return f"{amount:.3g} {units[0]}" if amount < 999.5 else f"{amount:,.0f} {units[0]}"


def rate(value: float) -> str:
    """Events per second, with as many digits as are meaningful."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value >= 10_000:
        return f"{value / 1000:,.1f} s"
    if value >= 1_000:
        return f"{value / 1000:.2f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def moment(milliseconds_since_epoch: int) -> str:
    """A time in UTC to the millisecond, or the number itself if no date can hold it (producers send any)."""
    try:
        at = datetime.fromtimestamp(milliseconds_since_epoch / 1000, tz=UTC)
    except (OverflowError, OSError, ValueError):
        return str(milliseconds_since_epoch)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds_since_epoch % 1000:03d}"


def message_value(value: object) -> Markup:
    """A decoded value: formatted and coloured as JSON if it is structured, unchanged if not."""
    if value is None:
        return Markup('<span class="token-literal">null</span>')
    if isinstance(value, str):
        text, rest = _cut(value)
        return Markup("{}{}").format(text, rest)
    try:
        text, rest = _cut(json.dumps(value, indent=2, ensure_ascii=False, default=_as_json))
    except (RecursionError, ValueError):
        return Markup('<span class="cut">nested too deeply to show</span>')
    return _coloured(text) + rest


def _cut(text: str) -> tuple[str, Markup]:
    if len(text) <= LONGEST_VALUE:
        return text, Markup("")
    note = Markup('<span class="cut">… {} more characters</span>').format(count(len(text) - LONGEST_VALUE))
    return text[:LONGEST_VALUE], note


def _as_json(value: object) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


def _coloured(text: str) -> Markup:
    parts: list[Markup] = []
    end = 0
    for token in _JSON_TOKEN.finditer(text):
        parts.append(escape(text[end : token.start()]))
        kind = "name" if token["colon"] is not None else token.lastgroup
        shown, colon = (token["string"], token["colon"]) if token["colon"] is not None else (token[0], "")
        parts.append(Markup('<span class="token-{}">{}</span>{}').format(kind, shown, colon))
        end = token.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)
