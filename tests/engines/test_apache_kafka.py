"""Apache Kafka as an engine, driven by a client that nobody here wrote."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.core.errors import HeadraceError
from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from tests.ports import free_port, free_ports

READY_TIMEOUT = 120.0


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.max.bytes": 8_000_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: error and errors.append(error))
    assert producer.flush(60) == 0
    assert errors == []


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + 120
        while len(values) < count and time.monotonic() < deadline:
            values += [message.value() for message in consumer.consume(count - len(values), timeout=1.0)]
        return values
    finally:
        consumer.close()


def wait_until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def test_what_is_produced_is_consumed(kafka: ApacheKafka, topic_name: str) -> None:
    values = [b"first", b"second", b"x" * 1_100_000]
    produce(kafka.bootstrap, topic_name, values)
    assert consume(kafka.bootstrap, topic_name, 3) == values


def test_a_group_of_consumers_gets_its_partitions_at_once(kafka: ApacheKafka, topic_name: str) -> None:
    produce(kafka.bootstrap, topic_name, [b"one"])
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": topic_name, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic_name])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"one"
    finally:
        consumer.close()


def test_a_restart_keeps_data_identity_and_configuration(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts, topic_name: str
) -> None:
    engine = ApacheKafka(
        tmp_path / "with, comma and ä",
        java,
        artifacts.jars("kafka"),
        "127.0.0.1",
        free_port(),
        default_partitions=3,
    )
    try:
        engine.start()
        engine.wait_ready(READY_TIMEOUT)
        produce(engine.bootstrap, topic_name, [b"kept"] * 10)
        before = AdminClient({"bootstrap.servers": engine.bootstrap}).list_topics(timeout=120)
        assert len(before.topics[topic_name].partitions) == 3
        pids = engine.pids
        engine.stop()
        assert not any(psutil.pid_exists(pid) for pid in pids)
        log = (tmp_path / "with, comma and ä" / "broker-1" / "server.log").read_text(encoding="utf-8")
        assert "shut down completed" in log, "a clean shutdown says so"

        engine.start()
        engine.wait_ready(READY_TIMEOUT)
        after = AdminClient({"bootstrap.servers": engine.bootstrap}).list_topics(timeout=120)
        assert after.cluster_id == before.cluster_id
        consumer = Consumer({"bootstrap.servers": engine.bootstrap, "group.id": "any"})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic_name, number), timeout=120)[1]
            for number in range(3)
        ]
        consumer.close()
        assert sum(ends) == 10
    finally:
        engine.stop()


def test_three_brokers_form_a_cluster_that_replicates(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts, topic_name: str
) -> None:
    ports = free_ports(3)
    engine = ApacheKafka(tmp_path, java, artifacts.jars("kafka"), "127.0.0.1", 0, ports=ports, heap="256m")
    try:
        engine.start()
        engine.wait_ready(READY_TIMEOUT)
        admin = AdminClient({"bootstrap.servers": engine.bootstrap})
        new_topic = NewTopic(topic_name, num_partitions=1, replication_factor=3)
        admin.create_topics([new_topic])[topic_name].result(timeout=60)
        produce(engine.bootstrap, topic_name, [b"replicated"])
        wait_until(
            lambda: len(admin.list_topics(topic_name, timeout=120).topics[topic_name].partitions[0].isrs) == 3
        )
        assert sorted(broker.port for broker in admin.list_topics(timeout=120).brokers.values()) == sorted(
            ports
        )
    finally:
        engine.stop()
    fewer = ApacheKafka(tmp_path, java, artifacts.jars("kafka"), "127.0.0.1", 0, ports=ports[:1])
    with pytest.raises(HeadraceError, match="contains a cluster of 3 brokers") as caught:
        fewer.start()
    assert caught.value.code == "invalid_setting"


@pytest.mark.long
def test_a_broker_can_be_added_to_a_cluster(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts, topic_name: str
) -> None:
    jars, ports = artifacts.jars("kafka"), free_ports(2)
    one = ApacheKafka(tmp_path, java, jars, "127.0.0.1", ports[0])
    two = ApacheKafka(tmp_path, java, jars, "127.0.0.1", ports[0], ports=ports, heap="256m")
    try:
        one.start()
        one.wait_ready(READY_TIMEOUT)
        produce(one.bootstrap, topic_name, [b"before"])
        one.stop()
        two.start()
        two.wait_ready(READY_TIMEOUT)
        assert consume(two.bootstrap, topic_name, 1) == [b"before"]
    finally:
        one.stop()
        two.stop()
    for number in (1, 2):
        log = (tmp_path / f"broker-{number}" / "server.log").read_text(encoding="utf-8")
        assert f"[BrokerServer id={number}] shut down completed" in log


def test_a_port_in_use_is_named_before_anything_starts(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        engine = ApacheKafka(tmp_path / "kafka", java, artifacts.jars("kafka"), "127.0.0.1", port)
        with pytest.raises(HeadraceError, match=str(port)) as caught:
            engine.start()
    assert caught.value.code == "port_in_use"
    assert "kafka_port" in caught.value.remedy
    assert not (tmp_path / "kafka").exists()


def test_a_setting_that_kafka_refuses_is_quoted(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts
) -> None:
    engine = ApacheKafka(
        tmp_path, java, artifacts.jars("kafka"), "127.0.0.1", free_port(), max_message_bytes=-1
    )
    try:
        with pytest.raises(HeadraceError, match=r"message\.max\.bytes") as caught:
            engine.start()
    finally:
        engine.stop()
    assert caught.value.code == "process_failed"


def test_a_broker_that_ends_by_itself_is_quoted(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts
) -> None:
    engine = ApacheKafka(tmp_path, java, artifacts.jars("kafka"), "127.0.0.1", free_port())
    engine.start()
    engine.stop()
    identity = tmp_path / "broker-1" / "log" / "meta.properties"
    lines = identity.read_text(encoding="ascii").splitlines()
    other = ["node.id=7" if line.startswith("node.id=") else line for line in lines]
    identity.write_text("\n".join(other), encoding="ascii")
    try:
        engine.start()
        with pytest.raises(HeadraceError, match=r"(?s)broker 1 exited with code 1.*node id") as caught:
            engine.wait_ready(READY_TIMEOUT)
    finally:
        engine.stop()
    assert caught.value.code == "process_failed"


def test_a_second_engine_is_kept_out_of_the_folder(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts
) -> None:
    jars, ports = artifacts.jars("kafka"), free_ports(2)
    engine = ApacheKafka(tmp_path, java, jars, "127.0.0.1", ports[0])
    rival = ApacheKafka(tmp_path, java, jars, "127.0.0.1", ports[1])
    try:
        engine.start()
        with pytest.raises(HeadraceError, match=str(tmp_path)) as caught:
            rival.start()
        assert caught.value.code == "data_dir_in_use"
        engine.check_alive()
    finally:
        rival.stop()
        engine.stop()


PARENT_PROGRAM = """
import sys, threading, time
from pathlib import Path
from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java

folder, cache, port = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
engine = ApacheKafka(folder, find_java(), sorted(cache.glob("*.jar")), "127.0.0.1", port)
starter = threading.Thread(target=engine.start)  # a thread that ends must not take the broker with it
starter.start()
starter.join()
engine.wait_ready(120)
print(*engine.pids, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_no_broker_outlives_a_parent_that_was_killed(tmp_path: Path, artifacts: Artifacts) -> None:
    cache = artifacts.jars("kafka")[0].parent
    arguments = [str(tmp_path), str(cache), str(free_port())]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT_PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.Process(pid).is_running()
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
