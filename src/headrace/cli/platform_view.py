"""Shows the platform in a terminal: a table of its processes, one line each.

`headrace up` shows it live, `headrace status` once. Invariants: on a terminal the table is redrawn in place;
elsewhere each change is one plain line, so that logs and pipes read well. Never changes anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.assembly.platform_state import Phase, ProcessState
from headrace.core.settings import Settings

COLOURS: Final[dict[Phase, str]] = {
    "waiting": "dim",
    "starting": "yellow",
    "running": "green",
    "stuck": "red",
    "failing": "red",
    "restarting": "red",
    "stopping": "yellow",
    "stopped": "dim",
}


def process_table(states: Iterable[ProcessState], *, now: float, wrap: bool) -> Table:
    """One row per process; a detail that is too long is wrapped, or cut to keep it on one line."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("process", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("for", "pid", "restarts"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("detail", no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
    for state in states:
        table.add_row(
            state.name,
            Text(state.state, style=COLOURS[state.state]),
            duration(now - state.since),
            str(state.pid or ""),
            str(state.restarts or ""),
            Text(state.detail),
        )
    return table


def plain_line(state: ProcessState) -> str:
    """The same as a line of text."""
    pid = f" (pid {state.pid})" if state.pid is not None else ""
    detail = f": {state.detail}" if state.detail else ""
    return f"{state.name} {state.state}{pid}{detail}"


def duration(seconds: float) -> str:
    """`42s`, `3m 7s`, `5h 2m`, `12d 3h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h"


def doors(settings: Settings) -> str:
    """The addresses to use once everything is running."""
    return (
        f"events http://{settings.host}:{settings.ingest_port}/events · "
        f"console http://{settings.host}:{settings.console_port} · log {settings.bootstrap}"
    )


class PlatformView:
    """Shows the platform while it runs: pass `changed` to the supervisor, and enter it as a context."""

    def __init__(self, settings: Settings, console: Console | None = None) -> None:
        self._settings = settings
        self._states: dict[str, ProcessState] = {}
        self._console = console or Console()
        self._all_running = False
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._render, console=self._console, refresh_per_second=4, transient=False
            )

    def changed(self, state: ProcessState) -> None:
        """Called by the supervisor on its own thread."""
        # A new dictionary each time, because the table may be being drawn from the old one.
        self._states = self._states | {state.name: state}
        if self._live is not None:
            return
        self._say(plain_line(state))
        all_running = all(each.state == "running" for each in self._states.values())
        if all_running and not self._all_running:
            self._say(f"ready: {doors(self._settings)}")
        self._all_running = all_running

    def __enter__(self) -> PlatformView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.refresh()
            self._live.stop()

    def _say(self, line: str) -> None:
        # Not with rich, which would wrap it; flushed, because the reader of a pipe wants it now.
        print(line, file=self._console.file, flush=True)

    def _render(self) -> RenderableType:
        states = tuple(self._states.values())
        phases = {state.state for state in states}
        if phases == {"running"}:
            hint = Text(f"{doors(self._settings)} · Ctrl-C stops", style="dim")
        elif phases & {"stopping", "stopped"}:
            hint = Text("Stopping; Ctrl-C again kills at once.", style="dim")
        else:
            hint = Text(f"Logs: {self._settings.log_dir}", style="dim")
        return Group(process_table(states, now=time.time(), wrap=False), hint)
