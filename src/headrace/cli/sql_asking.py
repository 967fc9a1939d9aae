"""A question to the query process of the running platform, and its answer as Python values.

Invariant: numbers are as exact as those that the process has sent; values that JSON has no form for (times,
bytes) stay the text that stands for them.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import httpx

from headrace.assembly.announcements import latest
from headrace.assembly.platform_state import read_state
from headrace.cli.sql_progress import Progress
from headrace.core.errors import HTTP_STATUS, HeadraceError
from headrace.core.settings import Settings
from headrace.query.sql import QueryResult

_CONNECT_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 1.0
_PROCESS: Final = "query"


def running_query_process(settings: Settings) -> str | None:
    """Where the query process of the platform on this data folder is; None if it does not run."""
    state = read_state(settings)
    if state is None:
        return None
    for process in state.processes:
        said = latest(settings, _PROCESS)
        if process.name == _PROCESS and process.state == "running" and said is not None:
            return said.detail if said.state == "ready" else None
    return None


def ask(url: str, statement: str, *, engine: str = "", after: Sequence[str] = ()) -> QueryResult:
    """The answer. Raises HeadraceError: what the process says, or query_unavailable.

    If this is interrupted, the question is cancelled.
    """
    question = uuid.uuid4().hex
    timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
    body: dict[str, Any] = {"query": statement, "id": question}
    body |= {"engine": engine} if engine else {}
    body |= {"after": list(after)} if after else {}
    received = bytearray()
    try:
        with (
            Progress(lambda: _state(url, question)) as progress,
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream("POST", f"{url}/sql", json=body) as response,
        ):
            for part in response.iter_bytes():
                received += part
                progress.received(len(part))
        content = json.loads(received, parse_float=Decimal)
    except KeyboardInterrupt:
        # Closing the connection does it too; this does it before a proxy between has noticed.
        with contextlib.suppress(httpx.HTTPError):
            httpx.delete(f"{url}/sql/{question}", timeout=_CANCEL_SECONDS, trust_env=False)
        raise
    except (httpx.HTTPError, ValueError) as error:
        raise HeadraceError(
            "query_unavailable",
            f"The query process at {url} did not give a whole answer: {error}.",
            remedy="Ask again. `headrace status` shows what is wrong.",
        ) from error
    if response.status_code != httpx.codes.OK:
        raise _failure(content)
    types = tuple(content["types"])
    rows = tuple(
        tuple(_value(value, kind) for value, kind in zip(row, types, strict=True)) for row in content["rows"]
    )
    return QueryResult(columns=tuple(content["columns"]), types=types, rows=rows)


def _state(url: str, question: str) -> str:
    """What the process says of the question."""
    response = httpx.get(f"{url}/sql/{question}", timeout=_CANCEL_SECONDS, trust_env=False)
    return str(response.json()["state"]) if response.status_code == httpx.codes.OK else "running"


def _failure(content: Any) -> HeadraceError:
    if isinstance(content, dict) and content.get("error") in HTTP_STATUS:
        return HeadraceError(content["error"], content["message"], remedy=content.get("remedy", ""))
    return HeadraceError("process_failed", f"The query process answered: {str(content)[:500]}")


def _value(value: Any, kind: str) -> Any:
    """Only decimals are decimals."""
    return value if kind.startswith("DECIMAL") else _with_floats(value)


def _with_floats(value: Any) -> Any:
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_with_floats(item) for item in value]
        case dict():
            return {key: _with_floats(item) for key, item in value.items()}
        case _:
            return value
