"""ApiVersions (18), DescribeCluster (60), DescribeLogDirs (35)."""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.conversation import (
    API_VERSIONS,
    DELETE_RECORDS,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    Conversation,
    scenario,
)
from tests.conformance.record_batches import Record, batch


@scenario(range(5))
def api_versions(conversation: Conversation, version: int) -> None:
    conversation.ask(
        API_VERSIONS, version, "named", client_software_name="test", client_software_version="1.0"
    )
    if version >= 3:
        for name in ("", "a b", "-a", "a-", "a.b-c", "ä", "x" * 300):
            fields = {"client_software_name": name, "client_software_version": "1"}
            conversation.ask(API_VERSIONS, version, f"name {name[:9]!r}", **fields)
        for text in ("", "1 2", "-1"):
            fields = {"client_software_name": "a", "client_software_version": text}
            conversation.ask(API_VERSIONS, version, f"version {text!r}", **fields)


@scenario(range(3))
def describe_cluster(conversation: Conversation, version: int) -> None:
    conversation.ask(DESCRIBE_CLUSTER, version, "plain")
    operations = {"include_cluster_authorized_operations": True}
    conversation.ask(DESCRIBE_CLUSTER, version, "operations", **operations)
    if version >= 1:
        conversation.ask(DESCRIBE_CLUSTER, version, "controllers", endpoint_type=2)
        conversation.ask(DESCRIBE_CLUSTER, version, "unknown type", endpoint_type=7)
    if version >= 2:
        conversation.ask(DESCRIBE_CLUSTER, version, "fenced too", include_fenced_brokers=True)


@scenario(range(1, 6))
def describe_log_dirs(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    conversation.produce(topic, batch(), batch([Record(value=b"x" * 1000)] * 3, codec="gzip"))

    def ask(label: str, topics: list[dict[str, Any]] | None) -> None:
        reply = conversation.client.ask(DESCRIBE_LOG_DIRS, version, topics=topics)
        for folder in reply.results:
            # In the order of a hash table.
            ours = (each for each in folder.topics if each.name == topic.name)
            sizes = {
                str(each.partition_index): [each.partition_size, each.offset_lag, each.is_future_key]
                for found in ours
                for each in found.partitions
            }
            conversation.note(f"{label}, partitions", dict(sorted(sizes.items())))
        folders = [(each.error_code.name, each.log_dir[:1]) for each in reply.results]
        conversation.note(f"{label}, folders", folders)

    ask("one topic", [{"topic": topic.name, "partitions": [0, 1]}])
    ask("one partition", [{"topic": topic.name, "partitions": [0]}])
    ask("all", None)
    delete = [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}]
    conversation.ask_quietly(DELETE_RECORDS, 2, topics=delete, timeout=30_000)
    ask("after records were deleted: the segment stays", [{"topic": topic.name, "partitions": [0]}])
    for label, asked in (
        ("unknown topic", [{"topic": "no-such-topic", "partitions": [0]}]),
        ("unknown partition", [{"topic": topic.name, "partitions": [9]}]),
        ("none", []),
    ):
        conversation.ask(DESCRIBE_LOG_DIRS, version, label, topics=asked)
