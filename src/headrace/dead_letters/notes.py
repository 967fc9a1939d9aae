"""Which records have been repaired: the compacted topic `_repaired_dead_letters`.

Key: the place of the record that could not be read (`<topic>/<topic id>/<partition>/<offset>`), not the place
of its dead letter. A record has a dead letter from each query that could not read it, and more if a query
repeated work after a crash, yet it is sent back only once. Value: JSON, a `Note`.

Crash behaviour: a note is written after the log has acknowledged the repaired record. A crash in between
leaves a record that was sent but not noted, and the next run sends it again (at least once). A transaction
over both would close that gap, but its marker takes an offset in the source topic. The platform counts the
events of a topic by its offsets, so accepted and processed events would never match again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.topics import COMPACTED
from headrace.core.errors import HeadraceError
from headrace.lake.dead_letter_headers import RecordPlace

NOTES_TOPIC: Final = "_repaired_dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Which dead letter was repaired, where the record was sent, and when (in milliseconds)."""

    dead_letter_topic: str
    dead_letter: str
    sent_to: str
    at: int


Notes = Mapping[str, Note]


def read_notes(cluster: Cluster) -> Notes:
    """All notes, by the key of their record. Raises log_unavailable, storage_failed."""
    stretches = cluster.stretches(cluster.lookup([NOTES_TOPIC]).values()).get(NOTES_TOPIC, {})
    newest = {record.key(): record for record in records_between(cluster.bootstrap, NOTES_TOPIC, stretches)}
    return {
        (key or b"").decode("utf-8", errors="replace"): _note(record)
        for key, record in newest.items()
        if record.value() is not None
    }


def _note(record: Any) -> Note:
    try:
        return msgspec.json.decode(record.value(), type=Note)
    except msgspec.DecodeError as error:
        # If it were skipped, a repaired record would look unrepaired and be sent twice.
        raise HeadraceError(
            "storage_failed",
            f"{NOTES_TOPIC} {record.partition()}:{record.offset()} is not a note of a repair: {error}.",
            remedy=f"Another program wrote it. A record with key {record.key()!r} and no value removes it.",
        ) from error


def make_notes_topic(cluster: Cluster) -> None:
    cluster.create_topic(NOTES_TOPIC, partitions=1, config=COMPACTED)


def note_key(place: RecordPlace) -> str:
    return str(place)
