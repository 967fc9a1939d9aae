"""The Kafka producers of a query's runs: a client id for each run, and whether those of former runs are done.

Spark shares producers between tasks and keeps them for a while. A task that is interrupted leaves its records
in the producer, whose thread goes on sending them. So before a run reads what its predecessor wrote, the
producers of the predecessor must have sent everything they hold; they are found by their client id among the
JVM's management beans. A predecessor in another JVM is dead, and so are its producers.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError

# A task that was told to end may take a moment to notice.
_STILL_SECONDS: Final = 0.25
# Other queries wait meanwhile; the start is tried again.
_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05
_ATTRIBUTES: Final = (
    "buffer-total-bytes",
    "buffer-available-bytes",
    "record-send-total",
    "record-error-total",
)


def new_client_id(query: str, part: str = "") -> str:
    """A client id for the producers of one run, or of a part that may write while the query runs."""
    readable = re.sub(r"[^A-Za-z0-9_]", "_", query)[:40]
    return f"{readable}-{_tag(query)}-{uuid.uuid4().hex[:8]}{part}"


def wait_for_silence(session: SparkSession, query: str, part: str = "") -> bool:
    """Wait until the producers of the query's former runs, or only of that part, hold no record.

    Returns whether one of them has given up on a record, which may then still be on its way to the log.
    Raises pipeline_failed if it takes too long, for example because the log is away.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    before: dict[str, _Producer] = {}
    unchanged_since = time.monotonic()
    while True:
        found = _producers(session, query, part)
        if found != before:
            before, unchanged_since = found, time.monotonic()
        is_still = not found or time.monotonic() > unchanged_since + _STILL_SECONDS
        if is_still and not any(each.held for each in found.values()):
            return any(each.failed for each in found.values())
        if time.monotonic() > deadline:
            raise HeadraceError(
                "pipeline_failed",
                f"The former run of query {query} still has records that the log has not acknowledged.",
                remedy="Check that the log is running (`headrace status`); the query tries again by itself.",
            )
        time.sleep(_POLL_SECONDS)


def _tag(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:12]


class _Producer(NamedTuple):
    """Bytes held, and how many records were sent and given up so far."""

    held: float
    sent: float
    failed: float


def _producers(session: SparkSession, query: str, part: str) -> dict[str, _Producer]:
    jvm = session._jvm
    assert jvm is not None
    server: Any = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    pattern = jvm.javax.management.ObjectName(
        f"kafka.producer:type=producer-metrics,client-id=*-{_tag(query)}-*{part}"
    )
    found = {}
    for name in server.queryNames(pattern, None):
        total, available, sent, failed = (
            float(server.getAttribute(name, attribute)) for attribute in _ATTRIBUTES
        )
        found[str(name)] = _Producer(total - available, sent, failed)
    return found
