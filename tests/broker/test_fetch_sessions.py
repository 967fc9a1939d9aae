"""Fetch sessions (KIP-227): what is remembered, what is news, who gets a session."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError
from headrace.broker.fetch_sessions import EVICTION_SECONDS, HIGHEST_EPOCH, FetchSession, FetchSessions
from headrace.wire.fetch import FetchRequest, PartitionFetch, PartitionReply


def request(
    *offsets: tuple[str, int, int],
    session_id: int = 0,
    epoch: int = 0,
    forgotten: tuple[tuple[str, int], ...] = (),
) -> FetchRequest:
    topics = [
        (topic, [PartitionFetch(partition, -1, offset, -1, 1000)]) for topic, partition, offset in offsets
    ]
    return FetchRequest(
        500, 1, 10_000, 0, session_id, epoch, list(topics), [(topic, [index]) for topic, index in forgotten]
    )


def reply(
    partition: int = 0, *, mark: int = 5, start: int = 0, error: int = 0, size: int = 0
) -> PartitionReply:
    return PartitionReply(partition, error, mark, mark, start, None, b"x" * size, size)


def fetched(session: FetchSession) -> list[tuple[object, int, int]]:
    return [(topic, fetch.partition, fetch.offset) for topic, fetch in session.wanted()]


def test_a_session_remembers_what_was_asked_for() -> None:
    sessions = FetchSessions()
    opened = sessions.open(request(("a", 0, 3), ("b", 1, 4)), by_id=False)
    assert opened.session_id != 0
    later = sessions.open(request(session_id=opened.session_id, epoch=1), by_id=False)
    assert fetched(later) == [("a", 0, 3), ("b", 1, 4)]
    later = sessions.open(
        request(("a", 0, 9), ("c", 0, 0), session_id=opened.session_id, epoch=2, forgotten=(("b", 1),)),
        by_id=False,
    )
    assert fetched(later) == [("a", 0, 9), ("c", 0, 0)]


def test_only_news_is_answered_after_the_first_time() -> None:
    sessions = FetchSessions()
    session = sessions.open(request(("a", 0, 3), ("b", 0, 4)), by_id=False)
    assert len(session.news([("a", reply()), ("b", reply())])) == 2
    session = sessions.open(request(session_id=session.session_id, epoch=1), by_id=False)
    assert session.news([("a", reply()), ("b", reply())]) == []
    assert [topic for topic, _ in session.news([("a", reply(mark=6)), ("b", reply(start=2))])] == ["a", "b"]
    assert [topic for topic, _ in session.news([("a", reply(mark=6, size=9)), ("b", reply(start=2))])] == [
        "a"
    ]


def test_an_error_and_what_comes_after_it_are_news() -> None:
    sessions = FetchSessions()
    session = sessions.open(request(("a", 0, 3)), by_id=False)
    session.news([("a", reply())])
    session = sessions.open(request(session_id=session.session_id, epoch=1), by_id=False)
    assert session.news([("a", reply(error=3))])
    assert session.news([("a", reply(error=3))])
    assert session.news([("a", reply())])
    assert not session.news([("a", reply())])


def test_partitions_that_had_records_go_to_the_back() -> None:
    session = FetchSessions().open(request(("a", 0, 0), ("b", 0, 0), ("c", 0, 0)), by_id=False)
    session.news([("a", reply(size=10)), ("b", reply()), ("c", reply(size=1))])
    assert [topic for topic, *_ in fetched(session)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("session_id", "epoch", "by_id", "code"),
    [
        (-5, 1, False, ErrorCode.fetch_session_id_not_found),
        (0, 2, False, ErrorCode.invalid_fetch_session_epoch),
        (0, 1, True, ErrorCode.fetch_session_topic_id_error),
    ],
)
def test_requests_that_do_not_fit_their_session_are_refused(
    session_id: int, epoch: int, by_id: bool, code: ErrorCode
) -> None:
    sessions = FetchSessions()
    opened = sessions.open(request(("a", 0, 0)), by_id=False)
    with pytest.raises(ApiError) as refused:
        sessions.open(request(session_id=opened.session_id + session_id, epoch=epoch), by_id=by_id)
    assert refused.value.code == code


def test_a_full_fetch_ends_its_session_and_opens_none() -> None:
    sessions = FetchSessions()
    opened = sessions.open(request(("a", 0, 0)), by_id=False)
    full = sessions.open(request(("a", 0, 0), session_id=opened.session_id, epoch=-1), by_id=False)
    assert full.session_id == 0
    assert len(sessions) == 0


def test_a_session_that_fetches_nothing_any_more_ends() -> None:
    sessions = FetchSessions()
    opened = sessions.open(request(("a", 0, 0)), by_id=False)
    empty = sessions.open(request(session_id=opened.session_id, epoch=1, forgotten=(("a", 0),)), by_id=False)
    assert (empty.session_id, len(sessions)) == (0, 0)


def test_epochs_wrap_to_one() -> None:
    sessions = FetchSessions()
    opened = sessions.open(request(("a", 0, 0)), by_id=False)
    opened.epoch = HIGHEST_EPOCH
    assert sessions.open(request(session_id=opened.session_id, epoch=HIGHEST_EPOCH), by_id=False).epoch == 1


def test_when_all_slots_are_taken_only_an_old_session_makes_room() -> None:
    now = [0.0]
    sessions = FetchSessions(slots=2, clock=lambda: now[0])
    first = sessions.open(request(("a", 0, 0)), by_id=False)
    first.last_used = 0.0
    sessions.open(request(("a", 0, 0)), by_id=False).last_used = 0.0
    assert sessions.open(request(("a", 0, 0)), by_id=False).session_id == 0
    now[0] = EVICTION_SECONDS
    assert sessions.open(request(("a", 0, 0)), by_id=False).session_id != 0
    with pytest.raises(ApiError):
        sessions.open(request(session_id=first.session_id, epoch=1), by_id=False)
