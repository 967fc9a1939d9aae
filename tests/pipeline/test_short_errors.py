"""What is told of an error that has a long way behind it."""

from __future__ import annotations

import pytest

from headrace.pipeline.spark.short_errors import first_line, shortened

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
        (
            f"{_TRACE}RuntimeError: An error occurred while calling o7.save.\n"
            ": SparkException: a task failed\n"
            "Caused by: SparkException: a task failed\nCaused by: IOException: No space left on device\n",
            "SparkException: a task failed Cause: IOException: No space left on device",
        ),
        (
            f"{_TRACE}RuntimeError: An error occurred while calling o7.save.\n"
            ": E: on s3: full\nCaused by: full",
            "E: on s3: full",
        ),
        (f"{_TRACE}pyspark.errors.AnalysisException: no such column", "no such column"),
        (_TRACE, _TRACE.splitlines()[0]),
    ],
)
def test_the_first_line(reason: str, expected: str) -> None:
    assert first_line(reason) == expected


def test_a_long_error_keeps_its_beginning_and_its_cause() -> None:
    causes = [f"Caused by: number {number}\n\tat a.Method" for number in range(40)]
    lines = shortened("\n".join(["java.io.IOException: no", *causes, "Caused by: full"])).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("java.io.IOException: no", "Caused by: full", 12)
