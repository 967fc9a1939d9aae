"""Reading the sinks of a query back, and its commits, from a real log."""

from __future__ import annotations

import dataclasses
import uuid

import pytest
from confluent_kafka import Producer

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.runs import commit_log
from headrace.pipeline.runs.commit_log import COMMITS_TOPIC, CommitLog, part_key, read_histories
from headrace.pipeline.runs.commits import Commit, History
from headrace.testing import EmbeddedBroker
from tests.runs.sink_topic import SOURCE, Sink


def test_only_what_the_query_derived_from_its_positions_on_counts(sink: Sink) -> None:
    sink.write(0, f"Q/{SOURCE}/0/4/0", f"Q/{SOURCE}/0/7/0", f"QQ/{SOURCE}/0/8/0", "Q/another/0/9/0")
    sink.write(1, f"Q/{SOURCE}/0/5/0", f"Q/{SOURCE}/1/2/3", "nonsense", f"Q/{SOURCE}/2/2/0")
    found = sink.read_back(sinks_from={0: 0, 1: 0}, positions={0: 5, 1: 0})
    written = found.written[SOURCE]
    assert {offset for offset in range(20) if written[0].has(offset, 0)} == {5, 7}
    assert written[1].has(2, 3)
    assert not written[1].has(2, 0)
    assert 2 not in written, "a partition without a position"
    assert found.sinks_to == {sink.topic.topic_id: {0: 4, 1: 4}}


def test_reading_begins_where_the_commit_says(sink: Sink) -> None:
    sink.write(0, *(f"Q/{SOURCE}/0/{offset}/0" for offset in range(10)))
    found = sink.read_back(sinks_from={0: 6, 1: 0}, positions={0: 0, 1: 0})
    assert {offset for offset in range(20) if found.written[SOURCE][0].has(offset, 0)} == {6, 7, 8, 9}


