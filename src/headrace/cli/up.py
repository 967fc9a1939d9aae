"""`headrace up`: the whole platform in the foreground, until Ctrl-C or `headrace down`.

Invariants: the first SIGINT, SIGTERM or SIGHUP drains, a SIGINT after that kills at once; the exit code is 0
after a drain. Never daemonises: an init system, or `&`, does that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import typer

from headrace.assembly.platform_lock import check_free
from headrace.assembly.preparation import prepare
from headrace.assembly.process_specs import PROCESSES, ProcessSpec
from headrace.assembly.supervisor import Supervisor
from headrace.cli.platform_view import PlatformView
from headrace.core.settings import Settings

EXIT_KILLED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_platform(settings: Settings) -> None:
    """Download what is missing, then run until told to stop."""
    check_free(settings)
    prepare(settings, progress=True)
    run_platform(settings)


def run_platform(settings: Settings, specs: Iterable[ProcessSpec] = PROCESSES) -> None:
    """Run until told to stop."""
    view = PlatformView(settings)
    supervisor = Supervisor(settings, on_change=view.changed, specs=specs)
    with stop_on_signals(supervisor) as killed, view:
        supervisor.start()
        supervisor.wait()
    if killed.is_set():
        raise typer.Exit(EXIT_KILLED)


@contextmanager
def stop_on_signals(supervisor: Supervisor) -> Iterator[threading.Event]:
    """Within: the first signal requests a drain; a later Ctrl-C requests a kill and sets the event."""
    killed = threading.Event()
    asked = False

    def take(number: int, _frame: object) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            killed.set()
            supervisor.request_stop(at_once=True)
        asked = True
        supervisor.request_stop()

    # Started with `nohup`, we are meant to outlive the terminal.
    numbers = [
        number
        for number in _SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, take) for number in numbers}
    try:
        yield killed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
