"""The tables of configs hold together; `test_configs_against_kafka` compares them with Apache Kafka."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.broker.configs import BROKER_CONFIGS, LEFT_OUT, TOPIC_CONFIGS
from headrace.broker.configs.broker_table import family, left_out_because
from headrace.log.config import LogConfig


def test_every_field_of_a_log_is_filled_by_a_topic_config() -> None:
    filled = {config.field for config in TOPIC_CONFIGS.values() if config.field}
    assert filled == {field.name for field in dataclasses.fields(LogConfig)}


def test_a_topic_config_acts_or_says_that_it_does_not() -> None:
    assert [name for name, config in TOPIC_CONFIGS.items() if not config.field and not config.inert] == []


def test_defaults_of_topics_stand_in_the_table_of_the_broker() -> None:
    for config in TOPIC_CONFIGS.values():
        for synonym in config.synonyms:
            broker_config = BROKER_CONFIGS[synonym.name]
            assert synonym.factor != 1 or broker_config.type is config.type
        if config.synonyms:
            assert BROKER_CONFIGS[config.synonyms[0].name].dynamic


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS))
def test_defaults_of_topics_are_valid(name: str) -> None:
    config = TOPIC_CONFIGS[name]
    if config.default_text is not None:
        assert config.parse(config.default_text) == config.default


@pytest.mark.parametrize("name", sorted(BROKER_CONFIGS))
def test_every_broker_config_is_documented_and_not_left_out_too(name: str) -> None:
    config = BROKER_CONFIGS[name]
    assert config.documentation.endswith(".")
    assert not [each for each in LEFT_OUT if each.matches(name)]
    assert left_out_because(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ssl.keystore.location", "no TLS"),
        ("num.io.threads", "event loop"),
        ("replica.fetch.max.bytes", "One node"),
    ],
)
def test_what_is_left_out_has_a_reason(name: str, reason: str) -> None:
    assert reason in str(left_out_because(name))


def test_a_name_that_kafka_does_not_have_is_not_left_out() -> None:
    assert left_out_because("my.own.config") is None


def test_families() -> None:
    assert family("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert family("log.flush.interval.ms")[1] == "log.flush.scheduler.interval.ms"
    assert family("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)
    assert family("message.max.bytes") == ("message.max.bytes",)
