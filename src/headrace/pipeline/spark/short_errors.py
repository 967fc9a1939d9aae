"""Errors that leave Python for Spark: their messages without stack traces.

Spark examines the text of an error that comes out of a function of `foreachBatch` with a regular expression
that overflows the stack if the text is long; the query would end without telling why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headrace.core.errors import HeadraceError

_LONGEST_LINE: Final = 600
_MOST_LINES: Final = 12
_FROM_PYTHON: Final = "An exception was raised by the Python Proxy"
_OF_PY4J: Final = "An error occurred while calling"
# The last line of a trace, such as `RuntimeError: `.
_RAISED: Final = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")
_CAUSED: Final = "Caused by: "


@contextmanager
def shortened_errors() -> Iterator[None]:
    """For the body of a function that Spark calls with each batch."""
    try:
        yield
    except (PySparkException, Py4JError, HeadraceError) as error:
        raise RuntimeError(shortened(str(error))) from None


def first_line(reason: str) -> str:
    """What an error says first, also one that came out of a function for batches, behind Python's trace; with
    the cause of all causes, if it is an error of Java: Spark itself only says that a task has failed.
    """
    lines = reason.splitlines() or [""]
    raised = [number for number, line in enumerate(lines) if _RAISED.match(line)]
    if _FROM_PYTHON not in lines[0] or not raised:
        return lines[0]
    said = _RAISED.sub("", lines[raised[-1]])
    behind = lines[raised[-1] + 1 : raised[-1] + 2]
    if not behind or not said.startswith(_OF_PY4J):
        return said
    # Py4J names its own call first, and the error of Java in the next line.
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    return with_cause(behind[0].lstrip(": "), causes)


def with_cause(said: str, causes: Sequence[str]) -> str:
    """An error with the last of its causes, unless it says that already."""
    last = causes[-1] if causes else ""
    return said if last in said else f"{said} Cause: {last}"


def shortened(text: str) -> str:
    """The messages of an error and its causes, which name schemas and states, without stack traces."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "... "))]
    # The last ones name the cause of all others.
    kept = said if len(said) <= _MOST_LINES else [*said[: _MOST_LINES // 2], *said[-_MOST_LINES // 2 :]]
    return "\n".join(line[:_LONGEST_LINE] for line in kept)
