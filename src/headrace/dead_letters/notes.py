"""What has been repaired: the compacted topic `_repaired_dead_letters`.

Key: the place of the record that could not be read (`<topic>/<topic id>/<partition>/<offset>`), not that of
its dead letter. For a record has a dead letter from each query that could not read it, and another where a
query repeated itself after a crash, and is sent back once all the same. Value: JSON, a `Note`.

Crash behaviour: a note is written after the log has acknowledged the repaired record, so a crash between the
two leaves a record that was sent and not noted; the next run sends it again (at least once). One transaction
over both would close that gap, but its marker takes an offset in the source topic, and the platform counts
the events of a topic by its offsets: accepted events would never again add up with those that came through.
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
    """Which dead letter was repaired, where to it was sent, and when (milliseconds)."""

    dead_letter_topic: str
    dead_letter: str
    sent_to: str
    at: int


Notes = Mapping[str, Note]


def read_notes(cluster: Cluster) -> Notes:
    """All notes by the key of their record. Raises HeadraceError log_unavailable, or storage_failed."""
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
        # Left out, a repaired record could be taken for one that waits, and be sent twice.
        raise HeadraceError(
            "storage_failed",
            f"{NOTES_TOPIC} {record.partition()}:{record.offset()} is no note of a repair: {error}.",
            remedy=f"Somebody else wrote it; a record with its key {record.key()!r} and no value removes it.",
        ) from error


def make_notes_topic(cluster: Cluster) -> None:
    cluster.create_topic(NOTES_TOPIC, partitions=1, config=COMPACTED)


def note_key(place: RecordPlace) -> str:
    return str(place)
