"""Makes the answers of two brokers look alike where they must differ, and nowhere else.

What must differ: names of topics and groups (each play takes new ones), topic ids, ids of producers, members
and sessions, addresses, folders, and the time. A name that stands for one of them is given out in the order
in which they come up, so two conversations that go the same way read the same.
"""

from __future__ import annotations

import base64
import datetime
import re
import time
import uuid
from typing import Any

from tests.conformance.record_batches import read_batches

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
    "markers": ("producer_id",),
    "transaction_states": ("transactional_id",),
    "results_by_transaction": ("transactional_id",),
    "topic_results": ("name",),
    "results_by_topic_v3_and_below": ("name",),
    "results_by_partition": ("partition_index",),
    "groups": ("group_id",),
    "results": ("group_id",),
    "members": ("member_id",),
}
# Bytes that only clients understand.
OPAQUE = frozenset({"metadata", "assignment", "member_metadata", "member_assignment"})
# Ids that brokers make: a prefix and a random part, in one of Java's two ways to write it.
MADE_ID = re.compile(r"(.*?-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_-]{22})")
# Times nearer than this are the time of the test.
RECENT_MS = 600_000


class Likeness:
    """Of one conversation with the broker at this port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.topics: dict[str, str] = {}
        self.groups: dict[str, str] = {}
        self._ids: dict[uuid.UUID, str] = {}
        self._members: dict[str, str] = {}
        self._producers: dict[int, str] = {}
        self._sessions: dict[int, str] = {}

    def know(self, topic_id: uuid.UUID, name: str) -> None:
        """Let the id read as the id of the topic, in the order of the topics that had this name."""
        label = f"<id of {self.topics[name].strip('<>')}"
        count = sum(each.startswith(label) for each in self._ids.values())
        self._ids.setdefault(topic_id, f"{label}{' again' * count}>")

    def alike(self, key: str, value: Any) -> Any:  # noqa: PLR0911
        """What is compared of a field of this name."""
        if isinstance(value, dict):
            return {name: self.alike(name, each) for name, each in value.items()}
        if isinstance(value, list):
            items = [self.alike("", each) for each in value if not self._is_foreign(key, each)]
            return _by_name(key, items)
        if isinstance(value, uuid.UUID):
            return self._ids.get(value, str(value))
        if isinstance(value, bytes):
            return value.hex() if key in OPAQUE else [self._batch(each) for each in read_batches(value)]
        if isinstance(value, datetime.datetime):
            return _time(int(value.timestamp() * 1000))
        if isinstance(value, str):
            return self._text(key, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self.number(key, value)
        return value

    def _is_foreign(self, key: str, value: Any) -> bool:
        """Whether it tells of a topic or a group that this conversation has not made."""
        if not isinstance(value, dict):
            return False
        if key == "groups" and "protocol_type" in value:
            return value["group_id"] not in self.groups and value["group_id"] != ""
        if key not in {"topics", "responses"} or len(self.topics) == 0:
            return False
        name = value.get("name")
        return isinstance(name, str) and name not in self.topics and value.get("error_code") == "none"

    def _text(self, key: str, text: str) -> str:
        if key == "cluster_id":
            return "<cluster id>" if re.fullmatch(r"[A-Za-z0-9_-]{22}", text) else text
        if key == "log_dir":
            return "<folder>" if text.startswith("/") else text
        if key in {"member_id", "leader"}:
            return self._member(text)
        # Before the names that stand for others, in which there are numbers, too.
        for producer_id, label in self._producers.items():
            text = re.sub(rf"\b{producer_id}\b", label, text)
        for known in (self.topics, self.groups, self._members):
            for name, label in known.items():
                text = text.replace(name, label)
        for topic_id, label in self._ids.items():
            text = text.replace(kafka_id(topic_id), label)
        return text.replace(str(self._port), "<port>")

    def _member(self, member_id: str) -> str:
        made = MADE_ID.fullmatch(member_id)
        if made is None:
            return member_id
        # The shape stays, for it is the broker's own; what is random becomes a number.
        shape = "uuid" if len(made[2]) == 36 else "id"
        return self._members.setdefault(member_id, f"<{made[1] or ''}{shape} {len(self._members)}>")

    def number(self, key: str, number: int) -> Any:  # noqa: PLR0911
        if key == "port":
            return "<port>" if number == self._port else number
        if key == "session_id" and number > 0:
            return self._sessions.setdefault(number, f"<session {len(self._sessions)}>")
        if key == "producer_id" and number >= 0:
            return self._producers.setdefault(number, f"<producer {len(self._producers)}>")
        if key in {"total_bytes", "usable_bytes"} and number > 0:
            return "<bytes>"
        if key in {"timestamp", "max_timestamp", "last_timestamp"}:
            return _time(number)
        if key == "finalized_features_epoch" and number > 0:
            return "<epoch>"
        return number

    def _batch(self, each: Any) -> dict[str, Any]:
        return {
            "base_offset": each.base_offset,
            "leader_epoch": each.leader_epoch,
            "codec": each.codec,
            "attributes": each.attributes,
            "last_offset_delta": each.last_offset_delta,
            "base_timestamp": _time(each.base_timestamp),
            "max_timestamp": _time(each.max_timestamp),
            "producer_id": self.number("producer_id", each.producer_id),
            "producer_epoch": each.producer_epoch,
            "base_sequence": each.base_sequence,
            "record_count": each.record_count,
            "crc_is_right": each.crc_is_right,
            "records": each.records_bytes.hex() if len(each.payload) < 500 else len(each.records_bytes),
        }


def kafka_id(topic_id: uuid.UUID) -> str:
    """A topic id as Apache Kafka writes it in messages."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _by_name(key: str, items: list[Any]) -> Any:
    """A dictionary where the order means nothing and every item has another name, the list otherwise."""
    for field in UNORDERED.get(key, ()):
        named = {str(each[field]): each for each in items if isinstance(each, dict) and field in each}
        if items and len(named) == len(items):
            return named
    if key == "partitions" and all(isinstance(each, int) for each in items):
        return sorted(items)
    return items


def _time(milliseconds: int) -> Any:
    now = time.time_ns() // 1_000_000
    return "<now>" if abs(now - milliseconds) < RECENT_MS else milliseconds
