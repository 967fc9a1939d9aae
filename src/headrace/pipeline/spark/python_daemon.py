"""The process from which Spark forks its Python workers, with everything they need imported.

Spark starts it with the first task in Python (`spark.python.daemon.module`), and ends its workers when they
were idle for a minute. A worker that imports numpy, pyarrow and our decoders by itself is ready after more
than a second of CPU; forked from here, after some milliseconds, and it shares their memory with the others.

Invariant: nothing that is imported here may start a thread or open a connection, which would not survive a
fork. `manager`, Spark's own, does the rest.
"""

from __future__ import annotations

from pyspark.daemon import manager

import headrace.lake.columns.task  # noqa: F401

if __name__ == "__main__":
    manager()
