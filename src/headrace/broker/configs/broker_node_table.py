"""The broker configs about the node itself: who it is, what it listens on, what requests may ask of it.

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
        documentation="Where the machine stands. Of use only with more than one node.",
    ),
    BrokerConfig(
        name="process.roles",
        type=LIST,
        default=None,
        validator=ListOf(("broker", "controller")),
        documentation="What this node does: it keeps records, and it decides about topics.",
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
        documentation="Which protocol a listener speaks, by its name.",
    ),
    BrokerConfig(
        name="authorizer.class.name",
        type=STRING,
        default="",
        inert=True,
        documentation="What decides who may do what. Empty: everybody may do everything.",
    ),
    BrokerConfig(
        name="num.partitions",
        type=INT,
        default=1,
        validator=Range(1),
        documentation="How many partitions a topic gets where the request does not say.",
    ),
    BrokerConfig(
        name="default.replication.factor",
        type=INT,
        default=1,
        validator=OneNode(),
        documentation="How many replicas a partition gets where the request does not say: one, on one node.",
    ),
    BrokerConfig(
        name="auto.create.topics.enable",
        type=BOOLEAN,
        default=True,
        documentation="Whether a topic is made when a client asks for one that is not there.",
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
        documentation="The largest request; a connection that sends a larger one is closed.",
    ),
    BrokerConfig(
        name="socket.send.buffer.bytes",
        type=INT,
        default=100 * 1024,
        documentation="The operating system's buffer for what is sent to a client; -1: its own choice.",
    ),
    BrokerConfig(
        name="socket.receive.buffer.bytes",
        type=INT,
        default=100 * 1024,
        inert=True,
        documentation="The operating system's buffer for what comes in; -1, as here: its own choice.",
    ),
    BrokerConfig(
        name="socket.listen.backlog.size",
        type=INT,
        default=50,
        validator=Range(1),
        documentation="How many connections may wait to be accepted.",
    ),
    BrokerConfig(
        name="connections.max.idle.ms",
        type=LONG,
        default=600_000,
        documentation="A connection on which nothing was asked for this long is closed.",
    ),
    BrokerConfig(
        name="fetch.max.bytes",
        type=INT,
        default=55 * MEBIBYTE,
        validator=Range(1024),
        documentation="The most that one fetch is answered with, whatever it asks for.",
    ),
    BrokerConfig(
        name="max.incremental.fetch.session.cache.slots",
        type=INT,
        default=1000,
        validator=Range(0),
        documentation="How many fetch sessions are kept (KIP-227).",
    ),
    BrokerConfig(
        name="max.request.partition.size.limit",
        type=INT,
        default=2000,
        validator=Range(1),
        documentation="How many partitions one DescribeTopicPartitions is answered with (KIP-966).",
    ),
)
