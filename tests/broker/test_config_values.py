"""Config values from text and back, and every check: by tables, and with any text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.configs.broker_table import BROKER_CONFIGS
from headrace.broker.configs.definition import Config
from headrace.broker.configs.topic_table import TOPIC_CONFIGS
from headrace.broker.configs.validators import (
    GzipLevel,
    ListOf,
    OneNode,
    OneOf,
    OneOfAnyCase,
    Range,
    ThrottledReplicas,
    Validator,
)
from headrace.broker.configs.values import ConfigType, ConfigValue, InvalidValueError, parse, render

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
SHORT, LONG, DOUBLE, LIST = ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, "true", True),
        (BOOLEAN, " FALSE ", False),
        (SHORT, "-32768", -32768),
        (INT, "2147483647", 2147483647),
        (INT, " +7 ", 7),
        (INT, "007", 7),
        (LONG, "\t-9223372036854775808\n", -(2**63)),
        (LONG, "٣", 3),
        (DOUBLE, ".5", 0.5),
        (DOUBLE, "1e-3", 0.001),
        (DOUBLE, "2.5f", 2.5),
        (DOUBLE, "1d", 1.0),
        (DOUBLE, "0x1p-2", 0.25),
        (DOUBLE, "0x1p99999", math.inf),
        (DOUBLE, "-Infinity", -math.inf),
        (STRING, " a b ", "a b"),
        (LIST, "", ()),
        (LIST, "  ", ()),
        (LIST, "a , b,c", ("a", "b", "c")),
        (LIST, ",a", ("", "a")),
    ],
)
def test_text_that_is_a_value(kind: ConfigType, text: str, value: ConfigValue) -> None:
    assert parse(kind, "x", text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (BOOLEAN, " 7 ", "Expected value to be either true or false"),
        (BOOLEAN, "", "Expected value to be either true or false"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (INT, "2147483648", "Not a number of type INT"),
        (INT, "1.5", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (LONG, "9223372036854775808", "Not a number of type LONG"),
        (LONG, "9" * 5000, "Not a number of type LONG"),
        (LONG, "- 1", "Not a number of type LONG"),
        (DOUBLE, "abc", "Not a number of type DOUBLE"),
        (DOUBLE, "nan", "Not a number of type DOUBLE"),
        (DOUBLE, "1e", "Not a number of type DOUBLE"),
        (DOUBLE, "0x1", "Not a number of type DOUBLE"),
    ],
)
def test_text_that_is_no_value(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidValueError) as refusal:
        parse(kind, "some.config", text)
    assert str(refusal.value) == f"Invalid value {text} for configuration some.config: {reason}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (-5, "-5"),
        ("word", "word"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (1e-5, "1.0E-5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.5, "1.234567895E8"),
        (-2.5e22, "-2.5E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (0.0, "0.0"),
    ],
)
def test_values_are_written_as_java_writes_them(value: ConfigValue, text: str | None) -> None:
    assert render(value) == text


@given(st.floats(allow_nan=False))
def test_a_number_that_was_written_is_read_again(value: float) -> None:
    text = render(value)
    assert text is not None
    assert parse(DOUBLE, "x", text) == value


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=30) | st.integers().map(str))
def test_any_text_is_taken_or_refused_with_a_reason(name: str, text: str) -> None:
    config = TOPIC_CONFIGS[name]
    try:
        shown = render(config.parse(text))
    except InvalidValueError as refusal:
        said = str(refusal)
        shown = None
    else:
        said = name
    assert name in said
    assert shown is None or render(config.parse(shown)) == shown


_REPLICAS = "must be the literal '*' or a list of replicas in the following format: "


@pytest.mark.parametrize(
    ("validator", "value", "refusal"),
    [
        (Range(1), 1, None),
        (Range(1), 0, "Invalid value 0 for configuration x: Value must be at least 1"),
        (Range(0, 1), 0.5, None),
        (Range(0, 1), math.nan, None),
        (Range(0, 1), 5.0, "Invalid value 5.0 for configuration x: Value must be no more than 1"),
        (Range(0, 1), -0.1, "Invalid value -0.1 for configuration x: Value must be at least 0"),
        (OneOf(("a", "b")), "b", None),
        (OneOf(("a", "b")), "B", "Invalid value B for configuration x: String must be one of: a, b"),
        (OneOfAnyCase(("A", "B")), "b", None),
        (
            OneOfAnyCase(("A", "B")),
            "c",
            "Invalid value c for configuration x: String must be one of (case insensitive): A, B",
        ),
        (ListOf(("a", "b")), ("b", "a"), None),
        (ListOf(("a", "b")), (), None),
        (ListOf(("a", "b")), ("b", "c"), "Invalid value c for configuration x: String must be one of: a, b"),
        (ListOf(("a", "b")), ("b", ""), "Configuration 'x' values must not be empty."),
        (ListOf(), ("anything",), None),
        (GzipLevel(), -1, None),
        (GzipLevel(), 9, None),
        (GzipLevel(), 0, "Invalid value 0 for configuration x: Value must be between 1 and 9 or equal to -1"),
        (ThrottledReplicas(), ("*",), None),
        (ThrottledReplicas(), ("1:2", "3:4"), None),
        (ThrottledReplicas(), (), None),
        (
            ThrottledReplicas(),
            ("*", "1:1"),
            f"Invalid value [*, 1:1] for configuration x: x {_REPLICAS}"
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (OneNode(), 1, None),
        (
            OneNode(),
            3,
            "Invalid value 3 for configuration x: the embedded broker is one node; "
            "for replicas start Apache Kafka with --engine kafka",
        ),
    ],
)
def test_checks(validator: Validator, value: ConfigValue, refusal: str | None) -> None:
    if refusal is None:
        validator.check("x", value)
        return
    with pytest.raises(InvalidValueError) as error:
        validator.check("x", value)
    assert str(error.value) == refusal


def test_a_word_named_twice_in_a_list_counts_once() -> None:
    config = Config(name="x", type=LIST, default=(), validator=ListOf(("a", "b")), documentation="")
    assert config.parse("b,a,b") == ("b", "a")


@pytest.mark.parametrize("name", ["offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"])
def test_what_no_topic_could_have_is_refused_before_the_topic_is_made(name: str) -> None:
    smallest = TOPIC_CONFIGS["segment.bytes"]
    with pytest.raises(InvalidValueError, match="at least 1048576"):
        smallest.parse("1000")
    with pytest.raises(InvalidValueError, match=f"{name}: Value must be at least 1048576"):
        BROKER_CONFIGS[name].parse("1000")
