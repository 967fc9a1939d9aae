"""The command `connect-standalone WORKER_FILE [CONNECTOR_FILE …]`, as Kafka has it. Contains no logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError

_USAGE: Final = "Usage: connect-standalone WORKER.properties [CONNECTOR.properties | CONNECTOR.json …]"
_EXIT_USAGE: Final = 1
_EXIT_ERROR: Final = 3


def main() -> None:
    """The entry point of `connect-standalone` and `connect-standalone.sh`. Exit codes are Kafka's."""
    arguments = sys.argv[1:]
    if not arguments or any(each.startswith("-") for each in arguments):
        print(_USAGE, file=sys.stderr)
        sys.exit(0 if "-h" in arguments or "--help" in arguments else _EXIT_USAGE)
    from headrace.assembly.standalone_connect import run_standalone  # noqa: PLC0415 - for a quick --help

    try:
        run_standalone(Path(arguments[0]), [Path(each) for each in arguments[1:]], Path.cwd())
    except HeadraceError as error:
        print(f"connect-standalone: {error}", file=sys.stderr)
        sys.exit(_EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
