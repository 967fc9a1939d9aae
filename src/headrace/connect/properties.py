"""Java's properties files: `name = value` a line, as Kafka's tools read them.

Comments begin with `#` or `!`; a name ends at `=`, `:` or a blank; a backslash at the end of a line joins it
with the next one; `\\t`, `\\n`, `\\uXXXX` and escaped characters stand for what they say. The last value of a
name wins. Files are UTF-8.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


def read_properties(path: Path) -> dict[str, str]:
    """Raises invalid_setting if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise HeadraceError("invalid_setting", f"The file {path} cannot be read: {reason}.") from error
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        pair = _PAIR.match(line)
        if pair is not None:
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    joined: str | None = None
    for each in re.split(r"\r\n|\n|\r", text):
        line = each.lstrip(" \t\f")
        if joined is None and (not line or line[0] in "#!"):
            continue
        whole = (joined or "") + line
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            joined = whole[:-1]
        else:
            lines.append(whole)
            joined = None
    return [*lines, joined] if joined else lines


def _unescaped(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        said = found[1]
        return chr(int(said[1:], 16)) if len(said) > 1 else _NAMED.get(said, said)

    return _ESCAPE.sub(replaced, text)
