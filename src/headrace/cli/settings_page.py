"""Generates `docs/settings.md` from the table: `python -m headrace.cli.settings_page docs/settings.md`.

Invariant: the page is a pure function of the table; a test fails if the file in the repository differs from
it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.core.settings import SettingDescription, describe

_INTRODUCTION = """# Settings

<!-- Generated from headrace/core/settings_table.py: python -m headrace.cli.settings_page docs/settings.md -->

Set a setting with a flag, an environment variable, or in `headrace.toml`; they take precedence in this order.
`headrace settings` prints the values in effect and where each comes from. The error for an unknown name
suggests the closest one. Relative paths in `headrace.toml` are relative to the folder of that file, all
others to the working directory.

`headrace.toml` is read from the working directory, or from the path given with `--config`:

```toml
data_dir = "headrace-data"
ingest_port = 8080
```
"""


def settings_page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *(_section(row) for row in describe())])


def _section(row: SettingDescription) -> str:
    facts = [f"flag `{row.flag}`", f"environment `{row.environment}`", _kind(row), _default(row)]
    return f"## `{row.name}`\n\n{row.help}\n\n" + "".join(f"- {fact}\n" for fact in facts)


def _kind(row: SettingDescription) -> str:
    kind = {int: "a whole number", Path: "a path", str: "text"}[row.kind]
    if row.choices:
        return "one of " + ", ".join(f"`{choice}`" for choice in row.choices)
    if row.shape:
        return row.shape
    if row.minimum is not None and row.maximum is not None:
        return f"{kind} from {row.minimum} to {row.maximum}"
    if row.minimum is not None:
        return f"{kind}, at least {row.minimum}"
    return kind


def _default(row: SettingDescription) -> str:
    return f"default `{row.default}`" if str(row.default) else "empty by default"


def main(arguments: Sequence[str]) -> int:
    (path,) = arguments
    Path(path).write_text(settings_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
