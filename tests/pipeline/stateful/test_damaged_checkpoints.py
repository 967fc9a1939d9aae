"""Checkpoints that a power failure has damaged: the query heals, says so, and doubles nothing."""

from __future__ import annotations

import shutil
import time
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.spark.stateful.batch_writer import BatchWriter
from tests.pipeline.plans.harness import Plans
from tests.pipeline.stateful.stateful_harness import Stateful
from tests.pipeline.stateful.test_repeated_batches import AGGREGATE, KINDS, STREAM_JOIN, Kind

ALL_KINDS = {"aggregate": AGGREGATE, "join of streams": STREAM_JOIN, **KINDS}


def half_written(kind: Kind, plans: Plans, monkeypatch: pytest.MonkeyPatch) -> Stateful:
    """Killed within the batch of its second part."""
    stateful = Stateful(plans, kind.text, **kind.topics)
    for topic, records in kind.first.items():
        stateful.produce(topic, *records)
    stateful.run()
    for topic, records in kind.second.items():
        stateful.produce(topic, *records)
    stateful.die_within_a_batch(monkeypatch)
    return stateful


def test_an_empty_entry_is_put_aside(plans: Plans) -> None:
    """Spark would fail with `Incomplete log file` at every start."""
    stateful = Stateful(plans, AGGREGATE.text, **AGGREGATE.topics)
    stateful.produce("s", *AGGREGATE.first["s"])
    stateful.run()
    generation = stateful.generation
    (generation.folder / "offsets/1").write_bytes(b"")
    stateful.produce("s", *AGGREGATE.second["s"])
    assert stateful.run() == "unreadable entries of its checkpoint were put aside: offsets/1"
    assert stateful.rows() == AGGREGATE.expected
    assert stateful.generation == generation
    assert stateful.run() == ""


@pytest.mark.long
def test_a_batch_whose_commit_is_cut_off_is_repeated(plans: Plans) -> None:
    stateful = Stateful(plans, AGGREGATE.text, **AGGREGATE.topics)
    stateful.produce("s", *AGGREGATE.first["s"])
    stateful.run()
    stateful.produce("s", *AGGREGATE.second["s"])
    stateful.run()
    (stateful.folder / "commits/1").write_bytes(b"")
    (stateful.folder / "headrace/notes/1").write_bytes(b"")
    assert stateful.run() == "unreadable entries of its checkpoint were put aside: commits/1"
    assert stateful.rows() == AGGREGATE.expected


