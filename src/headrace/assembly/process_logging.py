"""The log format of supervised processes: one line per record, on stderr, with time, level, logger, message.

Invariant: every record is one line, including tracebacks, so that logs can be cut, counted and searched by
line.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

LINE_BREAK: Final = " | "


class SingleLineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO headrace.part message`, in UTC."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return LINE_BREAK.join(line.strip() for line in super().format(record).splitlines() if line.strip())


def configure_logging(level: int = logging.INFO) -> None:
    """Send all records of this process to stderr, which the supervisor redirects to the log file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SingleLineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
