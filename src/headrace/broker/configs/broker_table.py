"""Every broker config that has a meaning on this node, and why the others of Apache Kafka have none.

Invariants: names, types, defaults, checks and the configs that can be altered at run time are those of Apache
Kafka 4.3.1, tested against a live one. Every config of Kafka is either in `BROKER_CONFIGS` or matches exactly
one row of `LEFT_OUT`. The compatibility page is generated from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from headrace.broker.configs.broker_coordination_table import COORDINATION_CONFIGS
from headrace.broker.configs.broker_log_table import LOG_CONFIGS
from headrace.broker.configs.broker_node_table import NODE_CONFIGS
from headrace.broker.configs.definition import BrokerConfig

BROKER_CONFIGS: Final[Mapping[str, BrokerConfig]] = MappingProxyType(
    {each.name: each for each in (*NODE_CONFIGS, *LOG_CONFIGS, *COORDINATION_CONFIGS)}
)

# Configs for the same value in different units, in order of precedence. Setting one hides the others in
# sources of lower rank.
SYNONYM_GROUPS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
# One way only: log.flush.interval.ms falls back to the other, but not the reverse.
FALLBACKS: Final = {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Configs of Apache Kafka, by name patterns, that this broker neither shows nor accepts."""

    patterns: tuple[str, ...]
    reason: str

    def matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


LEFT_OUT: Final = (
    LeftOut(
        patterns=(
            "ssl.*",
            "sasl.*",
            "security.*",
            "principal.builder.class",
            "connections.max.reauth.ms",
            "connection.failed.authentication.delay.ms",
            "delegation.token.*",
            "listener.name.*",
        ),
        reason="The broker speaks plain text on a trusted network: no TLS, no authentication, no tokens.",
    ),
    LeftOut(
        patterns=(
            "controller.*",
            "metadata.*",
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            "initial.broker.registration.timeout.ms",
            "early.start.listeners",
            "server.max.startup.time.ms",
            "unstable.*",
            "internal.metadata.*",
        ),
        reason="There is no KRaft quorum: one process keeps its topics in its data folder.",
    ),
    LeftOut(
        patterns=(
            "replica.*",
            "replication.quota.*",
            "num.replica.*",
            "inter.broker.listener.name",
            "auto.leader.rebalance.enable",
            "leader.imbalance.*",
            "controlled.shutdown.enable",
            "unclean.leader.election.interval.ms",
            "alter.log.dirs.*",
            "cordoned.log.dirs",
            "socket.connection.setup.timeout.*",
            "request.timeout.ms",
        ),
        reason="One node has no other to replicate to, elect or connect to.",
    ),
    LeftOut(
        patterns=("remote.*", "follower.fetch.last.tiered.offset.enable"),
        reason="No tiered storage.",
    ),
    LeftOut(
        patterns=("group.share.*", "share.*"),
        reason="No share groups.",
    ),
    LeftOut(
        patterns=("group.streams.*",),
        reason="No groups of the Streams protocol; Kafka Streams works with the classic one.",
    ),
    LeftOut(
        patterns=(
            "num.io.threads",
            "num.network.threads",
            "background.threads",
            "num.recovery.threads.*",
            "queued.max.*",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
            "delete.records.purgatory.purge.interval.requests",
            "group.coordinator.*threads",
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "add.partitions.to.txn.retry.*",
            "group.consumer.regex.refresh.interval.ms",
            "producer.id.expiration.check.interval.ms",
            "log.initial.task.delay.ms",
        ),
        reason="They tune Apache Kafka's threads, queues and buffers; here one event loop does the work.",
    ),
    LeftOut(
        patterns=("max.connections", "max.connections.per.ip*", "max.connection.creation.rate"),
        reason="Only the operating system's limit on open files limits the number of connections.",
    ),
    LeftOut(
        patterns=("quota.window.*", "client.quota.callback.class"),
        reason="No quotas.",
    ),
    LeftOut(
        patterns=("metric.reporters", "metrics.*", "kafka.metrics.*", "telemetry.*"),
        reason="Metrics are served over HTTP for Prometheus, not through reporters inside the process.",
    ),
    LeftOut(
        patterns=("create.topic.policy.class.name", "alter.config.policy.class.name", "config.providers"),
        reason="They name Java classes to load.",
    ),
)


def left_out_because(name: str) -> str | None:
    """Why the broker lacks a config of Apache Kafka; None if it has it, or if Kafka does not."""
    if name in BROKER_CONFIGS:
        return None
    return next((each.reason for each in LEFT_OUT if each.matches(name)), None)


def family(name: str) -> tuple[str, ...]:
    """The configs that determine this one, in order of precedence; by default only itself."""
    for group in SYNONYM_GROUPS:
        if name in group:
            return group
    return FALLBACKS.get(name, (name,))
