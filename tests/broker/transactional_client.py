"""A transactional producer that sends exactly what a test tells it to, over a `ServedBroker`.

Replies are dictionaries, as everywhere with `ServedBroker.ask`; nothing is repeated and nothing is checked.
"""

from __future__ import annotations

from typing import Any, Final

from tests.broker.served_broker import PRODUCE, ServedBroker
from tests.conformance.record_batches import Record, batch

FETCH, LIST_OFFSETS, INIT_PRODUCER_ID = 1, 2, 22
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_MARKERS, TXN_OFFSET_COMMIT = range(24, 29)
OFFSET_FETCH, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 9, 61, 65, 66
TRANSACTIONAL: Final = 0x10
ALL, COMMITTED = 0, 1


class TransactionalClient:
    """One producer: `init` gives it its id and epoch."""

    def __init__(self, broker: ServedBroker, transactional_id: str = "orders") -> None:
        self._broker = broker
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def init(self, version: int = 5, *, timeout_ms: int = 60_000, **fields: Any) -> str:
        """The error; without one the id and epoch are taken over."""
        asked = {"transactional_id": self.transactional_id, "transaction_timeout": timeout_ms} | fields
        reply = self._broker.ask(INIT_PRODUCER_ID, version, **asked)
        if reply["error_code"] == "none":
            self._take(reply)
        return str(reply["error_code"])

    def _take(self, reply: dict[str, Any]) -> None:
        self.producer_id, self.epoch = reply["producer_id"], reply["producer_epoch"]
        self._sequences.clear()

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def records(self, topic: str, partition: int = 0, *, count: int = 1, **fields: Any) -> bytes:
        """The next batch for a partition, with the time of now: producers expire by it."""
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + count
        own = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "attributes": TRANSACTIONAL,
            "base_timestamp": self._broker.do(lambda inner: inner.now_ms()),
        }
        return batch([Record()] * count, **(own | fields))

    def produce_fields(self, topic: str, records: bytes, partition: int = 0, **fields: Any) -> dict[str, Any]:
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        named = {"transactional_id": self.transactional_id, "acks": -1, "timeout": 10_000}
        return named | {"topic_data": data} | fields

    def send(self, topic: str, partition: int = 0, *, version: int = 12, **fields: Any) -> str:
        """Produce one record; the error."""
        records = self.records(topic, partition, **fields)
        reply = self._broker.ask(PRODUCE, version, **self.produce_fields(topic, records, partition))
        (answer,) = reply["responses"][0]["partition_responses"]
        return str(answer["error_code"])

    def add(self, *places: tuple[str, int], version: int = 3, **fields: Any) -> list[str]:
        """AddPartitionsToTxn of a client; the error of each partition."""
        named: dict[str, list[int]] = {}
        for topic, partition in places:
            named.setdefault(topic, []).append(partition)
        topics = [{"name": name, "partitions": partitions} for name, partitions in named.items()]
        asked = self.identity | {"topics": topics} | fields
        reply = self._broker.ask(
            ADD_PARTITIONS, version, **{f"v3_and_below_{name}": value for name, value in asked.items()}
        )
        return [
            each["partition_error_code"]
            for topic in reply["results_by_topic_v3_and_below"]
            for each in topic["results_by_partition"]
        ]

    def end(self, *, committed: bool = True, version: int = 5, **fields: Any) -> str:
        """EndTxn; the error. In version 5 the next epoch is taken over."""
        reply = self._broker.ask(END_TXN, version, **(self.identity | {"committed": committed} | fields))
        if reply["error_code"] == "none" and reply.get("producer_epoch", -1) >= 0:
            self._take(reply)
        return str(reply["error_code"])

    def commit_offsets(self, topic: str, group: str, *, version: int = 5, **fields: Any) -> list[str]:
        """TxnOffsetCommit of offset 42 of partition 0; the errors."""
        partitions = fields.pop("partitions", (0,))
        offsets = [
            {"partition_index": each, "committed_offset": 42, "committed_metadata": ""} for each in partitions
        ]
        asked = self.identity | {"group_id": group, "topics": [{"name": topic, "partitions": offsets}]}
        reply = self._broker.ask(TXN_OFFSET_COMMIT, version, **(asked | fields))
        return [each["error_code"] for named in reply["topics"] for each in named["partitions"]]

    def state(self) -> str:
        return str(self.described()["transaction_state"])

    def described(self) -> dict[str, Any]:
        reply = self._broker.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.transactional_id])
        (state,) = reply["transaction_states"]
        return dict(state)


def latest(broker: ServedBroker, topic: str, level: int, partition: int = 0) -> int:
    """Up to where readers of this isolation level may read."""
    asked = [{"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}]
    topics = [{"name": topic, "partitions": asked}]
    reply = broker.ask(LIST_OFFSETS, 7, replica_id=-1, isolation_level=level, topics=topics)
    return int(reply["topics"][0]["partitions"][0]["offset"])


def committed_offset(broker: ServedBroker, topic: str, group: str, *, stable: bool = True) -> tuple[str, int]:
    """The error and the offset of partition 0."""
    topics = [{"name": topic, "partition_indexes": [0]}]
    groups = [{"group_id": group, "topics": topics}]
    reply = broker.ask(OFFSET_FETCH, 8, groups=groups, require_stable=stable)
    (answer,) = reply["groups"][0]["topics"][0]["partitions"]
    return answer["error_code"], answer["committed_offset"]


def fetch_fields(topic: str, partition: int, level: int, **fields: Any) -> dict[str, Any]:
    """Of a Fetch of version 11, from the beginning of the partition."""
    place = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    place |= {"current_leader_epoch": -1}
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": level,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [place]}],
    } | fields


def fetched(broker: ServedBroker, topic: str, partition: int, level: int) -> dict[str, Any]:
    """What the partition's part of the reply says."""
    reply = broker.ask(FETCH, 11, **fetch_fields(topic, partition, level))
    return dict(reply["responses"][0]["partitions"][0])


def aborted_of(broker: ServedBroker, topic: str, partition: int) -> list[tuple[int, int]]:
    """Producer and first offset of the aborted transactions that readers are told of."""
    reply = fetched(broker, topic, partition, COMMITTED)
    return [(each["producer_id"], each["first_offset"]) for each in reply["aborted_transactions"]]