def test_an_open_transaction_of_somebody_else_hides_nothing(sink: Sink) -> None:
    other = Producer({"bootstrap.servers": sink.cluster.bootstrap, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(10)
    other.begin_transaction()
    sink.write(0, "Z/other/0/0/0", producer=other)
    sink.write(0, f"Q/{SOURCE}/0/0/0")
    try:
        found = sink.read_back(sinks_from={0: 0, 1: 0}, positions={0: 0})
        assert found.written[SOURCE][0].has(0, 0)
    finally:
        other.abort_transaction(10)
    # The last offset is now that of a marker, which is no record; but it does not keep the reader waiting.
    found = sink.read_back(sinks_from={0: 1, 1: 0}, positions={0: 0})
    assert found.written[SOURCE][0].has(0, 0)
    assert found.sinks_to[sink.topic.topic_id] == {0: 2, 1: 0}


def test_commits_are_found_by_the_next_process(broker: EmbeddedBroker) -> None:
    query, other = f"Q{uuid.uuid4().hex}", f"R{uuid.uuid4().hex}"
    cluster = Cluster(broker.bootstrap)
    commit = Commit(at=1, positions={"s": {0: 5}}, sinks_from={"t": {0: 1}}, sinks_to={"t": {0: 3}})
    log = CommitLog(cluster)
    log.add(query, commit)
    log.replace(part_key(query, 0), History(start=commit))
    log.add(other, commit)
    log.close()
    again = CommitLog(cluster)
    assert again.history(query).commits == (commit,)
    assert again.history(part_key(query, 0)).start == commit
    again.forget(query)
    again.forget_all_but([])
    again.close()
    assert not {query, part_key(query, 0), other} & read_histories(cluster).keys()
    cluster.close()


def test_a_history_that_cannot_be_read_is_none(broker: EmbeddedBroker) -> None:
    cluster = Cluster(broker.bootstrap)
    CommitLog(cluster).close()
    cluster.produce(COMMITS_TOPIC, b"strange", b"{")
    assert CommitLog(cluster).history("strange") == History()
    cluster.produce(COMMITS_TOPIC, b"strange", None)
    cluster.close()


def test_a_record_of_nobody_does_not_end_a_start(broker: EmbeddedBroker) -> None:
    cluster = Cluster(broker.bootstrap)
    CommitLog(cluster).close()
    cluster.produce(COMMITS_TOPIC, b"\xff\xfe", b"x")
    CommitLog(cluster).close()
    cluster.produce(COMMITS_TOPIC, b"\xff\xfe", None)
    cluster.close()


def test_the_commits_of_a_former_statement_do_not_count(broker: EmbeddedBroker) -> None:
    query = f"Q{uuid.uuid4().hex}"
    part = part_key(query, 0)
    cluster = Cluster(broker.bootstrap)
    commit = Commit(at=1, positions={"s": {0: 5}}, sinks_from={"t": {0: 1}}, sinks_to={"t": {0: 3}})
    log = CommitLog(cluster)
    log.begin(query, "first")
    log.add(query, commit)
    log.replace(part, dataclasses.replace(log.history(part), start=commit))
    log.close()
    again = CommitLog(cluster)
    again.begin(query, "first")
    assert (again.history(query).commits, again.history(part).start) == ((commit,), commit)
    again.close()
    other = CommitLog(cluster)
    other.begin(query, "second")
    assert other.history(query) == other.history(part) == History(statement="second")
    other.close()
    found = read_histories(cluster)
    assert found[query] == found[part] == History(statement="second"), "also for whoever starts next"
    cluster.close()


def test_large_histories_are_written_and_one_that_is_not_is_told(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    query = f"Q{uuid.uuid4().hex}"
    cluster = Cluster(broker.bootstrap)
    # As older versions made it.
    cluster.configure_topic(COMMITS_TOPIC, {"max.message.bytes": "100000"})
    log = CommitLog(cluster)
    offsets = {"t": dict.fromkeys(range(60_000), 10**12)}
    large = Commit(at=1, positions=offsets, sinks_from={}, sinks_to={})
    log.add(query, large)
    log.close()
    assert log.unwritten(query) == ""
    assert read_histories(cluster)[query].commits == (large,)
    log = CommitLog(cluster)
    offsets = {"t": dict.fromkeys(range(1_000_000), 10**12)}
    log.add(part_key(query, 0), dataclasses.replace(large, positions=offsets))
    assert "too large" in log.unwritten(query)
    assert [record.levelname for record in caplog.records if "not written" in record.message] == ["WARNING"]
    log.add(part_key(query, 0), dataclasses.replace(large, positions={}))
    log.forget(query)
    assert log.unwritten(query) == ""
    log.close()
    cluster.close()


@pytest.mark.parametrize(("partitions", "policy"), [(2, "compact"), (1, "delete")])
def test_a_topic_that_cannot_keep_commits_is_refused(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, partitions: int, policy: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = f"c{uuid.uuid4().hex}"
    monkeypatch.setattr(commit_log, "COMMITS_TOPIC", topic)
    cluster.create_topic(topic, partitions=partitions, config={"cleanup.policy": policy})
    with pytest.raises(HeadraceError, match="cannot hold the commits of queries"):
        CommitLog(cluster)
    cluster.close()


def test_identities_that_somebody_made_up_do_not_end_a_start(sink: Sink) -> None:
    made_up = [f"0/5/{each}" for each in (-1, 10**11, 999_999_999, "٢")]
    made_up += [f"0/1{'0' * 30}/0", "-1/5/0", "0/-5/0"]
    sink.write(0, *(f"Q/{SOURCE}/{each}" for each in made_up), f"Q/{SOURCE}/0/7/2")
    found = sink.read_back(sinks_from={0: 0, 1: 0}, positions={0: 0})
    (stretch,) = found.written[SOURCE][0].stretches
    assert (stretch.first, stretch.last, stretch.width) == (7, 7, 3)
