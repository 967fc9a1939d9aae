"""The Kafka producers of a query's runs: a client id for each run, and an end to them before the next one.

Spark shares producers between tasks and keeps them for a while. A task that is interrupted leaves its records
in the producer, whose thread goes on sending them; and Spark does not wait for the task, which may send one
more. So before a run reads what its predecessor wrote, the producers of the predecessor, which are found by
their client id among the JVM's management beans,

1. must have an answer for everything they hold. Each record is then in the log, or was given up. A copy of a
   request that was sent twice changes nothing when it arrives later: the producers are idempotent;
2. are closed. A task that goes on cannot send any more, however long it takes to notice that it was ended.

None of that rests on time. A record that was given up may still be on its way: then the next run watches its
sinks for a while (`reading_back.py`). A predecessor in another JVM is dead, and so are its producers; what
they have sent may be on its way, too.

A producer that gets no answer holds its records for its `delivery.timeout.ms`, two minutes. The start fails
meanwhile, and is tried again. Only where a topic was deleted are its records dropped at once: a producer goes
by names, so it would write them to a topic that was created again. That is no loss: nothing that was not
acknowledged is committed, so the next run derives it again.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
import uuid
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError

logger = logging.getLogger(__name__)

# Other queries wait meanwhile.
_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05
_CLIENT_ID: Final = re.compile(r"\(client\.id,([^)]*)\)")
_ATTRIBUTES: Final = ("buffer-total-bytes", "buffer-available-bytes", "record-error-total")


def new_client_id(query: str, part: str = "") -> str:
    """A client id for the producers of one run, or of a part that may write while the query runs."""
    readable = re.sub(r"[^A-Za-z0-9_]", "_", query)[:40]
    return f"{readable}-{_tag(query)}-{uuid.uuid4().hex[:8]}{part}"


def silence(session: SparkSession, query: str, part: str = "", *, at_once: bool = False) -> bool:
    """Close the producers of the query's former runs, or only of that part, when they hold no record any
    longer; with `at_once` whatever they hold.

    Returns whether a record was given up, which may then still be on its way to the log. Raises
    pipeline_failed if a producer goes on holding records.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    found = _producers(session, query, part)
    while not at_once and any(each.held for each in found.values()):
        if time.monotonic() > deadline:
            raise _unacknowledged(query)
        time.sleep(_POLL_SECONDS)
        found = _producers(session, query, part)
    if not found:
        return False
    if any(each.held for each in found.values()):
        logger.warning("Query %s: producers of its former run are closed with unsent records", query)
    is_complete = _close(session, found, at_once=at_once)
    if any(each.held for each in _producers(session, query, part).values()):
        # It is not one of those that Spark keeps.
        raise _unacknowledged(query)
    return not is_complete or any(each.failed or each.held for each in found.values())


def _unacknowledged(query: str) -> HeadraceError:
    return HeadraceError(
        "pipeline_failed",
        f"The former run of query {query} still has records that the log has not acknowledged.",
        remedy="Check that the log is running (`headrace status`); the query tries again by itself.",
    )


def _close(session: SparkSession, clients: Collection[str], *, at_once: bool) -> bool:
    """Close the producers with these client ids. Their threads have ended then, and tasks that go on cannot
    send. Whether everything that such a task has sent until then was answered.
    """
    seconds = 0.0 if at_once else _PATIENCE_SECONDS
    patience = _jvm(session).java.time.Duration.ofMillis(int(seconds * 1000))
    began = time.monotonic()
    for cached in _pooled(session):
        # The key has all settings of the producer.
        client = _CLIENT_ID.search(str(cached.cacheKey().toString()))
        if client is not None and client[1] in clients:
            cached.producer().close(patience)
    return at_once or time.monotonic() < began + seconds


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
    """Bytes held, and how many records were given up so far."""

    held: float
    failed: float


def _jvm(session: SparkSession) -> Any:
    assert session._jvm is not None
    return session._jvm


def _producers(session: SparkSession, query: str, part: str) -> dict[str, _Producer]:
    """Those that are open, by client id."""
    jvm = _jvm(session)
    server: Any = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    pattern = jvm.javax.management.ObjectName(
        f"kafka.producer:type=producer-metrics,client-id=*-{_tag(query)}-*{part}"
    )
    found = {}
    for name in server.queryNames(pattern, None):
        total, available, failed = (float(server.getAttribute(name, attribute)) for attribute in _ATTRIBUTES)
        found[str(name.getKeyProperty("client-id"))] = _Producer(total - available, failed)
    return found
