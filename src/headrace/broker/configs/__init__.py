"""Configs of topics and of the broker, by Apache Kafka's names: their definitions and the values in force."""

from headrace.broker.configs.broker_table import BROKER_CONFIGS, LEFT_OUT
from headrace.broker.configs.entries import ConfigEntry, SynonymValue
from headrace.broker.configs.operations import Kind, Operation
from headrace.broker.configs.store import ConfigStore, static_log_config
from headrace.broker.configs.topic_table import TOPIC_CONFIGS

__all__ = [
    "BROKER_CONFIGS",
    "LEFT_OUT",
    "TOPIC_CONFIGS",
    "ConfigEntry",
    "ConfigStore",
    "Kind",
    "Operation",
    "SynonymValue",
    "static_log_config",
]
