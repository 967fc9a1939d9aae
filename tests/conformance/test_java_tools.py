"""Apache Kafka's own commands work on both engines, and read the embedded broker's files as their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.clients import Client, Message
from tests.conformance.engines import EMBEDDED, Engine
from tests.conformance.java_tools import Finished, JavaTools
from tests.conformance.record_batches import BASE_TIMESTAMP, CODECS
from tests.conformance.topics import end_offsets, log_folder


@pytest.fixture
def tool(engine: Engine, java_tools: JavaTools) -> Callable[..., Finished]:
    """Run a tool against the engine; it must end well unless a code is given."""

    def run(name: str, *arguments: str, stdin: bytes = b"", exit_code: int = 0) -> Finished:
        done = java_tools.run(name, "--bootstrap-server", engine.bootstrap, *arguments, stdin=stdin)
        assert done.exit_code == exit_code, done
        return done

    return run


def test_kafka_topics(tool: Callable[..., Finished], topic_name: str) -> None:
    arguments = ("--topic", topic_name)
    made = tool("kafka-topics", "--create", *arguments, "--partitions", "3", "--config", "retention.ms=5000")
    assert f"Created topic {topic_name}." in made.output
    again = tool("kafka-topics", "--create", *arguments, exit_code=1)
    assert f"Topic '{topic_name}' already exists." in again.output
    tool("kafka-topics", "--create", *arguments, "--if-not-exists")
    assert topic_name in tool("kafka-topics", "--list").output.splitlines()
    described = tool("kafka-topics", "--describe", *arguments).output
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention\.ms=5000", described)
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 3
    tool("kafka-topics", "--alter", *arguments, "--partitions", "5")
    assert "PartitionCount: 5" in tool("kafka-topics", "--describe", *arguments).output
    fewer = tool("kafka-topics", "--alter", *arguments, "--partitions", "2", exit_code=1)
    assert "would not be an increase" in fewer.output
    tool("kafka-topics", "--delete", *arguments)
    assert topic_name not in tool("kafka-topics", "--list").output.splitlines()
    unknown = tool("kafka-topics", "--describe", *arguments, exit_code=1)
    assert f"Topic '{topic_name}' does not exist as expected" in unknown.output


def test_kafka_topics_refuses(tool: Callable[..., Finished], topic_name: str) -> None:
    arguments = ("--create", "--topic", topic_name)
    replicated = tool("kafka-topics", *arguments, "--replication-factor", "2", exit_code=1)
    assert "InvalidReplicationFactorException" in replicated.errors
    bad = tool("kafka-topics", *arguments, "--config", "no.such.setting=1", exit_code=1)
    assert "Unknown topic config name: no.such.setting" in bad.output + bad.errors


def test_kafka_configs(tool: Callable[..., Finished], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    altered = tool(
        "kafka-configs",
        "--alter",
        *entity,
        "--add-config",
        "retention.ms=7000,cleanup.policy=[compact,delete]",
    )
    assert f"Completed updating config for topic {topic}." in altered.output
    described = tool("kafka-configs", "--describe", *entity).output
    assert "retention.ms=7000" in described
    assert "cleanup.policy=compact,delete" in described
    tool("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=7000" not in tool("kafka-configs", "--describe", *entity).output
    bad = tool("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=soon", exit_code=1)
    assert "Not a number of type LONG" in bad.output + bad.errors
    everything = tool("kafka-configs", "--describe", "--all", *entity).output
    assert "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes" in everything
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    tool("kafka-configs", "--alter", *broker, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tool("kafka-configs", "--describe", *broker).output
    tool("kafka-configs", "--alter", *broker, "--delete-config", "log.cleaner.threads")


def test_producer_perf_test_and_get_offsets(
    engine: Engine, java_tools: JavaTools, tool: Callable[..., Finished], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)
    done = java_tools.run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "3000", "--record-size", "200", "--throughput", "-1"),
        *("--bootstrap-server", engine.bootstrap, "--command-property", "acks=all", "linger.ms=5"),
    )
    assert done.exit_code == 0, done
    assert done.output.startswith("3000 records sent")
    lines = tool("kafka-get-offsets", "--topic", topic).output.split()
    assert [line.rsplit(":", 1)[0] for line in lines] == [f"{topic}:{each}" for each in range(3)]
    assert sum(int(line.rsplit(":", 1)[1]) for line in lines) == 3000
    earliest = tool("kafka-get-offsets", "--topic", topic, "--time", "earliest").output.split()
    assert earliest == [f"{topic}:{each}:0" for each in range(3)]
    latest = tool("kafka-get-offsets", "--topic-partitions", f"{topic}:0", "--time", "max-timestamp").output
    assert re.match(rf"{re.escape(topic)}:0:\d+", latest)


def test_console_producer(
    engine: Engine, clients: dict[str, Client], tool: Callable[..., Finished], topic_name: str
) -> None:
    """Into a topic that its first line makes."""
    tool(
        "kafka-console-producer",
        *("--topic", topic_name, "--reader-property", "parse.key=true"),
        *("--reader-property", "key.separator=:"),
        stdin="a:eins\nb:zwei\nc:drei ü\n".encode(),
    )
    found = clients["librdkafka"].read(engine.bootstrap, topic_name, 3)
    assert [(each.key, each.value) for each in found] == [
        (b"a", b"eins"),
        (b"b", b"zwei"),
        (b"c", "drei ü".encode()),
    ]


def test_delete_records_and_log_dirs(
    engine: Engine,
    clients: dict[str, Client],
    tool: Callable[..., Finished],
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    topic = new_topic()
    clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"v")] * 10, partition=0)
    wish = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps(wish))
    assert "low_watermark: 4" in tool("kafka-delete-records", "--offset-json-file", str(file)).output
    described = tool("kafka-log-dirs", "--describe", "--topic-list", topic).output
    (line,) = (line for line in described.splitlines() if line.startswith("{"))
    (broker,) = json.loads(line)["brokers"]
    (folder,) = broker["logDirs"]
    (partition,) = folder["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0
    assert partition["offsetLag"] == 0


def test_api_versions_and_cluster_id(
    engine: Engine, java_tools: JavaTools, tool: Callable[..., Finished]
) -> None:
    versions = tool("kafka-broker-api-versions").output
    for line in ("Produce(0): 0 to 13 [usable: 13]", "Fetch(1): 4 to 18 [usable: 18]"):
        assert line in versions
    cluster = java_tools.run("kafka-cluster", "cluster-id", "--bootstrap-server", engine.bootstrap)
    assert re.fullmatch(r"Cluster ID: [A-Za-z0-9_-]{22}\n", cluster.output)


def test_dump_log_reads_every_file(
    engine: Engine, clients: dict[str, Client], java_tools: JavaTools, new_topic: Callable[..., str]
) -> None:
    """Segments of all codecs, both indexes, producer snapshots: in Kafka's own format, and in agreement."""
    topic = new_topic(segment_bytes="1048576", index_interval_bytes="4096")
    for codec in CODECS:
        messages = [
            Message(value=codec.encode() * 3000, key=b"k%d" % number, timestamp=BASE_TIMESTAMP + number)
            for number in range(60)
        ]
        for first in range(0, 60, 20):
            clients["java"].write(
                engine.bootstrap,
                topic,
                messages[first : first + 20],
                partition=0,
                compression_type=codec,
                enable_idempotence="true",
                batch_size="30000",
            )
    with engine.connect() as client:
        assert end_offsets(client, topic) == [300]
    folder = Path(log_folder(engine)) / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    assert len(segments) >= 1
    offsets: list[int] = []
    codecs: set[str] = set()
    for segment in segments:
        done = java_tools.run(
            "kafka-dump-log", "--files", str(segment), "--deep-iteration", "--print-data-log"
        )
        assert done.exit_code == 0, done
        assert "isvalid: false" not in done.output
        assert f"Log starting offset: {int(segment.stem)}\n" in done.output
        offsets += [int(each) for each in re.findall(r"^\| offset: (\d+)", done.output, re.MULTILINE)]
        codecs |= set(re.findall(r"compresscodec: (\w+)", done.output))
    assert offsets == list(range(300))
    assert codecs == set(CODECS)


