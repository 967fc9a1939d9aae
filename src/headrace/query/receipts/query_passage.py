"""What a statement has made of a record: certain by the positions that it has recorded, and by the headers in
its sink and its dead letters.

What a query has derived of a record lies between two offsets of a sink: where the sink ended at the newest
commit before the record (`sinks_from`), and at the oldest commit behind it (`sinks_to`). If there is no
commit behind it yet, the query may still read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.topics import TopicIdentity
from headrace.pipeline.runs.commits import Commit, offset_in
from headrace.query.receipts.facts import Asked, Facts, Place
from headrace.query.receipts.followed_origins import Looked
from headrace.query.receipts.origins import Lane
from headrace.query.receipts.tables import NOWHERE, Wanted
from headrace.query.receipts.traces import LetterTrace, Passage, Seen, TableTrace
from headrace.query.receipts.ways import QueryWay, TableWay, Yield

_MISSING: Final = "nothing of it was found; `headrace reconcile` looks further"
_NAMES_IT: Final = frozenset({Yield.ONE, Yield.ANY})
_NOT_THERE: Final = Looked(found=(), is_whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """`places` are the records that were written; or `tables` have rows of ones that are gone."""

    passage: Passage
    reason: str = ""
    behind: int = 0
    places: tuple[Place, ...] = ()
    letters: tuple[LetterTrace, ...] = ()
    tables: tuple[TableTrace, ...] = ()
    is_looking: bool = False


def passed(facts: Facts, way: QueryWay, place: Place, asked: Asked) -> Passed:
    """Of the record in its source's topic. Raises log_unavailable."""
    begun = offset_in(way.begins, place.topic.topic_id, place.partition)
    if begun is not None and place.offset < begun:
        return Passed(passage=Passage.NOT_READ, reason=f"it began to read at offset {begun}")
    commits, of_letters = _commits(facts, way, place)
    written = _NOT_THERE
    if way.gives in _NAMES_IT and (sink := facts.topic(way.sink)) is not None:
        written = _looked(facts, sink, way, place, asked, commits=commits)
        if written.found:
            places = tuple(place.derived(sink, each) for each in written.found)
            return Passed(passage=Passage.WRITTEN, places=places)
    rejected = _NOT_THERE
    if (letters := facts.topic(way.letters)) is not None:
        rejected = _looked(facts, letters, way, place, asked, commits=of_letters)
        if rejected.found:
            letter = facts.letter(letters, rejected.found[0], way.query)
            return Passed(passage=Passage.DEAD_LETTER, reason=letter.reason, letters=(letter,))
    return _without_results(
        facts, way, place, asked, commits=(commits, of_letters), looks=(written, rejected)
    )


def _without_results(
    facts: Facts,
    way: QueryWay,
    place: Place,
    asked: Asked,
    *,
    commits: tuple[Sequence[Commit], Sequence[Commit]],
    looks: tuple[Looked, Looked],
) -> Passed:
    is_whole = all(each.is_whole for each in looks)
    trouble = next((each.trouble for each in looks if each.trouble), "")
    # Of a topic that cannot have bad records, there is no part for its dead letters.
    is_free = way.gives is Yield.BESIDE and bool(commits[0]) and not commits[1]
    if not is_free and not all(each and _has_read(each[-1], place) for each in commits):
        position = _position(commits[0][-1], place) if commits[0] else 0
        return Passed(
            passage=Passage.PENDING,
            reason="it is paused" if way.is_paused else "",
            behind=max(place.offset + 1 - position, 0),
            is_looking=not is_whole and not trouble,
        )
    if trouble or (is_whole and way.gives is Yield.ONE):
        return _by_rows(facts, way, place, asked, trouble or _MISSING)
    if not is_whole:
        return Passed(passage=Passage.PENDING, reason="its results are being read", is_looking=True)
    passage = Passage.LEFT_OUT if way.gives in _NAMES_IT else Passage.TAKEN
    return Passed(passage=passage, reason=way.reason)


def _by_rows(facts: Facts, way: QueryWay, place: Place, asked: Asked, otherwise: str) -> Passed:
    """Results may have expired, and the rows that were made of them are still there."""
    lane = Lane(way.query, place.topic.topic_id, place.partition)
    wanted = Wanted("", 0, NOWHERE, lane, place.offset)
    tables: list[TableTrace] = []
    is_known = True
    for each in facts.ways_of(way.sink):
        if not isinstance(each, TableWay) or not (name := facts.name_of(each)):
            continue
        row = facts.row(each, wanted, asked)
        is_known = is_known and row is not None
        if row is not None and row.lake is Seen.VISIBLE:
            tables.append(
                TableTrace(
                    table=each.table,
                    connector=each.connector,
                    source=place.at,
                    sql=row.sql,
                    lake=row.lake,
                    version=row.version,
                    name=name,
                )
            )
    if tables:
        return Passed(passage=Passage.WRITTEN, reason="its record is gone", tables=tuple(tables))
    if not is_known:
        return Passed(passage=Passage.PENDING, reason="its row is being looked for", is_looking=True)
    return Passed(passage=Passage.UNKNOWN, reason=otherwise)


def _looked(
    facts: Facts,
    topic: TopicIdentity,
    way: QueryWay,
    place: Place,
    asked: Asked,
    *,
    commits: Sequence[Commit],
) -> Looked:
    before = next((each for each in reversed(commits) if not _has_read(each, place)), None)
    after = next((each for each in commits if _has_read(each, place)), None)
    starts = before.sinks_from if before is not None else way.sinks
    return facts.derived(
        topic,
        place,
        way.query,
        asked,
        starts=starts.get(topic.topic_id, {}),
        ends=after.sinks_to.get(topic.topic_id, {}) if after is not None else None,
    )


def _commits(facts: Facts, way: QueryWay, place: Place) -> tuple[Sequence[Commit], Sequence[Commit]]:
    """Those of the query, and those that tell about its dead letters of this topic."""
    commits = facts.ways.commits(way)
    if way.gives in _NAMES_IT:
        return commits, commits
    topic_id = place.topic.topic_id
    reading = [each for each in facts.ways.commits_of_letters(way) if each and topic_id in each[-1].positions]
    # Of its parts, the one that has read least.
    of_letters: Sequence[Commit] = min(reading, key=lambda each: _position(each[-1], place), default=())
    if way.gives is Yield.BESIDE:
        return (of_letters or commits), of_letters
    return commits, of_letters or commits


def _position(commit: Commit, place: Place) -> int:
    return offset_in(commit.positions, place.topic.topic_id, place.partition) or 0


def _has_read(commit: Commit, place: Place) -> bool:
    return _position(commit, place) > place.offset
