"""A conversation with a broker and its transcript, in which what must differ between two brokers looks alike.

What is made alike, and how, is in `likeness.py`. Everything else in an answer is kept: two transcripts are
equal only if the brokers said the same. Order in a list is kept too, but for the lists that Apache Kafka
gives in the order of a hash table.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.answers.likeness import RECENT_MS as RECENT_MS  # noqa: PLC0414 - scenarios take it from here
from tests.conformance.answers.likeness import Likeness
from tests.conformance.engines import Engine
from tests.conformance.raw_client import ConnectionClosedError, RawClient, plain, reply_of
from tests.conformance.record_batches import batch
from tests.conformance.topics import delete_topics

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 21, 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 32, 33, 35, 37
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS, DESCRIBE_TOPIC_PARTITIONS = 44, 60, 61, 75
OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 15, 16, 42, 47
CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that a conversation has made."""

    name: str
    id: uuid.UUID


class Conversation:
    """One connection to one engine, and what was said."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.transcript: list[tuple[str, Any]] = []
        self._client = engine.connect()
        self._prefix = uuid.uuid4().hex
        self._likeness = Likeness(engine.address[1])
        self._others: list[RawClient] = []
        self.topics: list[Topic] = []
        self._labels: dict[str, int] = {}

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        for other in self._others:
            other.close()
        delete_topics(self.engine, self._prefix)

    # -- talking

    def ask(self, api_key: int, version: int, label: str = "", **fields: Any) -> Any:
        """Send, wait for the reply, note it down; "closed" is noted where the broker ends the connection."""
        try:
            reply = self._client.ask(api_key, version, **fields)
        except ConnectionClosedError:
            self.note(label or f"api {api_key}", "closed")
            self.reconnect()
            return None
        self.note(label or f"api {api_key}", plain(reply))
        return reply

    def ask_quietly(self, api_key: int, version: int, **fields: Any) -> Any:
        """For what is not compared here."""
        return self._client.ask(api_key, version, **fields)

    def send_frame(self, label: str, payload: bytes, *, reply: tuple[int, int] | None = None) -> None:
        """Send what may be no request; note the answer of the given API key and version, or the end."""
        self.send_bytes(label, len(payload).to_bytes(4, "big", signed=True) + payload, reply=reply)

    def send_bytes(
        self, label: str, data: bytes, *, reply: tuple[int, int] | None = None, ended: bool = False
    ) -> None:
        try:
            self._client.send_bytes(data)
            if ended:
                self._client.end_of_sending()
            frame = self._client.receive_frame()
            answer = "answered" if reply is None else plain(reply_of(*reply, frame))
        except ConnectionClosedError:
            answer = "closed"
            self.reconnect()
        self.note(label, answer)

    def reconnect(self) -> None:
        self._client.close()
        self._client = self.engine.connect()

    @property
    def client(self) -> RawClient:
        return self._client

    def another(self) -> RawClient:
        """A connection beside the first, for what has to wait."""
        self._others.append(self.engine.connect())
        return self._others[-1]

    def note_reply(self, label: str, reply: Any) -> None:
        self.note(label, plain(reply))

    @property
    def names(self) -> frozenset[str]:
        """The names of topics that this conversation has taken."""
        return frozenset(self._likeness.topics)

    def note(self, label: str, answer: Any) -> None:
        count = self._labels[label] = self._labels.get(label, 0) + 1
        self.transcript.append(
            (label if count == 1 else f"{label} ({count})", self._likeness.alike("", answer))
        )

    # -- what most conversations need first

    def name(self) -> str:
        """A topic's name that nobody has used."""
        # In the order of their names, where a broker sorts.
        known = self._likeness.topics
        name = f"same-{self._prefix}-{len(known):03}"
        known[name] = f"<topic {len(known)}>"
        return name

    def group(self) -> str:
        """A group id that nobody has used."""
        known = self._likeness.groups
        group_id = f"group-{self._prefix}-{len(known):03}"
        known[group_id] = f"<group {len(known)}>"
        return group_id

    def topic(self, partitions: int = 1, **configs: str) -> Topic:
        """A new topic that is ready; settings are written with underscores."""
        return self._create(self.name(), partitions, configs)

    def _create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        reply = self._client.ask(
            CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [
                        {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
                    ],
                }
            ],
            timeout=30_000,
        )
        assert reply.topics[0].error_code == 0, reply
        self.know(reply.topics[0].topic_id, name)
        self.wait_for_leaders(name, partitions)
        self.topics.append(Topic(name=name, id=reply.topics[0].topic_id))
        return self.topics[-1]

    def make_again(self, topic: Topic) -> Topic:
        """Delete the topic and make another one of its name."""
        self.delete(topic)
        return self._create(topic.name, 1, {})

    def know_producer(self, producer_id: int) -> None:
        """Let the id read as that of a producer, in messages too."""
        self._likeness.number("producer_id", producer_id)

    def know(self, topic_id: uuid.UUID, name: str) -> None:
        """Let the id read as the id of the topic, in the order of the topics that had this name."""
        self._likeness.know(topic_id, name)

    def wait_for_leaders(self, name: str, partitions: int) -> None:
        # Apache Kafka's metadata tells of a leader before the leader knows.
        asked = [{"partition_index": each, "timestamp": -1} for each in range(partitions)]

        def ready() -> bool:
            fields = {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}
            reply = self._client.ask(LIST_OFFSETS, 7, **fields)
            return all(each.error_code == 0 for each in reply.topics[0].partitions)

        wait_until(ready)

    def wait_for_setting(self, name: str, setting: str, value: str) -> None:
        """Until the topic's setting has the value: Apache Kafka's broker hears of a change a little later."""
        asked = [{"resource_type": 2, "resource_name": name, "configuration_keys": [setting]}]

        def there() -> bool:
            reply = self._client.ask(DESCRIBE_CONFIGS, 4, resources=asked)
            return bool(reply.results[0].configs[0].value == value)

        wait_until(there)

    def delete(self, topic: Topic) -> None:
        """Delete the topic, and wait until it is gone."""
        self._client.ask(DELETE_TOPICS, 6, topics=[{"topic_id": topic.id, "name": None}], timeout=30_000)

        def gone() -> bool:
            asked = [{"partition_index": 0, "timestamp": -1}]
            fields = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": asked}]}
            return bool(self._client.ask(LIST_OFFSETS, 7, **fields).topics[0].partitions[0].error_code == 3)

        wait_until(gone)

    def produce(self, topic: Topic, *batches: bytes, partition: int = 0, **fields: Any) -> Any:
        """Append without noting it; each batch in a request of its own."""
        reply = None
        for records in batches or (batch(),):
            reply = self._client.ask(PRODUCE, 11, **produce_fields(topic, records, partition, **fields))
            assert reply.responses[0].partition_responses[0].error_code == 0, reply
        return reply


