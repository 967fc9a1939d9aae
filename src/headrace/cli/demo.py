"""`headrace demo`: the platform with traffic on it, how far the events have got, and the answer to a query.

It ends with the findings of `headrace reconcile`; if anything is missing or double, the exit code is 1. The
last line on standard output is a JSON object with the counts and the latency, for scripts to check.
Ctrl-C stops the traffic and waits until everything has arrived; a second one ends at once.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from headrace.assembly.demo import Demo, Flow
from headrace.assembly.platform_lock import check_free
from headrace.assembly.preparation import prepare
from headrace.assembly.supervisor import Supervisor
from headrace.cli.platform_view import PlatformView, doors
from headrace.cli.reconcile import EXIT_DIFFERENT, print_finding, summary
from headrace.core.settings import Settings
from headrace.query.sql import QueryResult
from headrace.reconcile.findings import Finding

# On a pipe, print one line for every so many looks (two a second), so that a log stays readable.
_PLAIN_EVERY: Final = 10
_EXIT_KILLED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_demo(settings: Settings, *, seconds: float | None, events_per_second: int) -> None:
    """Start the platform, send events, show them arriving, stop, print the counts."""
    check_free(settings)
    prepare(settings, progress=True)
    console = Console()
    platform_view = PlatformView(settings, console)
    supervisor = Supervisor(settings, on_change=platform_view.changed, whole=True)
    with _ending(supervisor) as ending:
        with platform_view:
            if not supervisor.start():
                supervisor.wait()
                raise typer.Exit(_EXIT_KILLED)
        ending.platform_is_up = True
        try:
            final, answer, findings = _watch(
                settings, console, ending.asked, seconds=seconds, events_per_second=events_per_second
            )
        finally:
            supervisor.stop()
    console.print(_result_table(answer))
    for finding in findings:
        print_finding(console, finding)
    console.print(summary(findings), soft_wrap=True)
    counts = {
        "accepted": final.accepted,
        "avro": final.avro,
        "dead_letters": final.dead_letters,
        "lake": final.lake,
        "missing": sum(len(finding.missing) for finding in findings),
        "double": sum(len(finding.doubles) for finding in findings),
        "waiting": sum(finding.waiting for finding in findings),
        "latency_ms": {name: final.overall_latency_ms[name] for name in ("p50", "p90", "p99")},
    }
    # Not with rich, which would wrap it.
    print(json.dumps(counts), flush=True)
    if not all(finding.is_clean for finding in findings):
        raise typer.Exit(EXIT_DIFFERENT)


def _watch(
    settings: Settings,
    console: Console,
    ending: threading.Event,
    *,
    seconds: float | None,
    events_per_second: int,
) -> tuple[Flow, QueryResult, list[Finding]]:
    with _FlowView(settings, console) as view:
        demo = Demo(settings, events_per_second=events_per_second, on_flow=view.show)
        try:
            demo.begin()
            demo.run(seconds=seconds, stopping=ending.is_set)
            final = demo.finish()
            return final, demo.answer(), demo.reconcile()
        finally:
            demo.close()


class _Ending:
    """A request to end: the first signal makes it (and stops a platform that is still starting), the next
    kills.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.asked = threading.Event()
        self.platform_is_up = False
        self._supervisor = supervisor

    def take(self, _number: int, _frame: object) -> None:
        if self.asked.is_set():
            self._supervisor.request_stop(at_once=True)
            raise typer.Exit(_EXIT_KILLED)
        self.asked.set()
        if not self.platform_is_up:
            self._supervisor.request_stop()


@contextmanager
def _ending(supervisor: Supervisor) -> Iterator[_Ending]:
    ending = _Ending(supervisor)
    before = {number: signal.signal(number, ending.take) for number in _SIGNALS}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _FlowView:
    """How far the events have got: a live table on a terminal, an occasional line elsewhere."""

    def __init__(self, settings: Settings, console: Console) -> None:
        self._settings = settings
        self._console = console
        self._looks = 0
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def show(self, flow: Flow) -> None:
        if self._live is not None:
            self._live.update(self._table(flow), refresh=True)
            return
        if self._looks % _PLAIN_EVERY == 0:
            print(self._line(flow), flush=True)
        self._looks += 1

    def __enter__(self) -> _FlowView:
        if self._live is not None:
            self._live.start()
        else:
            print(doors(self._settings), flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def _table(self, flow: Flow) -> Table:
        table = Table(caption=f"{doors(self._settings)} · Ctrl-C stops", box=None, padding=(0, 3, 0, 0))
        for name in ("accepted", "in Avro", "dead letters", "in the lake"):
            table.add_column(name, justify="right")
        for name in ("POST → Avro, ms", "POST → sink, ms"):
            table.add_column(name)
        table.add_row(
            f"{flow.accepted:,}",
            f"{flow.avro:,}",
            f"{flow.dead_letters:,}",
            f"{flow.lake:,}",
            _percentiles(flow.avro_latency_ms),
            _percentiles(flow.latency_ms),
        )
        return table

    def _line(self, flow: Flow) -> str:
        return (
            f"accepted {flow.accepted}  avro {flow.avro}  dead letters {flow.dead_letters}  "
            f"lake {flow.lake}  POST to Avro {_percentiles(flow.avro_latency_ms)} ms  "
            f"POST to sink {_percentiles(flow.latency_ms)} ms"
        )


def _percentiles(latency: dict[str, float | None]) -> str:
    shown = {name: latency[name] for name in ("p50", "p90", "p99")}
    return "  ".join(f"{name} {'-' if value is None else f'{value:.0f}'}" for name, value in shown.items())


def _result_table(answer: QueryResult) -> Table:
    table = Table(title="ListingView clicks, today and yesterday", min_width=46)
    for name in answer.columns:
        table.add_column(name, justify="right")
    for row in answer.rows:
        table.add_row(*(str(value) for value in row))
    return table
