"""Sends repaired records back to where they came from, and notes each one.

A repaired record has the key of the original and goes to the same partition, so that all records of a key
stay in one partition; if the topic has fewer partitions now, the key decides. It has the headers of the
original except those in `_LEFT_OUT`, and:

- `headrace-repaired-from` and `headrace-attempts` (see `lake/dead_letter_headers.py`);
- `headrace-rowtime`, the time of the original: windows count the repaired record where the original belongs.
  The record's own timestamp is the time of the repair, which determines retention and latency.

Order: first the records, acknowledged by all replicas, then their notes. For a crash in between see
`notes.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.client.writing import ANY_PARTITION, Outcome, Outgoing, RecordWriter, Written
from headrace.core.errors import HeadraceError
from headrace.dead_letters.entries import DeadLetter, Headers
from headrace.dead_letters.notes import NOTES_TOPIC, Note, make_notes_topic, note_key
from headrace.lake.coordinates import POSTED_AT_HEADER, ROWTIME_HEADER, SOURCE_HEADER
from headrace.lake.dead_letter_headers import ATTEMPTS_HEADER, REPAIRED_FROM_HEADER, RecordPlace

# The lake would take a record with known coordinates for a repetition; the other headers are set anew.
_LEFT_OUT: Final = frozenset({SOURCE_HEADER, POSTED_AT_HEADER, ATTEMPTS_HEADER, REPAIRED_FROM_HEADER})
_PATIENCE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A dead letter, the place of its record, and the repaired value."""

    letter: DeadLetter
    source: RecordPlace
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The outcome for one record: where it is now, or why it was not written."""

    repaired: Repaired
    sent_to: str = ""
    failure: str = ""


class Sender:
    """Sends in batches. `largest_message` is the client's limit for one message, in bytes."""

    def __init__(self, cluster: Cluster, *, largest_message: int) -> None:
        self._cluster = cluster
        self._sources: dict[str, TopicIdentity] = {}
        self._has_notes_topic = False
        self._writer = RecordWriter(
            cluster.bootstrap, timeout_seconds=_PATIENCE_SECONDS, largest_message=largest_message
        )

    def source(self, name: str) -> TopicIdentity:
        """The topic that a record goes back to, as it is now. Raises no_such_topic, log_unavailable."""
        if name not in self._sources:
            found = self._cluster.topic(name)
            if found is None:
                raise HeadraceError(
                    "no_such_topic",
                    f"There is no topic `{name}`, which these dead letters came from.",
                    remedy="Create the topic again, or leave the dead letters as they are.",
                )
            self._sources[name] = found
        return self._sources[name]

    def send(self, batch: Sequence[Repaired]) -> list[Delivery]:
        """Send all, then note those that arrived. Raises log_unavailable if they cannot be noted."""
        if not batch:
            return []
        if not self._has_notes_topic:
            # Before anything is sent: without it, no repair could be noted.
            make_notes_topic(self._cluster)
            self._has_notes_topic = True
        outcomes = self._writer.write_all([self._record(repaired) for repaired in batch])
        done = [_delivery(repaired, outcome) for repaired, outcome in zip(batch, outcomes, strict=True)]
        self._note([delivery for delivery in done if delivery.sent_to])
        return done

    def _record(self, repaired: Repaired) -> Outgoing:
        place = repaired.source
        return Outgoing(
            topic=place.topic,
            key=repaired.letter.key,
            value=repaired.value,
            partition=place.partition
            if place.partition < self.source(place.topic).partitions
            else ANY_PARTITION,
            headers=sent_headers(repaired.letter),
        )

    def _note(self, sent: Sequence[Delivery]) -> None:
        now = int(time.time() * 1000)
        outcomes = self._writer.write_all([_note_record(delivery, now) for delivery in sent])
        unnoted = [each for each, told in zip(sent, outcomes, strict=True) if not isinstance(told, Written)]
        if unnoted:
            places = ", ".join(f"{each.repaired.letter.at} to {each.sent_to}" for each in unnoted)
            raise HeadraceError(
                "log_unavailable",
                f"These were sent but could not be noted in {NOTES_TOPIC}: {places}.",
                remedy="The next repair would send them again: use --at to choose others.",
            )


def _delivery(repaired: Repaired, outcome: Outcome) -> Delivery:
    topic = repaired.source.topic
    if isinstance(outcome, Written):
        return Delivery(repaired=repaired, sent_to=f"{topic} {outcome.partition}:{outcome.offset}")
    return Delivery(repaired=repaired, failure=f"{topic} did not accept it: {outcome.str()}")


def _note_record(delivery: Delivery, now_ms: int) -> Outgoing:
    letter = delivery.repaired.letter
    note = Note(
        dead_letter_topic=letter.topic, dead_letter=str(letter.at), sent_to=delivery.sent_to, at=now_ms
    )
    key = note_key(delivery.repaired.source).encode()
    return Outgoing(topic=NOTES_TOPIC, key=key, value=msgspec.json.encode(note))


def sent_headers(letter: DeadLetter) -> Headers:
    """The headers of the repaired record."""
    kept = [(name, value) for name, value in letter.original_headers if name not in _LEFT_OUT]
    if letter.posted_at_ms is not None and all(name != ROWTIME_HEADER for name, _ in kept):
        kept.append((ROWTIME_HEADER, str(letter.posted_at_ms).encode()))
    return (
        *kept,
        (REPAIRED_FROM_HEADER, f"{letter.topic}/{letter.at.partition}/{letter.at.offset}".encode()),
        (ATTEMPTS_HEADER, str(letter.attempts).encode()),
    )
