"""The entry point of the `headrace` command, and how commands report failures.

Invariants: a HeadraceError becomes one clear line on standard error and exit code 2, never a traceback;
`headrace broker` with well-formed flags starts without typer, which takes longer to import than a broker
takes to open its logs. Contains no logic.
"""

from __future__ import annotations

import sys
from typing import Final

from headrace.core.errors import HeadraceError

EXIT_ERROR: Final = 2
EXIT_INTERRUPTED: Final = 130


def main() -> None:
    """The entry point of the `headrace` command."""
    try:
        _run(sys.argv[1:])
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _run(arguments: list[str]) -> None:
    if arguments[:1] == ["broker"]:
        from headrace.cli.broker import parse_quickly, serve  # noqa: PLC0415

        values = parse_quickly(arguments[1:])
        if values is not None:
            serve(values)
            return
    from headrace.cli.app import app  # noqa: PLC0415 - see above

    app(prog_name="headrace")


if __name__ == "__main__":
    main()
