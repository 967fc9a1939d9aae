"""The dead letters of a query into the lake: sent before the commit, and never twice.

A dead letter is identified by the query and the place of the record that it is about. Which ones an earlier
run sent is found out at the start (`lake/sent_letters.py` has the rule). A record with a dead letter never
becomes a row, even if this run would take it: the earlier one may have refused it a new folder, for example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_message_bytes
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER
from headrace.lake.positions import Offsets, Progress, Reached
from headrace.lake.sent_letters import SentLetters
from headrace.pipeline.runs.reading_back import read_back
from headrace.pipeline.runs.recording import ends_of_records
from headrace.pipeline.spark.fault_headers import fault_headers, header
from headrace.pipeline.spark.steps.rows import HEADERS, KEY, REASON, VALUE

IS_SENT: Final = "__IS_SENT"
# Of the headers that Kafka Connect gives to dead letters.
CONNECT_PREFIX: Final = "__connect.errors."

_PLACE: Final = [layout.TOPIC_PARTITION, layout.TOPIC_OFFSET]


class LetterTopic:
    """The dead-letter topic of one run: what earlier runs have sent, and where it ends."""

    def __init__(
        self,
        cluster: Cluster,
        letters: TopicIdentity,
        *,
        query: str,
        topic: TopicIdentity,
        progress: Progress,
        settle_seconds: float = 0.0,
    ) -> None:
        """Reads the topic from where the progress says. `settle_seconds` is how long to look out for dead
        letters of earlier runs that may be on their way.
        """
        self._cluster = cluster
        self._letters = letters
        begins = progress.dead_letters_from.of(letters.topic_id)
        starts = cluster.earliest([letters])
        self._ends_at_start = self._log_ends()
        positions = {number: progress.positions.offsets.get(number, 0) for number in range(topic.partitions)}
        self._found = read_back(
            cluster.bootstrap,
            query=query,
            sinks=[letters],
            sinks_from={
                letters.topic_id: {
                    place[1]: max(starts.get(place, 0), begins.get(place[1], 0)) for place in letters.places
                }
            },
            ends={(letters.name, number): end for number, end in self._ends_at_start.items()},
            positions={topic.topic_id: positions},
            quiet_seconds=settle_seconds,
        )
        places = {
            (partition, offset)
            for partition, written in self._found.written.get(topic.topic_id, {}).items()
            for stretch in written.stretches
            for offset in range(stretch.first, stretch.last + 1)
            if stretch.has(offset, 0)
        }
        ends = self._found.sinks_to[letters.topic_id]
        self.sent = SentLetters(
            places=frozenset(places), ends=Reached(topic_id=letters.topic_id, offsets=ends)
        )

    def ends(self) -> Offsets:
        """Where its records end now: before a hole, if it ends in one."""
        of_topic = self._letters.topic_id
        ends = ends_of_records({of_topic: self._log_ends()}, {of_topic: self._ends_at_start}, self._found)
        return ends[of_topic]

    def _log_ends(self) -> dict[int, int]:
        latest = self._cluster.latest([self._letters])
        return {place[1]: latest[place] for place in self._letters.places if place in latest}


class LakeDeadLetters:
    """Sends dead letters of one run. `ends` asks the dead-letter topic where it ends; by the client id the
    next run finds out whether everything was sent (`producers.py`).
    """

    def __init__(
        self,
        settings: Settings,
        *,
        query: str,
        topic: TopicIdentity,
        dead_letter_topic: str,
        client_id: str,
        sent: SentLetters,
        ends: Callable[[], Offsets],
        connector: str = "",
    ) -> None:
        """With the name of a connector, they have the headers of Kafka Connect, too."""
        self._settings = settings
        self._query = query
        self._topic = topic
        self._dead_letter_topic = dead_letter_topic
        self._client_id = client_id
        self._sent = sent
        self._ends = ends
        self._connector = connector

    @property
    def has_sent(self) -> bool:
        """Whether `with_sent` may flag any row."""
        return bool(self._sent.places)

    def with_sent(self, rows: DataFrame) -> DataFrame:
        """The rows with a flag: whether an earlier run has sent a dead letter about the record."""
        if not self._sent.places:
            return rows.withColumn(IS_SENT, F.lit(False))
        # An inline table stays on the driver; createDataFrame would need another job.
        values = ", ".join(
            f"({partition}, {offset}L, true)" for partition, offset in sorted(self._sent.places)
        )
        names = ", ".join((*_PLACE, IS_SENT))
        sent = rows.sparkSession.sql(f"SELECT * FROM VALUES {values} AS sent({names})")
        joined = rows.join(F.broadcast(sent), on=_PLACE, how="left")
        return joined.withColumn(IS_SENT, F.coalesce(IS_SENT, F.lit(False)))

    def send(self, bad: DataFrame) -> None:
        """Send the rows, which have a reason, except those that `with_sent` has flagged."""
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
        headers = F.concat(derived, faults, self._connect_headers())
        (
            bad.filter(~F.col(IS_SENT))
            .select(F.col(KEY).alias("key"), F.col(VALUE).alias("value"), headers.alias("headers"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._settings.bootstrap)
            .option("kafka.client.id", self._client_id)
            .option("kafka.max.request.size", str(derived_message_bytes(self._settings)))
            .option("topic", self._dead_letter_topic)
            .save()
        )

    def _connect_headers(self) -> Column:
        """As of a task of Kafka Connect: existing tools for dead letters look for them."""
        if not self._connector:
            return F.array().cast("array<struct<key: string, value: binary>>")
        values = {
            "topic": F.lit(self._topic.name),
            "partition": F.col(layout.TOPIC_PARTITION).cast("string"),
            "offset": F.col(layout.TOPIC_OFFSET).cast("string"),
            "connector.name": F.lit(self._connector),
            "task.id": F.lit("0"),
            "stage": F.lit("VALUE_CONVERTER"),
            "exception.message": F.col(REASON),
        }
        return F.array(*(header(CONNECT_PREFIX + name, value) for name, value in values.items()))

    def noted(self, progress: Progress, *, has_sent: bool) -> Progress:
        """The progress with the place of its dead letters. To be called after sending, before the commit."""
        if has_sent:
            ends = Reached(topic_id=self._sent.ends.topic_id, offsets=self._ends())
            self._sent = dataclasses.replace(self._sent, ends=ends)
        noted = self._sent.noted(progress)
        self._sent = self._sent.from_positions(progress.positions.offsets)
        return noted
