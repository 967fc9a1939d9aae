"""One writer a table: a file lock that the JVM itself holds, for as long as it lives.

The process that can commit is the JVM, so the lock must be its own and not the Python driver's: when the
driver is killed, its JVM lives on for a moment and may still finish a commit. The operating system gives the
lock free when the JVM is really gone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError

_PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
# Locks of this process; a channel that the JVM's garbage collector closed would give its lock away.
_held: dict[Path, object] = {}


def hold_writer_lock(spark: SparkSession, path: Path) -> None:
    """Take the lock at `path` for the JVM of `spark`, waiting for a predecessor that is on its way out."""
    if path in _held:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    jvm = spark._jvm
    assert jvm is not None
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    lock = file.getChannel().tryLock()
    while lock is None:
        if time.monotonic() > deadline:
            raise HeadraceError(
                "pipeline_failed",
                f"Another process writes the lake: it holds {path}.",
                remedy="Stop the other pipeline; one pipeline writes a table.",
            )
        time.sleep(_LOOK_SECONDS)
        lock = file.getChannel().tryLock()
    _held[path] = (file, lock)
