"""The output of `headrace dlq`: tables for people, JSON for programs.

Invariant: JSON output contains nothing but the answer. The content of a record is never interpreted as
terminal markup.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.dead_letters.entries import DeadLetter
from headrace.dead_letters.notes import Note, Notes
from headrace.dead_letters.repairing import Outcome, Result, note_of
from headrace.dead_letters.topics import DeadLetterTopic

_SHORT: Final = 80


def print_topics(topics: Sequence[DeadLetterTopic], notes: Notes, *, as_json: bool) -> None:
    repaired = Counter(note.dead_letter_topic for note in notes.values())
    rows: list[dict[str, object]] = [
        {"topic": topic.name, "entries": topic.entries, "repaired": repaired[topic.name]} for topic in topics
    ]
    _print(rows, as_json=as_json, nothing="no dead-letter topics")


def print_entries(entries: Sequence[DeadLetter], notes: Notes, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_facts(letter, notes) for letter in entries], ensure_ascii=False))
        return
    rows: list[dict[str, object]] = [
        {
            "at": str(letter.at),
            "source": _source(letter),
            "query": _query(letter),
            "reason": letter.reason,
            "attempts": letter.attempts,
            "repaired": _repaired(note_of(letter, notes)),
            "value": view(letter.value),
        }
        for letter in entries
    ]
    _print(rows, as_json=False, nothing="no entries")


def print_entry(letter: DeadLetter, notes: Notes, *, as_json: bool) -> None:
    if as_json:
        facts = _facts(letter, notes)
        facts["value"] = _text_of(letter.value)
        facts["value_base64"] = None if letter.value is None else base64.b64encode(letter.value).decode()
        facts["headers"] = [[name, _text_of(value)] for name, value in letter.headers]
        print(json.dumps(facts, ensure_ascii=False))
        return
    lines = {
        "entry": f"{letter.topic} {letter.at}, {_time(letter.timestamp_ms)}",
        "reason": letter.reason or "unknown",
        "query": _query(letter) or "unknown",
        "source": _source(letter) or "unknown",
        "attempts": str(letter.attempts),
        "repaired": _repaired(note_of(letter, notes)),
        "key": _text_of(letter.key) if letter.key is not None else "none",
    }
    for name, text in lines.items():
        print(f"{name + ':':<10} {text}")
    for name, value in letter.original_headers:
        print(f"{'header:':<10} {name} = {_text_of(value)}")
    print(f"{'value:':<10} " + ("none" if letter.value is None else f"{len(letter.value)} bytes"))
    if letter.value is not None:
        print(_text_of(letter.value))


def print_outcomes(outcomes: Iterable[Outcome]) -> bool:
    """Print a line for each outcome, then how many of each kind. False if one failed."""
    counts: Counter[Result] = Counter()
    for outcome in outcomes:
        counts[outcome.result] += 1
        print(f"{outcome.letter.topic} {outcome.letter.at}: {outcome.result}, {outcome.detail}")
        if outcome.result is Result.WOULD_SEND:
            print(f"  - {view(outcome.letter.value)}\n  + {view(outcome.value)}")
    summary = ", ".join(f"{count} {result}" for result, count in counts.items())
    print(summary or "nothing to repair")
    if counts[Result.REPAIRED_BEFORE]:
        print("--again sends those already repaired once more")
    return not counts[Result.FAILED]


def view(value: bytes | None) -> str:
    """The beginning of a value, on one line."""
    if value is None:
        return "null"
    text = _text_of(value).replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _facts(letter: DeadLetter, notes: Notes) -> dict[str, object]:
    place, note = letter.read_from, note_of(letter, notes)
    return {
        "topic": letter.topic,
        "partition": letter.at.partition,
        "offset": letter.at.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": letter.reason,
        "query": letter.query,
        "position": letter.position,
        "source": None
        if place is None
        else {
            "topic": place.topic,
            "topic_id": place.topic_id,
            "partition": place.partition,
            "offset": place.offset,
        },
        "attempts": letter.attempts,
        "repaired": None if note is None else {"at_ms": note.at, "sent_to": note.sent_to},
        "key": None if letter.key is None else _text_of(letter.key),
        "value": view(letter.value),
        "value_bytes": None if letter.value is None else len(letter.value),
    }


def _source(letter: DeadLetter) -> str | None:
    place = letter.read_from
    return None if place is None else f"{place.topic} {place.partition}:{place.offset}"


def _query(letter: DeadLetter) -> str | None:
    return ", ".join(part for part in (letter.query, letter.position) if part) or None


def _repaired(note: Note | None) -> str:
    return "no" if note is None else f"{_time(note.at)}, sent to {note.sent_to}"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="seconds")


def _text_of(value: bytes | None) -> str:
    """As text if it is text, otherwise in hexadecimal."""
    if value is None:
        return ""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return value.hex(" ")
    return text if all(letter.isprintable() or letter in "\r\n\t" for letter in text) else value.hex(" ")


def _print(rows: Sequence[dict[str, object]], *, as_json: bool, nothing: str) -> None:
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print(nothing)
        return
    table = Table(header_style="bold")
    for column in rows[0]:
        is_number = isinstance(rows[0][column], int)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("unknown" if value is None else str(value)) for value in row.values()))
    Console().print(table)
