"""Where the copy of a global table goes on reading its topic. Starts no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.cluster import Cluster
from headrace.pipeline.spark import refreshing
from headrace.pipeline.spark.refreshing import Refreshing
from headrace.testing import EmbeddedBroker

EARLIEST = -2
POSITION = 4


class NoSparkError(Exception):
    pass


class Copy:
    def __init__(self) -> None:
        self.made_anew = 0

    def make_anew(self) -> None:
        self.made_anew += 1


@pytest.mark.parametrize("expired", [0, POSITION, POSITION + 1])
def test_a_copy_behind_which_records_have_expired_is_made_anew(
    broker: EmbeddedBroker,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expired: int,
) -> None:
    """Spark would fail at every start, and the copy would keep rows whose deletions it has not seen."""
    begins = POSITION if expired <= POSITION else EARLIEST
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=1)
    for _ in range(8):
        cluster.produce(topic_name, b"key", b"value")
    place = TopicPartition(topic_name, 0, expired)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_records([place])[place].result(30)
    monkeypatch.setattr(refreshing, "copied_positions", lambda _folder: {0: POSITION})
    asked: list[str] = []

    def stream(offsets: str) -> Any:
        asked.append(offsets)
        raise NoSparkError

    copy: Any = Copy()
    topic = cluster.topic(topic_name)
    assert topic is not None
    kept = Refreshing(copy, topic, folder=tmp_path / "copy", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(NoSparkError):
        kept.start(stream, name="q", cluster=cluster)
    assert [json.loads(each) for each in asked] == [{topic_name: {"0": begins}}]
    assert copy.made_anew == (begins == EARLIEST)
    cluster.close()
