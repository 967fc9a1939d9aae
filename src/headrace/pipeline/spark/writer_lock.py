"""One pipeline for a data folder, one writer for a table: file locks that the JVM holds as long as it lives.

The driver commits to tables (`lake/delta_log.py`); its JVM writes data files, checkpoints, records and dead
letters. When the driver is killed, its JVM survives for a moment and may still send some, so the locks are
the JVM's: the operating system releases them when the JVM has ended. If only the JVM ends, the driver may be
at a commit when the next one takes its lock. Then the versions decide: of two commits of one version
one succeeds, and a commit only follows the version that its writer has seen.
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
