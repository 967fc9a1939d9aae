"""One pipeline for a data folder, one writer for a table: file locks that the JVM holds as long as it lives.

The driver commits to tables (`lake/delta_log.py`); its JVM writes data files, checkpoints, records and dead
letters. When the driver is killed, its JVM survives for a moment and may still send some, so the locks are
the JVM's: the operating system releases them when the JVM has ended. If only the JVM ends, the driver may be
at a commit when the next one takes its lock. Then the versions decide: of two commits of one version
one succeeds, and a commit only follows the version that its writer has seen.
"""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.lake.location import Location

_PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
# Locks of this process. They are kept here because the JVM's garbage collector would close the channels.
_held: dict[Path, object] = {}
# Java does not wait for a lock that its own process has, but fails; and a file that is opened a second time
# and closed would release it.
_taking = threading.Lock()


def lock_of(table: Location, *, data_dir: Path) -> Path:
    """The file to lock for a table: beside it; for one in a bucket, in the data folder.

    So pipelines with other data folders know nothing of each other's locks on a bucket. Their commits do.
    """
    if table.is_local:
        return table.path.parent / f".{table.name}.writer"
    return data_dir / "pipeline" / "table_locks" / f"{hashlib.sha256(str(table).encode()).hexdigest()}.writer"


def is_held(path: Path) -> bool:
    """Whether this process has the lock."""
    return path in _held


def hold_writer_lock(spark: SparkSession, path: Path) -> None:
    """Take the lock at `path` for the JVM of `spark`; wait for a predecessor that is about to end. For any
    thread.
    """
    with _taking:
        if path not in _held:
            _take(spark, path)


def _take(spark: SparkSession, path: Path) -> None:
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
