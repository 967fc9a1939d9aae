"""The statement log on a real broker: several writers at once, restarts, snapshots, lost acknowledgements."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from headrace.client.errors import NotAcknowledgedError
from headrace.client.followed import CompactedLog
from headrace.client.writing import Headers
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.catalogue.records import PutType
from headrace.pipeline.catalogue.statement_log import Decision, StatementLog
from headrace.pipeline.statements.types import BIGINT
from headrace.testing import EmbeddedBroker
from tests.ports import free_port


def adding(name: str) -> Callable[[Catalogue], Decision]:
    """CREATE TYPE name, if it is not there."""

    def decide(catalogue: Catalogue) -> Decision:
        if name in catalogue.types:
            raise HeadraceError("bad_statement", f"{name} is there")
        return Decision(
            text=f"CREATE TYPE {name} AS BIGINT;",
            command=f"type/{name}/create",
            message="done",
            effects=(PutType(name=name, type=BIGINT),),
        )

    return decide


def test_what_was_committed_is_there_after_a_restart(
    broker: EmbeddedBroker, statement_log: StatementLog, statement_topic: str
) -> None:
    first = statement_log.commit(adding("A"))
    second = statement_log.commit(adding("B"))
    assert (first.offset, second.offset) == (0, 1)
    with pytest.raises(HeadraceError):
        statement_log.commit(adding("A"))
    again = StatementLog(broker.bootstrap, topic=statement_topic)
    again.start()
    try:
        assert again.catalogue == statement_log.catalogue
        assert list(again.catalogue.types) == ["A", "B"]
        assert again.commands()["type/B/create"] == second
        # One that follows sees what the other commits.
        assert not again.wait_beyond(second.offset, 0)
        third = statement_log.commit(adding("C"))
        assert again.wait_beyond(second.offset, 120)
        assert again.last == third.offset
    finally:
        again.stop()


def test_writers_that_race_all_decide_on_what_is_there(broker: EmbeddedBroker, statement_topic: str) -> None:
    logs = [StatementLog(broker.bootstrap, topic=statement_topic, snapshot_every=7) for _ in range(3)]
    for log in logs:
        log.start()
    won: list[str] = []
    codes: set[str] = set()
    names = [f"T{number}" for number in range(12)]

    def race(log: StatementLog) -> None:
        for name in names:
            try:
                log.commit(adding(name))
                won.append(name)
            except HeadraceError as error:
                codes.add(error.code)

    threads = [threading.Thread(target=race, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert sorted(won) == sorted(names)
        assert codes == {"bad_statement"}
        assert {frozenset(log.read_to_end().types) for log in logs} == {frozenset(names)}
        late = StatementLog(broker.bootstrap, topic=statement_topic)
        late.start()
        assert set(late.catalogue.types) == set(names)
        late.stop()
    finally:
        for log in logs:
            log.stop()


class _LosingLog(CompactedLog):
    """Loses the first acknowledgement, and the record with it unless `is_written`."""

    is_written = False
    has_lost = False

    def write(self, key: bytes, value: bytes | None, headers: Headers = ()) -> int:
        if self.has_lost:
            return super().write(key, value, headers)
        self.has_lost = True
        if self.is_written:
            super().write(key, value, headers)
        raise NotAcknowledgedError(KafkaError(KafkaError._MSG_TIMED_OUT))


class _LosingWrittenLog(_LosingLog):
    is_written = True


@pytest.mark.parametrize("log_type", [_LosingLog, _LosingWrittenLog])
def test_a_lost_acknowledgement_makes_one_statement(
    broker: EmbeddedBroker, statement_topic: str, log_type: type[CompactedLog]
) -> None:
    log = StatementLog(broker.bootstrap, topic=statement_topic, log_type=log_type)
    log.start()
    try:
        outcome = log.commit(adding("A"))
        assert outcome.offset == 0
        assert log.read_to_end().types == {"A": BIGINT}
        assert log.commit(adding("B")).offset == 1
    finally:
        log.stop()


class _RefusingLog(CompactedLog):
    """Takes no snapshot as long as it refuses them."""

    refuses = True

    def write(self, key: bytes, value: bytes | None, headers: Headers = ()) -> int:
        if self.refuses and key.startswith(b"snapshot/"):
            raise HeadraceError("log_unavailable", "no")
        return super().write(key, value, headers)


def test_a_snapshot_that_cannot_be_written_fails_no_statement(
    broker: EmbeddedBroker, statement_topic: str
) -> None:
    log = StatementLog(broker.bootstrap, topic=statement_topic, snapshot_every=1, log_type=_RefusingLog)
    log.start()
    try:
        assert isinstance(log._log, _RefusingLog)
        assert log.commit(adding("A")).offset == 0
        log._log.refuses = False
        log.commit(adding("B"))
        assert set(log.read_to_end().types) == {"A", "B"}
        assert log._state.since_snapshot == 0
    finally:
        log.stop()


def test_a_log_that_does_not_answer_is_an_error() -> None:
    log = StatementLog(f"127.0.0.1:{free_port()}", timeout=0.5)
    with pytest.raises(HeadraceError) as caught:
        log.start()
    assert caught.value.code == "log_unavailable"
