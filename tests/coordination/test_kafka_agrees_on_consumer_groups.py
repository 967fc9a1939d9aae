"""Apache Kafka's own classes read our records of consumer groups and write the same bytes; RE2/J agrees, too.

One JVM for all of it and no broker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.coordination.classic import embedded
from headrace.coordination.consumer.records import RecordKey, RecordType, Value, record
from headrace.coordination.expressions import InvalidExpressionError, compile_expression
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from tests.conformance.java_tools import JavaTools
from tests.coordination.classic_client import subscription
from tests.coordination.test_consumer_group_records import EXAMPLES
from tests.coordination.test_kafka_agrees import Coordinator

EXPRESSIONS = [
    "events",
    "events.*",
    "(?i)Events",
    "a(?i:b)c",
    "(?i)[a-c]x(?-i)y",
    r"\Qa.b\E.",
    r"[[:alpha:]]+[[:^digit:]]",
    r"\p{Lu}\pN+",
    r"\P{L}x",
    r"\x41\x{42}\101",
    "a{2,3}",
    "a{2,}",
    "a{,2}",
    "x{",
    "[]a]+",
    "[^]a]",
    "[a-]",
    r"[\d\-]+",
    "a||b",
    "(?P<kind>a|b)c",
    r"\Aa\z",
    r"\ba.*\b",
    "(a|b|)c",
    "^a.$",
    "(?s).+",
    "(a*)*b",
    "(?<n>a)(?P<1>b)",
    "[[:a]",
    "(?i)é",
    r"[^é]\p{Greek}?",
]
REFUSED = [
    "(a",
    "a)",
    "[a",
    "[b-a]",
    "[[:nothing:]]",
    "*",
    "a|*",
    "a**",
    "a{2}{3}",
    "a{1001}",
    "a{3,2}",
    "a\\",
    r"(a)\1",
    r"\y",
    r"\p{Nonsense}",
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    "(?<!a)b",
    "(?>a)",
    "(?P<a-b>a)",
    "(?P<>a)",
    "(?P<a",
    "(?P<a>x)(?P<a>y)",
    "(?i",
    "(?i)*",
    r"[a-\d]",
    r"\pX",
    r"\8",
    r"\C",
    "(?P<é>a)",
    "(?<a>b",
]


@pytest.fixture(scope="module")
def tools(java: JavaRuntime, artifacts: Artifacts) -> Iterator[JavaTools]:
    tools = JavaTools(java, artifacts.jars("kafka"))
    try:
        yield tools
    finally:
        tools.close()


@pytest.fixture(scope="module")
def coordinator(tools: JavaTools) -> Coordinator:
    return Coordinator(tools)


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, value, _, _ in EXAMPLES])
def test_kafka_reads_our_records_and_writes_them_again(
    coordinator: Coordinator, key: RecordKey, value: Value
) -> None:
    ours = record(key, value)
    assert coordinator.written(coordinator.read(ours)) == ours


def test_kafka_reads_our_tombstones(coordinator: Coordinator) -> None:
    for kind in RecordType:
        ours = record(RecordKey(type=kind, group_id="g", name="m"), None)
        found = coordinator.read(ours)
        assert found.value() is None
        assert coordinator.written(found) == ours


def test_kafka_reads_what_classic_members_hear(tools: JavaTools) -> None:
    protocol: Any = tools.jvm.org.apache.kafka.clients.consumer.internals.ConsumerProtocol
    wrap = tools.jvm.java.nio.ByteBuffer.wrap
    for version in range(4):
        ours = embedded.assignment({"a": frozenset({0, 2}), "b": frozenset({1})}, version)
        found = protocol.deserializeAssignment(wrap(ours))
        assert sorted(str(one) for one in found.partitions()) == ["a-0", "a-2", "b-1"]
        asked = protocol.deserializeSubscription(wrap(subscription(frozenset({"a"}), {}, version)))
        assert list(asked.topics()) == ["a"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_re2_matches_what_we_match(tools: JavaTools, expression: str) -> None:
    theirs = tools.jvm.com.google.re2j.Pattern.compile(expression)
    ours = compile_expression(expression)
    names = ["", "events", "EVENTS", "events-2", "a.bc", "aBc", "BXy", "ABA", "A12", "a{,2}", "x{", "]a]"]
    names += ["é", "É", "eλ", "λ"]
    names += ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("abcA1-", repeat=size)]
    assert [name for name in names if ours.matches(name)] == [
        name for name in names if theirs.matcher(name).matches()
    ]


@pytest.mark.parametrize("expression", REFUSED)
def test_re2_refuses_what_we_refuse_in_the_same_words(tools: JavaTools, expression: str) -> None:
    with pytest.raises(InvalidExpressionError) as ours:
        compile_expression(expression)
    with pytest.raises(Exception, match="PatternSyntaxException") as theirs:
        tools.jvm.com.google.re2j.Pattern.compile(expression)
    assert str(ours.value) in str(theirs.value)
