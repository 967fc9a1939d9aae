"""A conversation with a broker and its transcript, in which what must differ between two brokers looks alike.

What must differ: names of topics (each play takes new ones), topic ids, producer ids, session ids, addresses,
folders, and the time. Everything else in an answer is kept, so that two transcripts are equal only if the
brokers said the same. Order in a list is kept too, but for the lists that Apache Kafka gives in the order of
a hash table.
"""

from __future__ import annotations

import base64
import datetime
import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.conformance.engines import Engine
from tests.conformance.raw_client import ConnectionClosedError, RawClient, plain, reply_of
from tests.conformance.record_batches import batch, read_batches
from tests.conformance.topics import delete_topics

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 21, 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 32, 33, 35, 37
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS, DESCRIBE_TOPIC_PARTITIONS = 44, 60, 61, 75

# Apache Kafka collects these in hash tables, or their order means nothing: compared by what names an item.
UNORDERED = {
    "partition_responses": ("index",),
    "partitions": ("partition_index",),
    "responses": ("topic", "topic_id"),
    "api_keys": ("api_key",),
    "supported_features": ("name",),
    "finalized_features": ("name",),
    "configs": ("name",),
    "active_producers": ("producer_id",),
}
# Times nearer than this are the time of the test.
RECENT_MS = 600_000


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
        self._names: dict[str, str] = {}
        self._ids: dict[uuid.UUID, str] = {}
        self._producers: dict[int, str] = {}
        self._sessions: dict[int, str] = {}
        self._labels: dict[str, int] = {}

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
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

    def note_reply(self, label: str, reply: Any) -> None:
        self.note(label, plain(reply))

    @property
    def names(self) -> frozenset[str]:
        """The names of topics that this conversation has taken."""
        return frozenset(self._names)

    def note(self, label: str, answer: Any) -> None:
        count = self._labels[label] = self._labels.get(label, 0) + 1
        self.transcript.append((label if count == 1 else f"{label} ({count})", self._alike("", answer)))

    # -- what most conversations need first

    def name(self) -> str:
        """A topic's name that nobody has used."""
        # In the order of their names, where a broker sorts.
        name = f"same-{self._prefix}-{len(self._names):03}"
        self._names[name] = f"<topic {len(self._names)}>"
        return name

    def topic(self, partitions: int = 1, **configs: str) -> Topic:
        """A new topic that is ready; settings are written with underscores."""
        name = self.name()
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
        return Topic(name=name, id=reply.topics[0].topic_id)

    def know_producer(self, producer_id: int) -> None:
        """Let the id read as that of a producer, in messages too."""
        self._number_alike("producer_id", producer_id)

    def know(self, topic_id: uuid.UUID, name: str) -> None:
        """Let the id read as the id of the topic, in the order of the topics that had this name."""
        label = f"<id of {self._names[name].strip('<>')}"
        count = sum(each.startswith(label) for each in self._ids.values())
        self._ids.setdefault(topic_id, f"{label}{' again' * count}>")

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

    # -- making answers alike

    def _alike(self, key: str, value: Any) -> Any:  # noqa: PLR0911
        if isinstance(value, dict):
            return {name: self._alike(name, each) for name, each in value.items()}
        if isinstance(value, list):
            items = [self._alike("", each) for each in value if not self._is_foreign(key, each)]
            return _by_name(key, items)
        if isinstance(value, uuid.UUID):
            return self._ids.get(value, str(value))
        if isinstance(value, bytes):
            return [self._batch_alike(each) for each in read_batches(value)]
        if isinstance(value, datetime.datetime):
            return _time_alike(int(value.timestamp() * 1000))
        if isinstance(value, str):
            return self._text_alike(key, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number_alike(key, value)
        return value

    def _is_foreign(self, key: str, value: Any) -> bool:
        """Whether it tells of a topic that this conversation has not made."""
        if key not in {"topics", "responses"} or not isinstance(value, dict) or len(self._names) == 0:
            return False
        name = value.get("name")
        return isinstance(name, str) and name not in self._names and value.get("error_code") == "none"

    def _text_alike(self, key: str, text: str) -> str:
        if key == "cluster_id":
            return "<cluster id>" if re.fullmatch(r"[A-Za-z0-9_-]{22}", text) else text
        if key == "log_dir":
            return "<folder>" if text.startswith("/") else text
        for name, label in self._names.items():
            text = text.replace(name, label)
        for topic_id, label in self._ids.items():
            text = text.replace(kafka_id(topic_id), label)
        for producer_id, label in self._producers.items():
            text = re.sub(rf"\b{producer_id}\b", label, text)
        return text.replace(str(self.engine.address[1]), "<port>")

    def _number_alike(self, key: str, number: int) -> Any:  # noqa: PLR0911
        if key == "port":
            return "<port>" if number == self.engine.address[1] else number
        if key == "session_id" and number > 0:
            return self._sessions.setdefault(number, f"<session {len(self._sessions)}>")
        if key == "producer_id" and number >= 0:
            return self._producers.setdefault(number, f"<producer {len(self._producers)}>")
        if key in {"total_bytes", "usable_bytes"} and number > 0:
            return "<bytes>"
        if key in {"timestamp", "max_timestamp", "last_timestamp"}:
            return _time_alike(number)
        if key == "finalized_features_epoch" and number > 0:
            return "<epoch>"
        return number

    def _batch_alike(self, each: Any) -> dict[str, Any]:
        return {
            "base_offset": each.base_offset,
            "leader_epoch": each.leader_epoch,
            "codec": each.codec,
            "attributes": each.attributes,
            "last_offset_delta": each.last_offset_delta,
            "base_timestamp": _time_alike(each.base_timestamp),
            "max_timestamp": _time_alike(each.max_timestamp),
            "producer_id": self._number_alike("producer_id", each.producer_id),
            "producer_epoch": each.producer_epoch,
            "base_sequence": each.base_sequence,
            "record_count": each.record_count,
            "crc_is_right": each.crc_is_right,
            "records": each.records_bytes.hex() if len(each.payload) < 500 else len(each.records_bytes),
        }


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


def kafka_id(topic_id: uuid.UUID) -> str:
    """A topic id as Apache Kafka writes it in messages."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def wait_until(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def _by_name(key: str, items: list[Any]) -> Any:
    """A dictionary where the order means nothing and every item has another name, the list otherwise."""
    for field in UNORDERED.get(key, ()):
        named = {str(each[field]): each for each in items if isinstance(each, dict) and field in each}
        if items and len(named) == len(items):
            return named
    return items


def _time_alike(milliseconds: int) -> Any:
    now = time.time_ns() // 1_000_000
    return "<now>" if abs(now - milliseconds) < RECENT_MS else milliseconds


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
