"""What has become of a record in a connector's table: certain by its row, or by its dead letter."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.query.receipts.facts import Asked, Facts, Place
from headrace.query.receipts.tables import Row, Wanted
from headrace.query.receipts.traces import LetterTrace, Seen, TableTrace
from headrace.query.receipts.ways import TableWay


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The trace of the table, and the dead letter that tells it, if one does."""

    table: TableTrace
    letter: LetterTrace | None = None
    is_looking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    sql: Seen
    lake: Seen
    reason: str = ""
    letter: LetterTrace | None = None
    is_looking: bool = False


def arrived(facts: Facts, way: TableWay, place: Place, asked: Asked) -> Arrived:
    """Raises log_unavailable."""
    name = facts.name_of(way)
    row: Row | None = None
    if way.unseen and not name:
        known = _Known(sql=Seen.UNKNOWN, lake=Seen.UNKNOWN, reason=way.unseen)
    else:
        wanted = Wanted(place.topic.topic_id, place.partition, place.offset, place.lane, place.source_offset)
        row = facts.row(way, wanted, asked)
        known = _known(facts, way, place, row, asked)
    is_pending = Seen.PENDING in (known.sql, known.lake)
    trace = TableTrace(
        table=way.table,
        connector=way.connector,
        source=place.at,
        sql=known.sql,
        lake=known.lake,
        version=row.version if row is not None else None,
        reason=way.problem if is_pending and way.problem else known.reason,
        behind=row.behind if row is not None else 0,
        # A table that is not there yet will have the name of its folder.
        name=name or ("" if way.unseen else way.table),
    )
    return Arrived(table=trace, letter=known.letter, is_looking=known.is_looking)


def _known(facts: Facts, way: TableWay, place: Place, row: Row | None, asked: Asked) -> _Known:
    if row is None:
        return _Known(sql=Seen.PENDING, lake=Seen.PENDING, is_looking=True)
    if Seen.VISIBLE not in (row.sql, row.lake) and (row.is_decided or row.is_read):
        return _without_row(facts, way, place, row, asked)
    return _Known(sql=row.sql, lake=row.lake, reason=row.reason)


def _without_row(facts: Facts, way: TableWay, place: Place, row: Row, asked: Asked) -> _Known:
    """The connector, or the tail, has read the record, and there is no row of it."""
    letters = facts.topic(way.letters)
    if letters is not None:
        looked = facts.derived(letters, place, way.query, asked, starts=row.letters_from or {})
        if looked.found:
            letter = facts.letter(letters, looked.found[0], way.connector)
            return _Known(sql=Seen.DEAD_LETTER, lake=Seen.DEAD_LETTER, reason=letter.reason, letter=letter)
        if looked.trouble and row.is_decided:
            return _Known(sql=Seen.UNKNOWN, lake=Seen.UNKNOWN, reason=looked.trouble)
        if not looked.is_whole:
            reason = looked.trouble or "its dead letters are being read"
            return _Known(sql=Seen.PENDING, lake=Seen.PENDING, reason=reason, is_looking=not looked.trouble)
    if not row.is_decided:
        return _Known(sql=Seen.PENDING, lake=Seen.PENDING, reason=row.reason or "it is left to the lake")
    if way.drops:
        return _Known(sql=Seen.LEFT_OUT, lake=Seen.LEFT_OUT, reason=way.drops)
    return _Known(
        sql=Seen.UNKNOWN, lake=Seen.UNKNOWN, reason="the connector has read it, and nothing of it was found"
    )
