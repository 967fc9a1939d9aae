"""`headrace status` and `headrace down`: show and stop a platform that is running elsewhere.

Invariants: both identify the platform by the lock of its data folder, never by a process name; `down` returns
only when the supervisor is gone. Never signals a process that does not hold the lock.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Final

from rich.console import Console

from headrace.assembly.platform_lock import holder
from headrace.assembly.platform_state import read_state
from headrace.assembly.process_specs import PROCESSES
from headrace.cli.platform_view import duration, process_table
from headrace.cli.query_health import asked_health, query_table, what_is_wrong
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

EXIT_ALL_RUNNING: Final = 0
EXIT_NOT_ALL_RUNNING: Final = 1
EXIT_NOT_RUNNING: Final = 3
_LOOK_SECONDS: Final = 0.1
_GATEWAY: Final = "gateway"
# Longer than the grace periods of all processes: killing and reporting take time too.
_MARGIN_SECONDS: Final = 30.0


def show_status(settings: Settings, *, as_json: bool) -> int:
    """Print the platform's state; the exit code reflects it."""
    state = read_state(settings)
    if state is None:
        if as_json:
            print(json.dumps({"running": False, "data_dir": str(settings.data_dir)}))
        else:
            print(f"No platform is running on {settings.data_dir}.")
        return EXIT_NOT_RUNNING
    has_gateway = any(process.name == _GATEWAY for process in state.processes)
    health = asked_health(settings) if has_gateway else None
    if as_json:
        # Not with rich, which wraps long lines and would break the JSON.
        queries = {"queries": health["queries"], "problems": health["problems"]} if health else {}
        print(json.dumps({"running": True} | state.as_json() | queries))
    else:
        now = time.time()
        since = f", up for {duration(now - state.since)}" if state.since else ""
        console = Console()
        console.print(f"Platform on {state.data_dir}: supervisor pid {state.pid}{since}", soft_wrap=True)
        console.print(process_table(state.processes, now=now, wrap=True))
        if health is None and has_gateway:
            console.print(
                f"Queries are unknown: the gateway does not answer on port {settings.console_port}."
            )
        elif health is not None and health["queries"]:
            console.print(query_table(health["queries"]))
        for line in what_is_wrong(state, health):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    well = not has_gateway or (health is not None and not health["problems"])
    return EXIT_ALL_RUNNING if well and state.all_running else EXIT_NOT_ALL_RUNNING


def stop_platform(settings: Settings) -> None:
    """Ask the supervisor to drain, and wait until it is gone."""
    pid = holder(settings)
    if pid is None:
        raise HeadraceError(
            "not_running",
            f"No platform is running on {settings.data_dir}.",
            remedy="If it uses another folder, pass that with --data-dir.",
        )
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        # It ended between the check and the signal.
        return
    except PermissionError as error:
        raise HeadraceError(
            "process_failed",
            f"The platform on {settings.data_dir} (pid {pid}) belongs to another user.",
            remedy="Stop it as that user.",
        ) from error
    print(f"Stopping the platform on {settings.data_dir} (pid {pid}).", flush=True)
    deadline = time.monotonic() + sum(spec.grace(settings) for spec in PROCESSES) + _MARGIN_SECONDS
    while holder(settings) == pid:
        if time.monotonic() > deadline:
            raise HeadraceError(
                "process_failed",
                f"The platform on {settings.data_dir} (pid {pid}) does not stop.",
                remedy=f"See {settings.log_dir}/supervisor.log; `kill -9 {pid}` ends it with all processes.",
            )
        time.sleep(_LOOK_SECONDS)
    print("Stopped.")
