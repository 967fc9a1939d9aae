"""Errors that leave Python for Spark: their messages without stack traces.

Spark examines the text of an error that comes out of a function of `foreachBatch` with a regular expression
that overflows the stack if the text is long; the query would end without telling why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headrace.core.errors import HeadraceError

_LONGEST_LINE: Final = 600
_MOST_LINES: Final = 12


@contextmanager
def shortened_errors() -> Iterator[None]:
    """For the body of a function that Spark calls with each batch."""
    try:
        yield
    except (PySparkException, Py4JError, HeadraceError) as error:
        raise RuntimeError(shortened(str(error))) from None


def shortened(text: str) -> str:
    """The messages of an error and its causes, which name schemas and states, without stack traces."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return "\n".join(line[:_LONGEST_LINE] for line in said[:_MOST_LINES])
