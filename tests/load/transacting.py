"""A transactional producer: commits and aborts at random, dies now and then, at any point of a transaction.

Its transactions carry records and the offset of a group that only this slot commits to: the number of the
transaction, so that what the group is told later says which of them were committed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.testing.history import (
    CommittedOffsetsRead,
    OffsetCommitEnded,
    OffsetCommitInvoked,
    ProducerStarted,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
    now,
    partition_name,
)
from tests.load.client import PATIENCE_SECONDS, GaveUp, Life, error_of, main
from tests.load.producing import send

CALL_SECONDS = 10.0


class Transactor:
    def __init__(self, life: Life) -> None:
        self.life, self.plan, self.history, self.random = life, life.plan, life.history, life.random
        assert self.plan.group is not None
        self.group = self.plan.group
        self.bookkeeping = partition_name(self.plan.topic, 0)
        self.producer = Producer(
            life.settings(
                transactional_id=self.plan.slot,
                transaction_timeout_ms=self.plan.transaction_timeout_ms,
                delivery_timeout_ms=self.plan.transaction_timeout_ms,
                linger_ms=self.random.choice([0, 5]),
                compression_type=self.random.choice(["none", "lz4"]),
                # If it began anew with its bootstrap servers, it would forget the coordinator it waits for,
                # and send_offsets_to_transaction would never return: librdkafka issues 5511 and 5456.
                metadata_recovery_strategy="none",
            )
        )
        # Never joins: it only names the group, and asks for its offsets.
        self.consumer = Consumer(
            life.settings(group_id=self.group, enable_auto_commit=False, isolation_level="read_committed")
        )

    def run(self) -> None:
        self.history.write(
            ProducerStarted(client=self.plan.name, idempotent=True, transactional_id=self.plan.slot)
        )
        self.patiently(self.producer.init_transactions)
        number = self.read_offset() or 0
        due = time.monotonic()
        while self.life.goes_on():
            number += 1
            count = self.random.randint(1, 12)
            due = max(due, time.monotonic() - 1.0) + count / self.plan.rate
            self.transact(f"{self.plan.name}/{number}", number, count)
            if self.random.random() < 0.1:
                self.read_offset()
            self.wait(due - time.monotonic())
        self.consumer.close()

    def wait(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        while self.life.goes_on() and (left := due - time.monotonic()) > 0:
            self.producer.poll(min(left, 0.1))

    def transact(self, name: str, number: int, count: int) -> None:
        self.history.write(TransactionBegun(client=self.plan.name, transaction=name))
        self.producer.begin_transaction()
        doomed = self.random.random() < 0.02
        try:
            for each in range(count):
                send(self.life, self.producer, f"{name}:{each}", name)
                self.producer.poll(self.random.choice([0, 0, 0.01]))
                if doomed and self.random.random() < 0.2:
                    os.kill(os.getpid(), signal.SIGKILL)
            if self.random.random() < 0.4:
                self.commit_offset(name, number)
        except KafkaException as exception:
            if error_of(exception).fatal():
                raise
            # A send that is not possible any more says only that the state is wrong, not that an abort
            # mends it.
            self.end(name, commit=False)
            return
        if self.random.random() < 0.003:
            # Longer than it may be open: the coordinator aborts it and shuts this producer out.
            self.wait(self.plan.transaction_timeout_ms / 1000 + 2)
        if doomed:
            # Somewhere between here and the answer to the commit, or a little after it.
            timer = threading.Timer(self.random.uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
        self.end(name, commit=self.random.random() < 0.75)

    def end(self, name: str, *, commit: bool) -> None:
        self.history.write(TransactionEnding(client=self.plan.name, transaction=name, commit=commit))
        try:
            self.patiently(self.producer.commit_transaction if commit else self.producer.abort_transaction)
        except KafkaException as exception:
            error = error_of(exception)
            if commit and error.txn_requires_abort():
                # A record was not delivered; then its commit was never asked of the broker.
                self.end(name, commit=False)
                return
            self.history.write(TransactionEnded(client=self.plan.name, transaction=name, outcome="unknown"))
            raise
        outcome = "committed" if commit else "aborted"
        self.history.write(TransactionEnded(client=self.plan.name, transaction=name, outcome=outcome))

    def commit_offset(self, transaction: str, number: int) -> None:
        commit = f"{transaction} offsets"
        self.history.write(
            OffsetCommitInvoked(
                client=self.plan.name,
                group=self.group,
                commit=commit,
                offsets={self.bookkeeping: number},
                transaction=transaction,
            )
        )
        metadata = self.consumer.consumer_group_metadata()
        offsets = [TopicPartition(self.plan.topic, 0, number)]
        try:
            self.patiently(
                lambda timeout: self.producer.send_offsets_to_transaction(offsets, metadata, timeout)
            )
        except KafkaException as exception:
            error = error_of(exception).str()
            self.history.write(
                OffsetCommitEnded(client=self.plan.name, commit=commit, outcome="unknown", error=error)
            )
            raise
        self.history.write(OffsetCommitEnded(client=self.plan.name, commit=commit, outcome="committed"))

    def read_offset(self) -> int | None:
        asked, found = now(), None

        def ask(timeout: float) -> None:
            nonlocal asked, found
            asked = now()
            (answer,) = self.consumer.committed([TopicPartition(self.plan.topic, 0)], timeout)
            if answer.error is not None:
                raise KafkaException(answer.error)
            found = answer.offset if answer.offset >= 0 else None

        self.patiently(ask)
        self.history.write(
            CommittedOffsetsRead(
                client=self.plan.name, group=self.group, offsets={self.bookkeeping: found}, asked=asked
            )
        )
        return found

    def patiently(self, call: Any) -> None:
        """Repeat a call as long as librdkafka says that this may help."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                call(CALL_SECONDS)
                return
            except KafkaException as exception:
                error = error_of(exception)
                if error.fatal() or error.txn_requires_abort() or not _passing(error):
                    raise
                if time.monotonic() > deadline or self.life.orphaned():
                    raise GaveUp(f"no end of {error.name()}: {error.str()}") from exception
                self.producer.poll(0.05)


def _passing(error: Any) -> bool:
    return error.retriable() or error.name() in {
        "_TIMED_OUT",
        "_TRANSPORT",
        "_WAIT_COORD",
        "_ALL_BROKERS_DOWN",
    }


def run(life: Life) -> None:
    Transactor(life).run()


if __name__ == "__main__":
    main(run)
