"""Checks the configs of one topic, with Kafka's messages.

Invariant: checks all configs that the topic would have, including the broker's defaults, because some configs
depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.broker_values import BrokerValues
from headrace.broker.configs.topic_table import TOPIC_CONFIGS
from headrace.broker.configs.values import InvalidValueError


def check_topic(overrides: Mapping[str, str], broker: BrokerValues) -> None:
    """Raises InvalidValueError."""
    for name in overrides:
        if name not in TOPIC_CONFIGS:
            raise InvalidValueError(f"Unknown topic config name: {name}")
    values = {
        name: config.parse(overrides[name]) if name in overrides else broker.topic_defaults[name]
        for name, config in TOPIC_CONFIGS.items()
    }
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least > most:
        raise InvalidValueError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if values["remote.storage.enable"]:
        raise InvalidValueError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
