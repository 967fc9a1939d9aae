"""The dead letters of a query into the lake: sent before the commit, and never twice.

A dead letter is identified by the query and the place of the record that it is about. Which ones an earlier
run sent is found out at the start (`lake/sent_letters.py` has the rule).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_message_bytes
from headrace.client.reading import records_between
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER
from headrace.lake.dead_letter_headers import QUERY_HEADER, READ_FROM_HEADER, parse_place
from headrace.lake.positions import Offsets, Progress, Reached
from headrace.lake.sent_letters import Place, SentLetters
from headrace.pipeline.spark.fault_headers import fault_headers, header
from headrace.pipeline.spark.steps.rows import HEADERS, KEY, REASON, VALUE

_SECONDS: Final = 30.0
_PLACE: Final = [layout.TOPIC_PARTITION, layout.TOPIC_OFFSET]


def already_sent(
    cluster: Cluster,
    dead_letter_topic: TopicIdentity,
    *,
    query: str,
    topic: TopicIdentity,
    progress: Progress,
) -> SentLetters:
    """Reads the dead-letter topic from where the progress says."""
    stretches = cluster.stretches([dead_letter_topic]).get(dead_letter_topic.name, {})
    begins = progress.dead_letters_from.of(dead_letter_topic.topic_id)
    places: set[Place] = set()
    wanted = {number: (max(first, begins.get(number, 0)), end) for number, (first, end) in stretches.items()}
    for record in records_between(cluster.bootstrap, dead_letter_topic.name, wanted, _SECONDS):
        place = _place_of(dict(record.headers() or ()), query=query, topic=topic)
        if place is not None and place[1] >= progress.positions.offsets.get(place[0], 0):
            places.add(place)
    ends = {number: end for number, (_, end) in stretches.items()}
    return SentLetters(
        places=frozenset(places), ends=Reached(topic_id=dead_letter_topic.topic_id, offsets=ends)
    )


class LakeDeadLetters:
    """Sends dead letters of one run. `ends` asks the dead-letter topic where it ends."""

    def __init__(
        self,
        settings: Settings,
        *,
        query: str,
        topic: TopicIdentity,
        dead_letter_topic: str,
        sent: SentLetters,
        ends: Callable[[], Offsets],
    ) -> None:
        self._settings = settings
        self._query = query
        self._topic = topic
        self._dead_letter_topic = dead_letter_topic
        self._sent = sent
        self._ends = ends

    def send(self, bad: DataFrame) -> None:
        """Send the rows, which have a reason, except those that were sent before."""
        place = F.concat_ws("/", F.lit(self._topic.topic_id), *_PLACE)
        derived = F.array(
            header(SOURCE_HEADER, F.concat_ws("/", F.lit(self._query), place, F.lit("0"))),
            header(POSTED_AT_HEADER, F.unix_millis(layout.POSTED_AT).cast("string")),
        )
        faults = fault_headers(
            query=F.lit(self._query),
            reason=F.col(REASON),
            read_from=F.concat_ws("/", F.lit(self._topic.name), place),
            original=F.col(HEADERS),
            position=None,
        )
        headers = F.concat(derived, faults)
        (
            self._without_sent(bad)
            .select(F.col(KEY).alias("key"), F.col(VALUE).alias("value"), headers.alias("headers"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._settings.bootstrap)
            .option("kafka.max.request.size", str(derived_message_bytes(self._settings)))
            .option("topic", self._dead_letter_topic)
            .save()
        )

    def noted(self, progress: Progress, *, has_sent: bool) -> Progress:
        """The progress with the place of its dead letters. To be called after sending, before the commit."""
        if has_sent:
            ends = Reached(topic_id=self._sent.ends.topic_id, offsets=self._ends())
            self._sent = dataclasses.replace(self._sent, ends=ends)
        return self._sent.noted(progress)

    def _without_sent(self, bad: DataFrame) -> DataFrame:
        if not self._sent.places:
            return bad
        # An inline table stays on the driver; createDataFrame would need another job.
        values = ", ".join(f"({partition}, {offset}L)" for partition, offset in sorted(self._sent.places))
        sent = bad.sparkSession.sql(f"SELECT * FROM VALUES {values} AS sent({', '.join(_PLACE)})")
        return bad.join(F.broadcast(sent), on=_PLACE, how="left_anti")


def _place_of(headers: Mapping[str, Any], *, query: str, topic: TopicIdentity) -> Place | None:
    """The record that a dead letter of this query on this incarnation is about."""
    try:
        place = parse_place(headers[READ_FROM_HEADER].decode())
        is_ours = headers[QUERY_HEADER].decode() == query and place.topic_id == topic.topic_id
    except (KeyError, ValueError, AttributeError):
        return None  # not one of ours
    return (place.partition, place.offset) if is_ours else None
