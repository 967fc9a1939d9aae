"""What is told of an error that has a long way behind it."""

from __future__ import annotations

import pytest

from headrace.pipeline.spark.short_errors import first_line

_TRACE = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
"""


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", ""),
        ("disk full\nat line 3", "disk full"),
        (f"{_TRACE}RuntimeError: the table is gone\nmore", "the table is gone"),
        (
            f"{_TRACE}RuntimeError: An error occurred while calling o7.save.\n: java.io.IOException: full\n",
            "java.io.IOException: full",
        ),
        (f"{_TRACE}pyspark.errors.AnalysisException: no such column", "no such column"),
        (_TRACE, _TRACE.splitlines()[0]),
    ],
)
def test_the_first_line(reason: str, expected: str) -> None:
    assert first_line(reason) == expected
