"""The broker configs about the node itself: identity, listeners and limits of requests.

Invariants and tests: see `broker_table`.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.configs.definition import BrokerConfig
from headrace.broker.configs.topic_table import MEBIBYTE
from headrace.broker.configs.validators import ListOf, OneNode, Range
from headrace.broker.configs.values import ConfigType

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, LIST = ConfigType.LONG, ConfigType.LIST

NODE_CONFIGS: Final = (
    BrokerConfig(
        name="node.id",
        type=INT,
        default=None,
        validator=Range(0),
        documentation="The number of this node.",
    ),
    BrokerConfig(
        name="broker.id",
        type=INT,
        default=-1,
        documentation="The number of this node, under its older name.",
    ),
    BrokerConfig(
        name="broker.rack",
        type=STRING,
        default=None,
        inert=True,
        documentation="The rack of the machine. Useful only with more than one node.",
    ),
    BrokerConfig(
        name="process.roles",
        type=LIST,
        default=None,
        validator=ListOf(("broker", "controller")),
        documentation="The roles of this node: it stores records and manages topics.",
    ),
    BrokerConfig(
        name="listeners",
        type=LIST,
        default=("PLAINTEXT://:9092",),
        validator=ListOf(),
        documentation="The address that the broker listens on.",
    ),
    BrokerConfig(
        name="advertised.listeners",
        type=LIST,
        default=None,
        validator=ListOf(),
        documentation="The address that clients are told to connect to.",
    ),
    BrokerConfig(
        name="listener.security.protocol.map",
        type=STRING,
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        inert=True,
        documentation="The protocol of each listener, by name.",
    ),
    BrokerConfig(
        name="authorizer.class.name",
        type=STRING,
        default="",
        inert=True,
        documentation="The authorizer. Empty: everyone may do everything.",
    ),
    BrokerConfig(
        name="num.partitions",
        type=INT,
        default=1,
        validator=Range(1),
        documentation="The number of partitions of a new topic, unless the request says otherwise.",
    ),
    BrokerConfig(
        name="default.replication.factor",
        type=INT,
        default=1,
        validator=OneNode(),
        documentation="The number of replicas of a new topic, unless the request says otherwise: one, on "
        "one node.",
    ),
    BrokerConfig(
        name="auto.create.topics.enable",
        type=BOOLEAN,
        default=True,
        documentation="Whether a topic is created when a client requests a missing one.",
    ),
    BrokerConfig(
        name="delete.topic.enable",
        type=BOOLEAN,
        default=True,
        documentation="Whether topics can be deleted.",
    ),
    BrokerConfig(
        name="socket.request.max.bytes",
        type=INT,
        default=100 * MEBIBYTE,
        validator=Range(1),
        documentation="The maximum size of a request; a connection that sends a larger one is closed.",
    ),
    BrokerConfig(
        name="socket.send.buffer.bytes",
        type=INT,
        default=100 * 1024,
        documentation="The size of the operating system's send buffer; -1: its default.",
    ),
    BrokerConfig(
        name="socket.receive.buffer.bytes",
        type=INT,
        default=100 * 1024,
        inert=True,
        documentation="The size of the operating system's receive buffer; -1: its default, which is used "
        "here.",
    ),
    BrokerConfig(
        name="socket.listen.backlog.size",
        type=INT,
        default=50,
        validator=Range(1),
        documentation="The number of connections that may wait to be accepted.",
    ),
    BrokerConfig(
        name="connections.max.idle.ms",
        type=LONG,
        default=600_000,
        documentation="The time after which an idle connection is closed.",
    ),
    BrokerConfig(
        name="fetch.max.bytes",
        type=INT,
        default=55 * MEBIBYTE,
        validator=Range(1024),
        documentation="The maximum size of the answer to a fetch, whatever it asks for.",
    ),
    BrokerConfig(
        name="max.incremental.fetch.session.cache.slots",
        type=INT,
        default=1000,
        validator=Range(0),
        documentation="The maximum number of fetch sessions (KIP-227).",
    ),
    BrokerConfig(
        name="max.request.partition.size.limit",
        type=INT,
        default=2000,
        validator=Range(1),
        documentation="The maximum number of partitions in one answer to DescribeTopicPartitions (KIP-966).",
    ),
)
