"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44), of topics and of the broker."""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.conversation import (
    ALTER_CONFIGS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    Conversation,
    scenario,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# One good and some bad values for every topic setting that means something on one node.
VALUES: dict[str, tuple[str | None, ...]] = {
    "cleanup.policy": ("compact", "delete,compact", "", "shred", "compact,shred", " delete ", None),
    "compression.type": ("gzip", "uncompressed", "none", "brotli", "GZIP", "", None),
    "compression.gzip.level": ("9", "-1", "0", "10"),
    "compression.lz4.level": ("17", "0", "18"),
    "compression.zstd.level": ("22", "-131072", "23"),
    "delete.retention.ms": ("0", "-1", "x"),
    "file.delete.delay.ms": ("0", "-1"),
    "flush.messages": ("1", "0"),
    "flush.ms": ("0", "-1"),
    "index.interval.bytes": ("0", "-1", "1.5"),
    "max.compaction.lag.ms": ("1", "0"),
    "max.message.bytes": ("0", "-1", "2147483648", " 12 ", "1e3", "0x10", ""),
    "message.timestamp.after.max.ms": ("0", "-1"),
    "message.timestamp.before.max.ms": ("0", "-1"),
    "message.timestamp.type": ("LogAppendTime", "logappendtime", "NoTime"),
    "min.cleanable.dirty.ratio": ("0", "1", "1.1", "-0.1", "half"),
    "min.compaction.lag.ms": ("0", "-1"),
    "min.insync.replicas": ("1", "2", "0"),
    "preallocate": ("true", "FALSE", "yes", ""),
    "retention.bytes": ("-1", "-2", "9223372036854775807", "9223372036854775808"),
    "retention.ms": ("-1", "-2", "0", "soon"),
    "segment.bytes": ("1048576", "1048575", "2147483648"),
    "segment.index.bytes": ("4", "3"),
    "segment.jitter.ms": ("0", "-1"),
    "segment.ms": ("1", "0"),
    "unclean.leader.election.enable": ("true", "maybe"),
    "leader.replication.throttled.replicas": ("*", "0:1,1:1", "x"),
    "remote.storage.enable": ("true", "false"),
    "local.retention.ms": ("-3", "-2", "5"),
    "message.format.version": ("3.0",),
    "message.downconversion.enable": ("true",),
    "no.such.setting": ("1",),
}


def resource(name: str, kind: int = TOPIC, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


@scenario(range(1, 5))
def describe_configs(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(retention_ms="1234", cleanup_policy="compact")

    def ask(label: str, *resources: dict[str, Any], **fields: Any) -> None:
        conversation.ask(DESCRIBE_CONFIGS, version, label, resources=resources, **fields)

    ask("topic", resource(topic.name))
    ask("topic with synonyms", resource(topic.name), include_synonyms=True)
    ask("topic with documentation", resource(topic.name), include_documentation=True)
    ask("two keys", resource(topic.name, keys=["retention.ms", "segment.ms", "no.such.setting"]))
    ask("no keys", resource(topic.name, keys=[]))
    ask("unknown topic", resource("no-such-topic"))
    ask("bad name", resource("no such topic"))
    ask("empty name", resource(""))
    ask("broker", resource("1", BROKER))
    ask("broker with synonyms", resource("1", BROKER), include_synonyms=True)
    ask("default of brokers", resource("", BROKER), include_synonyms=True)
    ask("other broker", resource("2", BROKER))
    ask("not a broker", resource("x", BROKER))
    ask("unknown type", resource("1", 99))
    ask("one good, one bad", resource(topic.name, keys=["retention.ms"]), resource("no-such-topic"))
    ask("nothing")


def change(name: str, value: str | None, operation: int = SET) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


class Changer:
    """Alters in one version, and tells of a topic's own settings."""

    def __init__(
        self, conversation: Conversation, version: int, api: int = INCREMENTAL_ALTER_CONFIGS
    ) -> None:
        self._conversation, self._version, self._api = conversation, version, api
        self._settled = 0

    def alter(
        self, label: str, name: str, *changes: dict[str, Any], kind: int = TOPIC, check: bool = False
    ) -> None:
        asked = {"resource_type": kind, "resource_name": name, "configs": changes}
        self._conversation.ask(self._api, self._version, label, resources=[asked], validate_only=check)

    def settle(self, name: str) -> None:
        """Wait until all that was altered before is there: changes arrive in their order."""
        self._settled += 1
        value = str(self._settled)
        asked = {"resource_type": TOPIC, "resource_name": name, "configs": [change("flush.messages", value)]}
        self._conversation.ask_quietly(INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked])
        self._conversation.wait_for_setting(name, "flush.messages", value)

    def note_own(self, label: str, name: str, kind: int = TOPIC) -> None:
        if kind == TOPIC:
            self.settle(name)
        reply = self._conversation.client.ask(
            DESCRIBE_CONFIGS, 4, resources=[resource(name, kind)], include_synonyms=True
        )
        own = {
            each.name: [each.value, each.config_source, [(s.name, s.value, s.source) for s in each.synonyms]]
            for each in reply.results[0].configs
            if each.config_source in {1, 2, 3} and each.name != "min.insync.replicas"
        }
        self._conversation.note(label, own)


@scenario(range(2))
def alter_configs_incrementally(conversation: Conversation, version: int) -> None:
    """KIP-339."""
    topic = conversation.topic()
    changer = Changer(conversation, version, INCREMENTAL_ALTER_CONFIGS)
    changer.alter("set", topic.name, change("retention.ms", "1000"), change("segment.ms", "5000"))
    changer.note_own("after set", topic.name)
    changer.alter("checked only", topic.name, change("retention.ms", "2000"), check=True)
    changer.alter("deleted", topic.name, change("segment.ms", None, DELETE))
    changer.alter("deleted what is not there", topic.name, change("flush.ms", None, DELETE))
    changer.alter("appended", topic.name, change("cleanup.policy", "compact", APPEND))
    changer.note_own("after append", topic.name)
    changer.alter("appended again", topic.name, change("cleanup.policy", "compact", APPEND))
    changer.alter("subtracted", topic.name, change("cleanup.policy", "delete", SUBTRACT))
    changer.note_own("after subtract", topic.name)
    changer.alter("appended to a number", topic.name, change("retention.ms", "1", APPEND))
    changer.alter("subtracted from a number", topic.name, change("retention.ms", "1", SUBTRACT))
    changer.alter("unknown operation", topic.name, change("retention.ms", "1", 9))
    changer.alter("twice", topic.name, change("retention.ms", "1"), change("retention.ms", "2"))
    changer.alter("good and bad", topic.name, change("segment.ms", "77"), change("flush.ms", "x"))
    changer.alter("nothing", topic.name)
    changer.alter("unknown topic", "no-such-topic", change("retention.ms", "1"))
    changer.alter("bad name", "no such topic", change("retention.ms", "1"))
    changer.alter("empty name", "", change("retention.ms", "1"))
    changer.alter("unknown type", topic.name, change("retention.ms", "1"), kind=99)
    changer.note_own("in the end", topic.name)
    twice = {"resource_type": TOPIC, "resource_name": topic.name, "configs": [change("retention.ms", "3")]}
    conversation.ask(INCREMENTAL_ALTER_CONFIGS, version, "resource twice", resources=[twice, twice])
    conversation.ask(INCREMENTAL_ALTER_CONFIGS, version, "no resource", resources=[])


@scenario(range(2))
def alter_configs_values(conversation: Conversation, version: int) -> None:
    """Good and bad values of every setting: the same are refused, with the same words."""
    topic = conversation.topic()
    changer = Changer(conversation, version, INCREMENTAL_ALTER_CONFIGS)
    for name, values in VALUES.items():
        for value in values:
            changer.alter(f"{name}={value!r}", topic.name, change(name, value), check=True)
    for name, values in VALUES.items():
        changer.alter(f"set {name}", topic.name, change(name, values[0]))
    changer.note_own("all", topic.name)


@scenario(range(2))
def alter_configs_together(conversation: Conversation, version: int) -> None:
    """Settings that must fit each other."""
    topic = conversation.topic()
    changer = Changer(conversation, version, INCREMENTAL_ALTER_CONFIGS)
    changer.alter(
        "lags", topic.name, change("min.compaction.lag.ms", "10"), change("max.compaction.lag.ms", "5")
    )
    changer.alter("retention", topic.name, change("retention.ms", "10"), change("local.retention.ms", "20"))


@scenario(range(3))
def alter_configs(conversation: Conversation, version: int) -> None:
    """The old way: what is not named goes back to its default."""
    topic = conversation.topic(segment_ms="5000")
    changer = Changer(conversation, version, ALTER_CONFIGS)
    changer.alter("set", topic.name, change("retention.ms", "1000"))
    changer.note_own("after set", topic.name)
    changer.alter("checked only", topic.name, change("flush.ms", "2000"), check=True)
    changer.alter("bad value", topic.name, change("retention.ms", "soon"))
    changer.alter("null", topic.name, change("retention.ms", None))
    changer.alter("unknown setting", topic.name, change("no.such.setting", "1"))
    changer.alter("unknown topic", "no-such-topic", change("retention.ms", "1"))
    changer.alter("nothing", topic.name)
    changer.note_own("in the end", topic.name)


@scenario(range(2))
def alter_configs_of_broker(conversation: Conversation, version: int) -> None:
    """KIP-226: settings of the broker that can change while it runs, and act as defaults of topics."""
    topic = conversation.topic()
    changer = Changer(conversation, version, INCREMENTAL_ALTER_CONFIGS)
    for name in ("1", ""):
        which = f"broker {name!r}"
        changer.alter(f"{which}: set", name, change("log.retention.ms", "7777777"), kind=BROKER)
        conversation.wait_for_setting(topic.name, "retention.ms", "7777777")
        changer.note_own(f"{which}: own", name, BROKER)
        keys = ["retention.ms", "segment.ms"]
        described = [resource(topic.name, keys=keys)]
        conversation.ask(
            DESCRIBE_CONFIGS, 4, f"{which}: of the topic", resources=described, include_synonyms=True
        )
        changer.alter(f"{which}: bad value", name, change("log.retention.ms", "soon"), kind=BROKER)
        changer.alter(f"{which}: too small", name, change("log.retention.ms", "-2"), kind=BROKER)
        changer.alter(f"{which}: read-only", name, change("num.partitions", "3"), kind=BROKER)
        changer.alter(f"{which}: read-only listeners", name, change("node.id", "3"), kind=BROKER)
        changer.alter(f"{which}: unknown", name, change("no.such.setting", "3"), kind=BROKER)
        changer.alter(f"{which}: unknown gone", name, change("no.such.setting", None, DELETE), kind=BROKER)
        changer.alter(f"{which}: taken back", name, change("log.retention.ms", None, DELETE), kind=BROKER)
        conversation.wait_for_setting(topic.name, "retention.ms", "604800000")
        changer.note_own(f"{which}: none", name, BROKER)
    changer.alter("other broker", "2", change("log.retention.ms", "1"), kind=BROKER)
    changer.alter("not a broker", "x", change("log.retention.ms", "1"), kind=BROKER)
    changer.alter("group", "g", change("consumer.session.timeout.ms", "x"), kind=GROUP)


@scenario(range(5, 8))
def created_with_configs(conversation: Conversation, version: int) -> None:
    """KIP-525: the answer to a creation tells the topic's settings."""
    name = conversation.name()
    configs = [{"name": "retention.ms", "value": "4321"}, {"name": "cleanup.policy", "value": "compact"}]
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1, "configs": configs}
    reply = conversation.client.ask(CREATE_TOPICS, version, topics=[topic], timeout=30_000)
    if version >= 7:
        conversation.know(reply.topics[0].topic_id, name)
    conversation.note_reply("made", reply)
