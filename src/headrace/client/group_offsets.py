"""The committed offsets of a consumer group, for whoever shows or changes them while no member is there.

Every method asks the cluster; nothing is cached. Safe for several threads; every method may block. Raises
log_unavailable, or query_failed where the log refuses (a group with members, a topic that does not exist).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from headrace.client.connections import open_admin
from headrace.client.errors import log_refused
from headrace.client.topics import Partition

_REQUEST_SECONDS: Final = 15.0
_NO_GROUP: Final = frozenset({KafkaError.GROUP_ID_NOT_FOUND})


class GroupOffsets:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = open_admin(bootstrap)

    def committed(self, group: str) -> dict[Partition, int]:
        """Where the group goes on, by topic and partition; empty if there is no such group."""
        futures = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=_REQUEST_SECONDS
        )
        found = self._result(futures, f"tell the offsets of group `{group}`")
        if found is None:
            return {}
        return {
            (each.topic, each.partition): each.offset
            for each in found.topic_partitions or ()
            if each.offset >= 0
        }

    def set(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Set these offsets; others stay as they are."""
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(*place, offset) for place, offset in positions.items()]
        )
        futures = self._admin.alter_consumer_group_offsets([wanted], request_timeout=_REQUEST_SECONDS)
        action = f"set the offsets of group `{group}`"
        found = self._result(futures, action)
        for each in found.topic_partitions or () if found is not None else ():
            if each.error is not None:
                raise log_refused(self._bootstrap, action, each.error)

    def delete(self, group: str) -> None:
        """Delete the group with its offsets; nothing happens if there is none."""
        futures = self._admin.delete_consumer_groups([group], request_timeout=_REQUEST_SECONDS)
        self._result(futures, f"delete group `{group}`")

    def _result(self, futures: Mapping[str, Any], action: str) -> Any:
        (future,) = futures.values()
        try:
            return future.result()
        except KafkaException as error:
            if error.args[0].code() in _NO_GROUP:
                return None
            raise log_refused(self._bootstrap, action, error.args[0]) from error
