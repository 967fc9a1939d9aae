"""The entry point of every supervised process: `python -m headrace.assembly.run_process NAME`.

Owns what they all share: settings from the environment, logging, ending with the supervisor, and reporting
failures. Invariants: a HeadraceError becomes one line (message and remedy) and an announcement `failed`,
never a traceback; a failure that a restart cannot fix exits with `EXIT_HOPELESS`, so that the supervisor does
not keep retrying. Knows nothing of what a process does: that is in `headrace.assembly.processes.<NAME>`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.assembly.announcements import announce
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.supervisor_watch import end_with_supervisor
from headrace.broker.lean_start import without_test_tools
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, load_environment

EXIT_FAILED: Final = 1
# EX_CONFIG of sysexits.h: the machine or the settings are wrong, and waiting will not help.
EXIT_HOPELESS: Final = 78
HOPELESS: Final = frozenset(
    {
        "artifact_damaged",
        "artifact_unknown_group",
        "artifacts_unreachable",
        "assets_not_built",
        "invalid_setting",
        "java_missing",
        "java_too_old",
        "unknown_setting",
    }
)
_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run_process", description="Run one process of the platform.")
    parser.add_argument("name", help="log, ingest, gateway, query, connect or pipeline")
    parser.add_argument(
        "--module", default="", help="module with run(settings), if not named after the process"
    )
    parser.add_argument("--supervisor-pipe", type=int, help="read end of the supervisor's pipe")
    given = parser.parse_args(arguments)
    configure_logging()
    if given.supervisor_pipe is not None:
        end_with_supervisor(given.supervisor_pipe)
    try:
        settings = load_environment(os.environ, folder=Path.cwd())
    except HeadraceError as error:
        _log.error("%s", error)
        return EXIT_HOPELESS
    return _run(given.name, given.module or f"headrace.assembly.processes.{given.name}", settings)


def _run(name: str, module: str, settings: Settings) -> int:
    announce(settings, name, state="starting")
    try:
        with without_test_tools():
            process = importlib.import_module(module)
        return int(process.run(settings))
    except HeadraceError as error:
        _log.error("%s", error)
        announce(settings, name, state="failed", detail=str(error))
        return EXIT_HOPELESS if error.code in HOPELESS else EXIT_FAILED
    except Exception as error:
        _log.exception("%s crashed", name)
        announce(settings, name, state="failed", detail=f"{type(error).__name__}: {error}")
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
