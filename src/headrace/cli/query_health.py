"""What `headrace status` shows of the queries: as the gateway's `GET /health` tells it.

Invariant: a gateway that does not answer is not waited for longer than `ANSWER_SECONDS`. Never changes
anything.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from headrace.assembly.platform_state import PlatformState
from headrace.assembly.processes.probing import reachable
from headrace.cli.platform_view import duration
from headrace.core.settings import Settings

ANSWER_SECONDS: Final = 3.0
_COLOURS: Final = {"RUNNING": "green", "FAILED": "red", "UNKNOWN": "red", "starved": "red", "failing": "red"}


def asked_health(settings: Settings) -> dict[str, Any] | None:
    """The gateway's answer, whatever its status; None if there is none."""
    try:
        host = reachable(settings.host)
        connection = http.client.HTTPConnection(host, settings.console_port, timeout=ANSWER_SECONDS)
        with closing(connection):
            connection.request("GET", "/health")
            content = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return content if isinstance(content, dict) and {"queries", "problems"} <= content.keys() else None


def query_table(queries: Iterable[dict[str, Any]]) -> Table:
    """One row per query."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("query", "state", "mode"):
        table.add_column(name, no_wrap=True)
    table.add_column("behind", justify="right", no_wrap=True)
    table.add_column("detail", overflow="fold")
    for query in queries:
        state = _state(query)
        table.add_row(
            query["query"],
            Text(state, style=_COLOURS.get(state, "dim")),
            query["mode"],
            _behind(query),
            Text(_detail(query)),
        )
    return table


def what_is_wrong(state: PlatformState, health: dict[str, Any] | None) -> list[str]:
    """One line for each problem, with its remedy."""
    if not state.answers:
        return [
            f"The supervisor (pid {state.pid}) does not answer, so the processes may not be as shown. "
            f"If it was stopped by a signal, `kill -CONT {state.pid}` lets it go on."
        ]
    problems = health["problems"] if health is not None else []
    return [f"{each['problem']} {each['remedy']}".strip() for each in problems]


def _state(query: dict[str, Any]) -> str:
    if query["state"] != "RUNNING":
        return str(query["state"])
    if query["failures"] > 1:
        return "failing"
    return "starved" if query["starved"] else "RUNNING"


def _behind(query: dict[str, Any]) -> str:
    records = query["behind_records"]
    if records is None:
        return ""
    return f"{duration(query['behind_ms'] / 1000)}, {records:,} records" if records else "0"


def _detail(query: dict[str, Any]) -> str:
    gaps = [
        f"gap: {gap['topic']}/{gap['partition']}, offsets {gap['from']} to {gap['to'] - 1} were gone"
        for gap in query["gaps"]
    ]
    return "; ".join(text for text in (query["message"], query["starved"], *gaps) if text)
