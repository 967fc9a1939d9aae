"""The Kafka producers of a query's runs: a client id for each run, and silence before the next one.

Spark shares producers between tasks and keeps them for a while. A task that is interrupted leaves its records
in the producer, whose thread goes on sending them. So before a run reads what its predecessor wrote, the
producers of the predecessor must have sent everything they hold; they are found by their client id among the
JVM's management beans. A predecessor in another JVM is dead, and so are its producers.

A producer that does not get rid of its records is closed, and drops them. That is no loss: nothing that was
not acknowledged is committed, so the next run derives it again. Waiting would not help where a topic was
deleted: a producer keeps records of a partition that no longer exists for its `delivery.timeout.ms`, two
minutes, and finds a topic that was created again by its name. What it has sent may still be on its way when
it is closed, as after the death of a JVM.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError

logger = logging.getLogger(__name__)

# A task that was told to end may take a moment to notice.
_STILL_SECONDS: Final = 0.25
# Other queries wait meanwhile.
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


def silence(session: SparkSession, query: str, part: str = "", *, at_once: bool = False) -> bool:
    """Wait until the producers of the query's former runs, or only of that part, hold no record; close those
    that go on holding some.

    With `at_once` they get hardly any time. Returns whether a record was given up, which may then still be on
    its way to the log. Raises pipeline_failed if a producer cannot be closed.
    """
    deadline = time.monotonic() + (_STILL_SECONDS if at_once else _PATIENCE_SECONDS)
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
            _close(session, query, part)
            return True
        time.sleep(_POLL_SECONDS)


def _close(session: SparkSession, query: str, part: str) -> None:
    """Close the producers of the query. Their threads have ended then, and tasks that go on cannot send."""
    client_id = re.compile(rf"\(client\.id,[^)]*-{_tag(query)}-[^)]*{re.escape(part)}\)")
    for cached in _pooled(session):
        # The key has all settings of the producer.
        if client_id.search(str(cached.cacheKey().toString())):
            logger.warning("Query %s: a producer of its former run is closed with unsent records", query)
            cached.producer().close(_jvm(session).java.time.Duration.ZERO)
    left = _producers(session, query, part)
    if any(each.held for each in left.values()):
        raise HeadraceError(
            "pipeline_failed",
            f"The former run of query {query} still has records that the log has not acknowledged.",
            remedy="Check that the log is running (`headrace status`); the query tries again by itself.",
        )


def _pooled(session: SparkSession) -> Iterator[Any]:
    """The producers that Spark keeps. There is no public way to them."""
    package = _jvm(session).org.apache.spark.sql.kafka010.producer
    shared = getattr(getattr(package, "InternalKafkaProducerPool$"), "MODULE$")
    field = shared.getClass().getDeclaredField("pool")
    field.setAccessible(True)
    entries = field.get(None).getAsMap().valuesIterator()
    while entries.hasNext():
        yield entries.next().producer()


def _tag(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:12]


class _Producer(NamedTuple):
    """Bytes held, and how many records were sent and given up so far."""

    held: float
    sent: float
    failed: float


def _jvm(session: SparkSession) -> Any:
    assert session._jvm is not None
    return session._jvm


def _producers(session: SparkSession, query: str, part: str) -> dict[str, _Producer]:
    jvm = _jvm(session)
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
