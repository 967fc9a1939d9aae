"""One pipeline for a data folder, one writer for a table: file locks that the JVM holds as long as it lives.

The JVM is the process that commits, so the JVM must hold the lock, and not the Python driver: when the driver
is killed, its JVM survives for a moment and may still finish a commit. The operating system releases the lock
when the JVM has ended.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError

_PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
# Locks of this process. They are kept here because the JVM's garbage collector would close the channels.
_held: dict[Path, object] = {}


def hold_writer_lock(spark: SparkSession, path: Path) -> None:
    """Take the lock at `path` for the JVM of `spark`; wait for a predecessor that is about to end."""
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
                f"Another pipeline runs and holds the lock {path}.",
                remedy="Stop the other pipeline: only one may write to a data folder.",
            )
        time.sleep(_LOOK_SECONDS)
        lock = file.getChannel().tryLock()
    _held[path] = (file, lock)
