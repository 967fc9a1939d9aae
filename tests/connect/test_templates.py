"""Templates of the generator: the same seed and number, the same record."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from headrace.connect.generator.source import PRESETS, GeneratorTask
from headrace.connect.generator.templates import Template
from headrace.connect.plugins import TaskContext

ALL = {
    "id": "{{sequence 5}}",
    "user": "user-{{integer 1 9}}",
    "price": "{{number 1 2 3}}",
    "kind": "{{choice view:8|buy|time:out}}",
    "new": "{{boolean 0.5}}",
    "uuid": "{{uuid}}",
    "text": "{{text 4}}",
    "at": "{{time 3}}",
    "list": ["{{integer 0 0}}", {"{{choice k}}": None}],
    "fixed": 7,
}


def test_records_are_a_function_of_seed_and_number() -> None:
    template = Template(json.dumps(ALL))
    first = [template.record(1, number) for number in range(50)]
    assert first == [Template(json.dumps(ALL)).record(1, number) for number in range(50)]
    assert first != [template.record(2, number) for number in range(50)]
    record: Any = first[3]
    assert record["id"] == 8
    assert record["fixed"] == 7
    assert record["list"] == [0, {"k": None}]
    assert isinstance(record["new"], bool)
    assert {each["kind"] for each in first} <= {"view", "buy", "time:out"}
    assert all(1 <= each["price"] <= 2 and len(each["text"]) == 4 for each in first)
    assert all(each["at"].startswith("2023-12-") for each in first)


def test_text_around_a_placeholder_makes_text() -> None:
    assert Template("n-{{sequence}}", is_json=False).record(0, 3) == "n-3"
    assert Template("{{sequence}}", is_json=False).record(0, 3) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{{nothing}}",
        '"{{integer}}"',
        '"{{integer 5 1}}"',
        '"{{integer a b}}"',
        '"{{choice x:0}}"',
        '"{{text 999999999}}"',
        "[" * 9999,
    ],
)
def test_templates_that_cannot_be_used(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Template(text)


def test_the_templates_that_come_with_it_work() -> None:
    for text in PRESETS.values():
        assert Template(text).record(7, 0)["Event_Type"]


def test_large_records_come_in_small_numbers() -> None:
    class Context:
        def source_offset(self, _partition: Any) -> None:
            return None

    task = GeneratorTask()
    task.start({"topic": "t", "template": '["{{text 100000}}"]', "rate": "0"}, cast(TaskContext, Context()))
    assert [len(task.poll()) for _ in range(2)] == [80, 80]
    with pytest.raises(ValueError, match="at most 1000000 characters"):
        Template("{{text 100000}}" * 11, is_json=False)
