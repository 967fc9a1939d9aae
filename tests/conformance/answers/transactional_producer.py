"""A transactional producer of the conversations: it remembers its id, epoch and sequence numbers.

Apache Kafka answers some requests before it is done with what they lead to (markers of a transaction that was
ended): the producer waits for that, so that what comes next does not depend on chance.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.conversation import (
    INIT_PRODUCER_ID,
    PRODUCE,
    Conversation,
    Topic,
    produce_fields,
    wait_until,
)
from tests.conformance.record_batches import Record, batch

ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, WRITE_TXN_MARKERS, TXN_OFFSET_COMMIT = range(24, 29)
DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 65, 66
TRANSACTIONAL = 0x10
TIMEOUT_MS = 60_000
# From these versions on the broker adds partitions by itself, and each transaction has an epoch (KIP-890).
PRODUCE_ADDS_FROM, END_TXN_BUMPS_FROM = 12, 5
NOT_YET = {"concurrent_transactions", "coordinator_load_in_progress", "coordinator_not_available"}


class TransactionalProducer:
    """`bumps` says whether it speaks version 2 of the transaction protocol."""

    def __init__(self, conversation: Conversation, *, bumps: bool = True) -> None:
        self._conversation = conversation
        self._bumps = bumps
        self._sequences: dict[tuple[str, int], int] = {}
        self.transactional_id = conversation.name()
        self.producer_id = -1
        self.epoch = -1
        self.begin()

    def begin(self) -> None:
        """InitProducerId, until it is answered with an id."""

        def begun() -> bool:
            reply = self._conversation.ask_quietly(
                INIT_PRODUCER_ID,
                4,
                transactional_id=self.transactional_id,
                transaction_timeout=TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )
            assert reply.error_code.name in NOT_YET | {"none"}, reply
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            return bool(reply.error_code.name == "none")

        wait_until(begun)
        self._sequences.clear()
        self._conversation.know_producer(self.producer_id)

    @property
    def fields(self) -> dict[str, Any]:
        """Of most requests."""
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add_fields(self, *places: tuple[str, int], **changed: Any) -> dict[str, Any]:
        """Of AddPartitionsToTxn, of all versions."""
        fields = self.fields | changed
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        listed = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        verify_only = fields.pop("verify_only", False)
        return {f"v3_and_below_{name}": value for name, value in (fields | {"topics": listed}).items()} | {
            "transactions": [fields | {"topics": listed, "verify_only": verify_only}]
        }

    def add(self, *places: tuple[str, int]) -> None:
        reply = self._conversation.ask_quietly(ADD_PARTITIONS_TO_TXN, 3, **self.add_fields(*places))
        for topic in reply.results_by_topic_v3_and_below:
            assert all(each.partition_error_code == 0 for each in topic.results_by_partition), reply

    def records(self, topic: Topic, partition: int = 0, *, count: int = 1, **changed: Any) -> bytes:
        """The next records of this producer for the partition."""
        sequence = self._sequences.get((topic.name, partition), 0)
        self._sequences[topic.name, partition] = sequence + count
        fields = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "attributes": TRANSACTIONAL,
        }
        return batch([Record(value=b"%d" % number) for number in range(count)], **(fields | changed))

    def send(self, topic: Topic, partition: int = 0, *, count: int = 1) -> None:
        """Produce into the transaction, which begins if need be."""
        if not self._bumps:
            self.add((topic.name, partition))
        reply = self._conversation.ask_quietly(
            PRODUCE,
            12 if self._bumps else 11,
            **produce_fields(
                topic,
                self.records(topic, partition, count=count),
                partition,
                transactional_id=self.transactional_id,
            ),
        )
        assert reply.responses[0].partition_responses[0].error_code == 0, reply

    def end(self, *, committed: bool) -> None:
        version = END_TXN_BUMPS_FROM if self._bumps else END_TXN_BUMPS_FROM - 1
        reply = self._conversation.ask_quietly(END_TXN, version, committed=committed, **self.fields)
        assert reply.error_code == 0, reply
        self.ended(reply)

    def ended(self, reply: Any) -> None:
        """EndTxn was answered like this; wait for its markers."""
        if reply is not None and getattr(reply, "producer_epoch", -1) >= 0:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            self._sequences.clear()
        wait_until(lambda: self.state() not in {"PrepareCommit", "PrepareAbort"})

    def state(self) -> str:
        reply = self._conversation.ask_quietly(
            DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.transactional_id]
        )
        return str(reply.transaction_states[0].transaction_state)