def produce_fields(
    topic: Topic, records: bytes | None, partition: int = 0, *, acks: int = -1, **fields: Any
) -> dict[str, Any]:
    """The fields of a Produce request for one partition, in all versions."""
    return {
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [
            {
                "name": topic.name,
                "topic_id": topic.id,
                "partition_data": [{"index": partition, "records": records}],
            }
        ],
    } | fields


def fetch_fields(topic: Topic, offset: int = 0, partition: int = 0, **fields: Any) -> dict[str, Any]:
    """The fields of a Fetch request for one partition, in all versions."""
    partition_fields = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": fields.pop("partition_max_bytes", 1 << 20),
        "current_leader_epoch": fields.pop("current_leader_epoch", -1),
        "last_fetched_epoch": fields.pop("last_fetched_epoch", -1),
    }
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "topics": [{"topic": topic.name, "topic_id": topic.id, "partitions": [partition_fields]}],
    } | fields


def wait_until(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A conversation to be had with every version of an API."""

    name: str
    versions: tuple[int, ...]
    play: Callable[[Conversation, int], None]


SCENARIOS: list[Scenario] = []


def scenario(
    versions: Iterable[int],
) -> Callable[[Callable[[Conversation, int], None]], Callable[[Conversation, int], None]]:
    """Add the function to what is played, once for each version."""

    def add(play: Callable[[Conversation, int], None]) -> Callable[[Conversation, int], None]:
        SCENARIOS.append(Scenario(name=play.__name__, versions=tuple(versions), play=play))
        return play

    return add
