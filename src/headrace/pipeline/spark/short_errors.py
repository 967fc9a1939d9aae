"""Errors that leave Python for Spark: their messages without stack traces.

Spark examines the text of an error that comes out of a function of `foreachBatch` with a regular expression
that overflows the stack if the text is long; the query would end without telling why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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


@contextmanager
def shortened_errors() -> Iterator[None]:
    """For the body of a function that Spark calls with each batch."""
    try:
        yield
    except (PySparkException, Py4JError, HeadraceError) as error:
        raise RuntimeError(shortened(str(error))) from None


def first_line(reason: str) -> str:
    """What an error says first, also one that came out of a function for batches, behind Python's trace."""
    lines = reason.splitlines() or [""]
    raised = [number for number, line in enumerate(lines) if _RAISED.match(line)]
    if _FROM_PYTHON not in lines[0] or not raised:
        return lines[0]
    said = _RAISED.sub("", lines[raised[-1]])
    behind = lines[raised[-1] + 1 : raised[-1] + 2]
    # Py4J names its own call first, and the error of Java in the next line.
    return behind[0].lstrip(": ") if behind and said.startswith(_OF_PY4J) else said


def shortened(text: str) -> str:
    """The messages of an error and its causes, which name schemas and states, without stack traces."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return "\n".join(line[:_LONGEST_LINE] for line in said[:_MOST_LINES])