def test_dump_log_checks_indexes_and_snapshots(
    engine: Engine, clients: dict[str, Client], java_tools: JavaTools, new_topic: Callable[..., str]
) -> None:
    """The indexes of segments that are closed; `kafka-dump-log` says which entries do not fit the log."""
    topic = new_topic(segment_bytes="1048576", index_interval_bytes="4096")
    messages = [
        Message(value=b"x" * 2000, key=b"k%d" % number, timestamp=BASE_TIMESTAMP + number)
        for number in range(1200)
    ]
    clients["java"].write(
        engine.bootstrap, topic, messages, partition=0, enable_idempotence="true", batch_size="10000"
    )
    folder = Path(log_folder(engine)) / f"{topic}-0"
    closed = sorted(folder.glob("*.log"))[:-1]
    assert closed
    for segment in closed:
        for kind in (".index", ".timeindex"):
            index = segment.with_suffix(kind)
            done = java_tools.run("kafka-dump-log", "--files", str(index), "--verify-index-only")
            assert done.exit_code == 0, done
            assert "Mismatches" not in done.output
            assert "Found timestamp mismatch" not in done.output
            entries = java_tools.run("kafka-dump-log", "--files", str(index)).output
            assert len(re.findall(r"^(?:offset|timestamp): \d+ ", entries, re.MULTILINE)) > 10
    snapshots = sorted(folder.glob("*.snapshot"))
    assert snapshots, "a snapshot of the producers stands beside every segment but the first"
    for snapshot in snapshots:
        done = java_tools.run("kafka-dump-log", "--files", str(snapshot))
        assert done.exit_code == 0, done
        assert re.search(r"producerId: \d+ producerEpoch: 0", done.output)


def test_files_are_named_as_kafka_names_them(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"v")], partition=0)
    folder = Path(log_folder(engine)) / f"{topic}-0"
    names = {file.name for file in folder.iterdir()}
    expected = {f"{'0' * 20}.log", "leader-epoch-checkpoint", "partition.metadata"}
    assert expected <= names
    assert (folder / "leader-epoch-checkpoint").read_text().split() == ["0", "1", "0", "0"]
    metadata = dict(line.split(": ") for line in (folder / "partition.metadata").read_text().splitlines())
    assert metadata["version"] == "0"
    assert len(metadata["topic_id"]) == 22
    assert engine.name == EMBEDDED or names >= {f"{'0' * 20}.index", f"{'0' * 20}.timeindex"}