def test_a_repeated_batch_may_give_other_values(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sums of doubles and lists do: of a batch, the sink has one row of each key."""
    stateful = Stateful(plans, AGGREGATE.text, **AGGREGATE.topics)
    stateful.produce("s", *AGGREGATE.first["s"])
    new = BatchWriter._new

    def other(writer: BatchWriter, rows: DataFrame, number: int) -> DataFrame:
        return new(writer, rows.withColumn("value", F.concat("value", F.lit(" "))), number)

    with monkeypatch.context() as patched:
        patched.setattr(BatchWriter, "_new", other)
        stateful.die_within_a_batch(monkeypatch)
    stateful.run()
    found = stateful.sink()
    assert len({out.key for out in found}) == len(found) == 12
    assert 0 < sum((out.value or b"").endswith(b" ") for out in found) < 12


@pytest.mark.long
@pytest.mark.parametrize("name", ALL_KINDS)
def test_the_range_of_a_half_written_batch_is_lost(
    plans: Plans, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind = ALL_KINDS[name]
    stateful = half_written(kind, plans, monkeypatch)
    offsets = sorted(int(path.name) for path in (stateful.folder / "offsets").glob("[0-9]*"))
    (stateful.folder / f"offsets/{offsets[-1]}").unlink()
    for topic, records in kind.nudge.items():
        stateful.produce(topic, *records)
    remark = stateful.run()
    assert remark == f"went back to the end of batch {offsets[-2]}; the former checkpoint was put aside"
    assert kind.shown(stateful.rows()) == kind.expected
    assert stateful.run() == ""
    assert kind.shown(stateful.rows()) == kind.expected


@pytest.mark.long
@pytest.mark.parametrize("name", ALL_KINDS)
def test_a_lost_state_is_rebuilt(plans: Plans, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kind = ALL_KINDS[name]
    stateful = half_written(kind, plans, monkeypatch)
    former = stateful.folder
    if (former / "state").exists():
        shutil.rmtree(former / "state")
    (former / "metadata").write_bytes(b"")
    remark = stateful.run(more_batches=kind.more_batches)
    assert remark.startswith("rebuilds its state from the beginning of its sources, as its checkpoint cannot")
    assert kind.shown(stateful.rows()) == kind.expected
    assert former.exists()
    assert stateful.run() == ""
    assert kind.shown(stateful.rows()) == kind.expected


@pytest.mark.long
def test_a_state_that_only_spark_finds_damaged_is_rebuilt(plans: Plans) -> None:
    stateful = Stateful(plans, AGGREGATE.text, **AGGREGATE.topics)
    stateful.produce("s", *AGGREGATE.first["s"])
    stateful.run()
    for changes in stateful.folder.glob("state/*/*/*.changelog"):
        changes.write_bytes(b"\0" * changes.stat().st_size)
    # Under another path, so that Spark does not find the state in its memory.
    stateful.folder.rename(stateful.folder.with_name(stateful.folder.name.rpartition("-")[0] + "-abc"))
    stateful.produce("s", *AGGREGATE.second["s"])
    remark = ""
    for _ in range(4):
        with stateful.running() as running:
            remark = running.remark
            try:
                stateful.settle(running)
                break
            except AssertionError:
                assert not running.handle.isActive
    assert remark.startswith("rebuilds its state")
    assert stateful.rows() == AGGREGATE.expected


@pytest.mark.long
def test_a_checkpoint_that_is_gone_is_rebuilt(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits in the log tell that the query has run before."""
    stateful = half_written(STREAM_JOIN, plans, monkeypatch)
    shutil.rmtree(stateful.folder.parent)
    assert stateful.run() == "rebuilds its state from the beginning of its sources"
    assert stateful.rows() == STREAM_JOIN.expected


@pytest.mark.long
def test_records_that_expire_unread_are_a_gap(plans: Plans) -> None:
    stateful = Stateful(plans, AGGREGATE.text, **AGGREGATE.topics)
    stateful.produce("s", *AGGREGATE.first["s"])
    stateful.run()
    topic = stateful.script.topics["s"]
    read = plans.cluster.end_offsets(topic)
    stateful.produce("s", *AGGREGATE.first["s"])
    ends = plans.cluster.end_offsets(topic)
    expected = {(number, read[number], end) for number, end in ends.items()}
    admin = AdminClient({"bootstrap.servers": plans.bootstrap})
    expired = [TopicPartition(topic, number, end) for number, end in ends.items()]
    for future in admin.delete_records(expired).values():
        future.result(120)
    stateful.produce("s", *AGGREGATE.first["s"])
    with stateful.running() as running:
        stateful.settle(running)
        # Those of the query that writes dead letters are among them.
        assert {(gap.partition, gap.first, gap.end) for gap in running.gaps} >= expected
    with stateful.running() as running:
        assert {(gap.partition, gap.first, gap.end) for gap in running.gaps} >= expected
    assert Counter(value for _, value in stateful.rows().elements()) == {
        "N=1, TOTAL=1.0": 12,
        "N=2, TOTAL=2.0": 12,
    }


@pytest.mark.long
def test_a_new_partition_whose_first_records_have_expired_stops_nothing(plans: Plans) -> None:
    """Spark takes it that a new partition begins at 0, and fails where it does not."""
    stateful = Stateful(plans, AGGREGATE.text, **AGGREGATE.topics)
    stateful.produce("s", *AGGREGATE.first["s"])
    stateful.run()
    topic, new = stateful.script.topics["s"], AGGREGATE.topics["s"]
    admin = AdminClient({"bootstrap.servers": plans.bootstrap})
    admin.create_partitions([NewPartitions(topic, new + 1)])[topic].result(120)
    while len(plans.producer.list_topics(topic).topics[topic].partitions) <= new:
        time.sleep(0.02)
    stateful.topics = plans.cluster.lookup(stateful.topics)
    plans.produce(topic, ("new", {"v": 1}, 1_000), ("new", {"v": 2}, 1_000), partition=new)
    expired = TopicPartition(topic, new, 1)
    admin.delete_records([expired])[expired].result(120)
    with stateful.running() as running:
        stateful.settle(running)
        assert {(gap.partition, gap.first, gap.end) for gap in running.gaps} == {(new, 0, 1)}
    assert stateful.rows()[b"new", "N=1, TOTAL=2.0"] == 1
