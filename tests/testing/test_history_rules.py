"""Each rule on the smallest histories: what it finds, says, and must not take for an anomaly."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

import pytest

from headrace.testing.history import (
    Assigned,
    ClientFailed,
    CommittedOffsetsRead,
    ConsumerStarted,
    Event,
    FinalRead,
    HistoryError,
    OffsetCommitEnded,
    OffsetCommitInvoked,
    Polled,
    ProducerStarted,
    Revoked,
    SendAcknowledged,
    SendInvoked,
    SendRefused,
    SendUnknown,
    Sought,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
    check,
)

HERE = "orders/0"


class Telling:
    """Tells a history event by event, each one tick after the one before."""

    def __init__(self) -> None:
        self.clock = count(1)
        self.events: list[Event] = []
        for name in ("p", "t"):
            self.add(ProducerStarted, client=name, idempotent=True)
        self.add(ProducerStarted, client="plain", idempotent=False)
        self.add(ConsumerStarted, client="c", read_committed=True, group="g")
        self.add(ConsumerStarted, client="u", read_committed=False)

    def add(self, kind: type[Any], **fields: Any) -> Event:
        event: Event = kind(**fields, time=next(self.clock))
        self.events.append(event)
        return event

    def send(self, *values: str, client: str = "p", transaction: str | None = None) -> None:
        for value in values:
            self.add(SendInvoked, client=client, value=value, partition=HERE, transaction=transaction)

    def told(self, client: str = "p", **offsets: int | None) -> None:
        for value, offset in offsets.items():
            self.add(SendAcknowledged, client=client, value=value, partition=HERE, offset=offset)

    def begin(self, transaction: str) -> None:
        self.add(TransactionBegun, client="t", transaction=transaction)

    def end(self, transaction: str, *, commit: bool, outcome: str | None) -> None:
        self.add(TransactionEnding, client="t", transaction=transaction, commit=commit)
        if outcome is not None:
            self.add(TransactionEnded, client="t", transaction=transaction, outcome=outcome)

    def poll(self, client: str, records: dict[int, str] | list[tuple[int, str]]) -> None:
        entries = tuple(records.items() if isinstance(records, dict) else records)
        self.add(Polled, client=client, partition=HERE, records=entries)

    def final(
        self, records: dict[int, str], *, committed: bool = False, start: int = 0, end: int = 9
    ) -> None:
        self.add(
            FinalRead,
            client="f",
            partition=HERE,
            read_committed=committed,
            start=start,
            end=end,
            records=tuple(records.items()),
        )

    def commit(
        self,
        offset: int,
        outcome: Literal["committed", "refused", "unknown"] | None = "committed",
        transaction: str | None = None,
    ) -> None:
        name = f"commit-{len(self.events)}"
        self.add(
            OffsetCommitInvoked,
            client="c",
            group="g",
            commit=name,
            offsets={HERE: offset},
            transaction=transaction,
        )
        if outcome is not None:
            self.add(OffsetCommitEnded, client="c", commit=name, outcome=outcome)

    def read_offset(self, offset: int | None) -> None:
        asked = next(self.clock)
        self.add(CommittedOffsetsRead, client="c", group="g", offsets={HERE: offset}, asked=asked)

    def finds(self, *kinds: str) -> list[str]:
        """Exactly these kinds; what is said of them."""
        anomalies = check(self.events).anomalies
        assert sorted(anomalies) == sorted(kinds)
        return [each.summary for found in anomalies.values() for each in found]


@pytest.fixture
def run() -> Telling:
    return Telling()


def test_an_acknowledged_write_that_is_not_there_is_lost(run: Telling) -> None:
    run.send("a", "b", "d")
    run.told(a=0, b=1, d=None)
    run.final({0: "a"}, end=3)
    lost = run.finds("lost-write")
    assert lost == [
        "'b' was acknowledged in orders/0 at offset 1, but is not in the log, which extends from 0 to 3",
        "'d' was acknowledged in orders/0, but is not in the log, which extends from 0 to 3",
    ]


def test_what_is_behind_the_end_is_lost_too(run: Telling) -> None:
    run.send("a")
    run.told(a=4)
    run.final({}, end=0)
    run.finds("lost-write")


def test_what_was_read_and_is_gone_is_lost_though_nobody_was_told_of_it(run: Telling) -> None:
    run.send("a")
    run.poll("u", {0: "a"})
    run.final({}, end=1)
    assert "was read" in run.finds("lost-write")[0]


def test_what_is_not_lost(run: Telling) -> None:
    run.send("unanswered", "refused", "unknown", "retained", "nowhere", "read")
    run.add(SendRefused, client="p", value="refused")
    run.add(SendUnknown, client="p", value="unknown")
    run.told(retained=1, nowhere=None)
    run.poll("u", {2: "read"})
    run.final({}, start=5, end=5)
    run.send("later")
    run.told(later=5)
    run.send("read later")
    run.poll("u", {6: "read later"})
    run.finds()


def test_of_an_aborted_transaction_nothing_must_be_among_the_committed_records(run: Telling) -> None:
    run.begin("t1")
    run.send("a", client="t", transaction="t1")
    run.told("t", a=0)
    run.end("t1", commit=False, outcome="aborted")
    run.final({}, committed=True)
    run.finds()


def test_a_duplicate_is_allowed_for_who_is_not_idempotent(run: Telling) -> None:
    run.send("a")
    run.send("b", client="plain")
    run.told(a=0, b=1)
    run.final({0: "a", 1: "b", 2: "b"})
    run.finds()
    assert check(run.events).allowed == {"duplicate": 1}
    run.final({0: "a", 1: "b", 2: "b", 3: "a"})
    assert run.finds("duplicate") == ["'a' is in orders/0 at the offsets 0, 3"]


def test_order_is_kept_for_who_is_idempotent(run: Telling) -> None:
    run.send("a", "b", "c")
    run.send("x", "y", client="plain")
    run.final({0: "b", 1: "a", 2: "c", 3: "y", 4: "x"})
    assert run.finds("reordering") == ["p sent 'a' to orders/0 before 'b', but it comes after it, at 1 and 0"]
    assert check(run.events).allowed == {"reordering": 1}


@pytest.mark.parametrize("committed", [True, False])
def test_two_values_at_one_offset(run: Telling, committed: bool) -> None:
    run.send("a", "b")
    run.told(a=0)
    run.poll("u", {0: "a", 1: "b"})
    run.final({0: "a", 1: "b"}, committed=committed)
    run.finds()
    run.poll("u", [(1, "a")])
    assert "changed-offset" in check(run.events).anomalies


def test_reads_before_and_after_a_restart_must_agree(run: Telling) -> None:
    run.send("a", "b")
    run.final({0: "a", 1: "b"})
    run.final({0: "b", 1: "a"})
    assert "changed-offset" in check(run.events).anomalies


def test_a_write_that_moved(run: Telling) -> None:
    run.send("a")
    run.told(a=0)
    run.final({3: "a"})
    assert run.finds("moved-write") == ["'a' was at 0 of orders/0 for p, but is at 3 of orders/0 at the end"]


@pytest.mark.parametrize(
    ("commit", "outcome", "kinds"),
    [
        (True, "committed", []),
        (True, "unknown", []),
        (True, None, []),
        (False, "aborted", ["aborted-read"]),
        (False, None, ["aborted-read"]),
        (True, "aborted", ["aborted-read"]),
        (None, None, ["aborted-read"]),
    ],
)
def test_which_transactions_may_be_seen(
    run: Telling, commit: bool | None, outcome: str | None, kinds: list[str]
) -> None:
    run.begin("t1")
    run.send("a", "b", client="t", transaction="t1")
    run.told("t", a=0, b=1)
    if commit is not None:
        run.end("t1", commit=commit, outcome=outcome)
    run.add(Assigned, client="c", partition=HERE, offset=0)
    run.poll("u", {0: "a", 1: "b"})
    run.final({0: "a", 1: "b"}, end=3)
    run.finds()
    run.poll("c", {0: "a", 1: "b"})
    assert len(run.finds(*kinds)) == len(kinds), "a transaction is named once for each reader"


def test_aborted_records_in_the_final_committed_read(run: Telling) -> None:
    run.begin("t1")
    run.send("a", client="t", transaction="t1")
    run.told("t", a=0)
    run.end("t1", commit=False, outcome="aborted")
    run.final({0: "a"}, committed=True, end=2)
    assert run.finds("aborted-read") == [
        "f reads committed records and received 'a' of the transaction t1, which was aborted"
    ]


def test_a_record_that_is_seen_before_its_commit_was_asked_for(run: Telling) -> None:
    run.begin("t1")
    run.send("a", client="t", transaction="t1")
    run.told("t", a=0)
    run.poll("u", {0: "a"})
    run.poll("c", {0: "a"})
    run.end("t1", commit=True, outcome="committed")
    run.final({0: "a"}, committed=True, end=2)
    run.finds("early-read")


@pytest.mark.parametrize(
    ("outcome", "visible", "partial"),
    [
        ("committed", {0: "a", 1: "b"}, False),
        ("committed", {0: "a"}, True),
        ("committed", {}, True),
        ("unknown", {0: "a", 1: "b"}, False),
        ("unknown", {0: "a"}, True),
        ("unknown", {}, False),
    ],
)
@pytest.mark.parametrize("complete", [True, False])
def test_all_of_a_transaction_or_nothing(
    run: Telling, outcome: str, visible: dict[int, str], partial: bool, complete: bool
) -> None:
    run.begin("t1")
    run.send("a", "b", client="t", transaction="t1")
    run.told("t", a=0, b=1)
    run.end("t1", commit=True, outcome=outcome)
    if complete:
        run.final({0: "a", 1: "b"}, end=3)
    run.final(visible, committed=True, end=3)
    run.finds(*(["partial-transaction"] if partial else []))


def test_a_commit_that_succeeded_answers_for_every_send(run: Telling) -> None:
    run.begin("t1")
    run.send("a", "b", client="t", transaction="t1")
    run.told("t", a=0)
    run.end("t1", commit=True, outcome="committed")
    run.final({0: "a"}, end=2)
    run.final({0: "a"}, committed=True, end=2)
    run.finds("partial-transaction")


def test_what_waits_for_another_transaction_is_not_missing_but_hung(run: Telling) -> None:
    run.begin("t1")
    run.send("open", client="t", transaction="t1")
    run.begin("t2")
    run.send("a", client="t", transaction="t2")
    run.told("t", a=1)
    run.end("t2", commit=True, outcome="committed")
    run.final({0: "open", 1: "a"}, end=3)
    run.final({}, committed=True, end=0)
    assert run.finds("hung-transaction") == [
        "orders/0 ends at 3, but committed reads end at 0: 'open' of the transaction t1"
    ]


def test_phantoms(run: Telling) -> None:
    run.poll("u", {0: "early"})
    run.send("early")
    run.poll("u", {1: "nobody's"})
    run.add(SendInvoked, client="p", value="elsewhere", partition="orders/1")
    run.poll("u", {2: "elsewhere"})
    assert [each.rpartition(": ")[2] for each in run.finds("phantom-read")] == [
        "it was sent later",
        "nobody sent it",
        "it was sent to orders/1",
    ]


def test_a_refused_write_must_not_be_there(run: Telling) -> None:
    run.send("a")
    run.add(SendRefused, client="p", value="a", error="too large")
    run.final({}, end=0)
    run.finds()
    run.final({0: "a"}, end=1)
    run.finds("refused-write")


def test_a_consumer_goes_forward(run: Telling) -> None:
    run.send("a", "b", "c")
    run.add(Assigned, client="u", partition=HERE, offset=0)
    run.poll("u", {0: "a", 1: "b"})
    run.final({0: "a", 1: "b", 2: "c"}, end=3)
    for event in (
        Sought(client="u", partition=HERE, offset=0, time=next(run.clock)),
        Assigned(client="u", partition=HERE, offset=0, time=next(run.clock)),
        Assigned(client="u", partition=HERE, offset=None, time=next(run.clock)),
        Revoked(client="u", partition=HERE, time=next(run.clock)),
    ):
        run.events.append(event)
        run.poll("u", {0: "a", 1: "b"})
    run.finds()
    run.poll("u", {1: "b"})
    assert run.finds("nonmonotonic-poll") == ["u was at 2 of orders/0 and received 1 ('b')"]


def test_a_consumer_is_given_all_that_it_should_see(run: Telling) -> None:
    run.begin("t1")
    run.send("aborted", client="t", transaction="t1")
    run.send("a", "b", "c")
    run.end("t1", commit=False, outcome="aborted")
    run.final({0: "aborted", 2: "a", 3: "b", 4: "c"}, end=5)
    run.final({2: "a", 3: "b", 4: "c"}, end=5, committed=True)
    for client in ("c", "u"):
        run.add(Assigned, client=client, partition=HERE, offset=0)
    run.poll("c", {2: "a", 3: "b", 4: "c"})
    run.poll("u", {0: "aborted", 2: "a", 3: "b", 4: "c"})
    run.finds()
    run.add(Sought, client="c", partition=HERE, offset=1)
    run.add(Sought, client="u", partition=HERE, offset=0)
    run.poll("u", {2: "a", 4: "c"})
    run.poll("c", {3: "b"})
    assert run.finds("poll-skip") == [
        "u was at 0 of orders/0 and received 2 next, skipping 1 records from 0 on",
        "u was at 3 of orders/0 and received 4 next, skipping 1 records from 3 on",
        "c was at 1 of orders/0 and received 3 next, skipping 1 records from 2 on",
    ]


def test_committed_offsets_that_can_be_explained(run: Telling) -> None:
    run.read_offset(None)
    run.commit(5)
    run.read_offset(5)
    run.commit(3)
    run.read_offset(3)
    run.commit(7, "refused")
    run.read_offset(3)
    run.commit(8, "unknown")
    run.read_offset(3)
    run.read_offset(8)
    run.commit(9, None)
    run.commit(10)
    run.read_offset(10)
    run.read_offset(9)
    run.finds()


@pytest.mark.parametrize("wrong", [None, 5, 7, 42])
def test_committed_offsets_that_cannot(run: Telling, wrong: int | None) -> None:
    run.commit(5)
    run.commit(7, "refused")
    run.commit(6)
    run.read_offset(wrong)
    run.finds("commit-regression")


def test_what_was_read_stays_read(run: Telling) -> None:
    run.commit(5)
    run.commit(6, "unknown")
    run.read_offset(6)
    run.read_offset(5)
    assert run.finds("commit-regression") == ["g is at 5 of orders/0, although it was at 6 since"]


def test_commits_that_run_at_the_same_time_may_take_effect_in_any_order(run: Telling) -> None:
    for offset in (5, 6):
        run.add(OffsetCommitInvoked, client="c", group="g", commit=str(offset), offsets={HERE: offset})
    for offset in (5, 6):
        run.add(OffsetCommitEnded, client="c", commit=str(offset), outcome="committed")
    run.read_offset(5)
    run.finds()


@pytest.mark.parametrize(
    ("outcome", "seen", "well"),
    [
        ("committed", 6, True),
        ("committed", 5, False),
        ("aborted", 6, False),
        ("aborted", 5, True),
        ("unknown", 5, True),
        ("unknown", 6, True),
    ],
)
def test_offsets_of_a_transaction_share_its_fate(run: Telling, outcome: str, seen: int, well: bool) -> None:
    run.commit(5)
    run.begin("t1")
    run.commit(6, transaction="t1")
    run.read_offset(5)
    run.end("t1", commit=outcome != "aborted", outcome=outcome)
    run.read_offset(seen)
    run.finds(*([] if well else ["commit-regression"]))


def test_events_that_contradict_each_other_are_no_history(run: Telling) -> None:
    def refuses(match: str, *events: Event) -> None:
        with pytest.raises(HistoryError, match=match):
            check([*run.events, *events])

    send = SendInvoked(client="p", value="a", partition=HERE)
    refuses("sent twice", send, send)
    refuses("without a `producer started`", SendInvoked(client="c", value="a", partition=HERE))
    refuses("before it was sent", SendUnknown(client="p", value="a"))
    refuses("never began", SendInvoked(client="p", value="a", partition=HERE, transaction="t9"))
    refuses("never began", TransactionEnding(client="t", transaction="t9", commit=True))
    refuses("without a `consumer started`", Polled(client="p", partition=HERE, records=((0, "a"),)))


def test_the_report_can_be_read(run: Telling) -> None:
    run.add(ClientFailed, client="p", error="no more")
    run.send("a", *(f"w{number}" for number in range(9)))
    run.told(**{f"w{number}": number for number in range(9)})
    run.final({}, end=9)
    lines = str(check(run.events)).splitlines()
    assert lines[:8] == [
        "History of 6 clients over 0.0 s, 1 partitions read at the end",
        "  writes        10: 9 acknowledged, 0 refused, 1 unknown",
        "  transactions  0 committed, 0 aborted or abandoned, 0 unknown",
        "  polled        0 records",
        "  commits       0 answered, committed offsets read 0 times",
        "  no more (1)",
        "9 anomalies:",
        "",
    ]
    assert lines[8] == "lost-write (9): a write that was acknowledged or read is not in the log at the end"
    assert lines[9].startswith("  'w0' was acknowledged in orders/0 at offset 0")
    assert lines[10].split() == ["0.000000", "p", "send", "invoked", "value=w0", "partition=orders/0"]
    assert lines[-1] == "  … and 4 more"


def test_a_history_of_nothing_says_so() -> None:
    assert "this history proves nothing" in str(check([]))
