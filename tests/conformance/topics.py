"""Topics for tests that look at something else: made over the wire, and ready when the call returns."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.engines import Engine

LIST_OFFSETS, METADATA, FIND_COORDINATOR, CREATE_TOPICS, DELETE_TOPICS = 2, 3, 10, 19, 20
INIT_PRODUCER_ID, DESCRIBE_LOG_DIRS = 22, 35


def warm_up(engine: Engine) -> None:
    """Wait for what Apache Kafka makes when it is first asked for: producer ids, and internal topics."""
    with engine.connect() as client:

        def warm() -> bool:
            replies = [
                client.ask(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000),
                *(client.ask(FIND_COORDINATOR, 3, key="a-group", key_type=kind) for kind in (0, 1)),
            ]
            return all(each.error_code == 0 for each in replies)

        deadline = time.monotonic() + 120
        while not warm():
            assert time.monotonic() < deadline, "no producer ids or no coordinator"
            time.sleep(0.05)


def create_topic(engine: Engine, name: str, partitions: int = 1, **configs: str) -> None:
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    with engine.connect() as client:
        reply = client.ask(CREATE_TOPICS, 7, topics=[topic], timeout=60_000)
        assert reply.topics[0].error_code == 0, reply
        # Apache Kafka's metadata tells of a leader before the leader knows.
        deadline = time.monotonic() + 120
        while not all(offset is not None for offset in end_offsets(client, name, partitions)):
            assert time.monotonic() < deadline, f"{name} has no leaders yet"
            time.sleep(0.01)


def delete_topics(engine: Engine, part: str) -> None:
    """Delete what has this in its name: the broker serves other tests after this one."""
    with engine.connect() as client:
        named = (each.name for each in client.ask(METADATA, 12, topics=None).topics)
        found = [each for each in named if each is not None and part in each]
        if found:
            client.ask(DELETE_TOPICS, 5, topic_names=found, timeout=60_000)


def end_offsets(client: Any, name: str, partitions: int = 1) -> list[int | None]:
    """The next offset of each partition; None where there is an error."""
    asked = [{"partition_index": each, "timestamp": -1} for each in range(partitions)]
    reply = client.ask(LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": name, "partitions": asked}])
    found = sorted(reply.topics[0].partitions, key=lambda each: each.partition_index)
    return [each.offset if each.error_code == 0 else None for each in found]


def log_folder(engine: Engine) -> str:
    """Where the engine keeps its partitions."""
    with engine.connect() as client:
        (folder,) = client.ask(DESCRIBE_LOG_DIRS, 4, topics=None).results
    return str(folder.log_dir)
