"""Repairs dead letters: chooses them, edits them, sends them back, and reports the outcomes.

Invariants: a record is sent back once, however many dead letters it has and however often this runs, except
after a crash (`notes.py`). Only entries that exist at the start are considered, so a record that fails again
waits for the next run. A value that an edit leaves unchanged is not sent, since it would only fail again.
Without an edit, records are sent unchanged: the statement or the schema was at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Final

from headrace.client.cluster import Cluster
from headrace.dead_letters.edits import Edit, EditFailed
from headrace.dead_letters.entries import At, DeadLetter
from headrace.dead_letters.notes import Note, Notes, note_key, read_notes
from headrace.dead_letters.sending import Repaired, Sender
from headrace.dead_letters.topics import DeadLetterTopics

# A crash repeats at most this many.
_BATCH: Final = 100


class Result(StrEnum):
    """The outcome for one dead letter."""

    SENT = "sent"
    WOULD_SEND = "would be sent"
    REPAIRED_BEFORE = "repaired before"
    SAME_RECORD = "same record"
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`detail` says where the record went, or why not. `value` is the repaired value, if there is one."""

    letter: DeadLetter
    result: Result
    detail: str
    value: bytes | None = None


def note_of(letter: DeadLetter, notes: Notes) -> Note | None:
    return notes.get(note_key(letter.read_from)) if letter.read_from is not None else None


class Repair:
    """One repair of one topic."""

    def __init__(
        self, cluster: Cluster, *, largest_message: int, edit: Edit | None, is_dry_run: bool, again: bool
    ) -> None:
        self._cluster = cluster
        self._topics = DeadLetterTopics(cluster)
        self._sender = Sender(cluster, largest_message=largest_message)
        self._edit = edit
        self._is_dry_run = is_dry_run
        self._again = again
        self._seen: dict[str, At] = {}

    def run(self, topic: str, places: Sequence[At], *, edits_first: bool) -> Iterator[Outcome]:
        """Yield each outcome as it is known. `edits_first`: nothing is sent before all letters are edited.

        Raises HeadraceError if the topic or a place is wrong, or if the log does not answer.
        """
        found = self._topics.named(topic)
        notes = read_notes(self._cluster)
        # Every place is looked up before anything is sent: a wrong one stops the repair.
        chosen: Iterable[DeadLetter] = (
            [self._topics.entry(found, at) for at in dict.fromkeys(places)]
            if places
            else self._topics.every(found)
        )
        decided: Iterable[Outcome | Repaired] = (self._decided(letter, notes) for letter in chosen)
        if edits_first:
            decided = list(decided)
        remaining = iter(decided)
        while batch := list(islice(remaining, _BATCH)):
            yield from (each for each in batch if isinstance(each, Outcome))
            yield from self._sent([each for each in batch if isinstance(each, Repaired)])

    def _decided(self, letter: DeadLetter, notes: Notes) -> Outcome | Repaired:
        source = letter.read_from
        if source is None:
            detail = "it is not the record of a source (it has no header headrace-read-from)"
            return Outcome(letter=letter, result=Result.FAILED, detail=detail)
        key = note_key(source)
        note = notes.get(key)
        if note is not None and not self._again:
            when = datetime.fromtimestamp(note.at / 1000, UTC).isoformat(timespec="seconds")
            return Outcome(
                letter=letter, result=Result.REPAIRED_BEFORE, detail=f"sent to {note.sent_to} at {when}"
            )
        if key in self._seen:
            detail = f"{self._seen[key]} is for the same record, which is sent only once"
            return Outcome(letter=letter, result=Result.SAME_RECORD, detail=detail)
        self._seen[key] = letter.at
        self._sender.source(source.topic)
        return self._edited(Repaired(letter=letter, source=source, value=letter.value))

    def _edited(self, given: Repaired) -> Outcome | Repaired:
        if self._edit is None:
            return given
        letter = given.letter
        try:
            value = self._edit(letter)
        except EditFailed as error:
            return Outcome(letter=letter, result=Result.FAILED, detail=str(error))
        if value == letter.value:
            return Outcome(
                letter=letter, result=Result.UNCHANGED, detail="the edit did not change the value: not sent"
            )
        return Repaired(letter=letter, source=given.source, value=value)

    def _sent(self, batch: Sequence[Repaired]) -> Iterator[Outcome]:
        if self._is_dry_run:
            for each in batch:
                detail = f"to {each.source.topic}"
                yield Outcome(letter=each.letter, result=Result.WOULD_SEND, detail=detail, value=each.value)
            return
        for delivery in self._sender.send(batch):
            yield Outcome(
                letter=delivery.repaired.letter,
                result=Result.SENT if delivery.sent_to else Result.FAILED,
                detail=f"to {delivery.sent_to}" if delivery.sent_to else delivery.failure,
                value=delivery.repaired.value,
            )
