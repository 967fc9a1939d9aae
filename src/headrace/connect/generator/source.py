"""A source of made-up records: at a rate, from a seed, up to a number, by a template (`templates.py`).

Its partition is `{"generator": <topic>}`, its offset `{"count": <records so far>}`. Invariant: the record
with a number is the same whenever it is made, so after a crash the records that come again are equal to the
first ones (except for the clock). With `count`, it ends there and stays RUNNING, like a file that does not
grow.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.connect.converters import JSON_CONVERTER, STRING_CONVERTER
from headrace.connect.data import SourceRecord
from headrace.connect.definitions import Definition, Validator, at_least
from headrace.connect.generator.templates import Template
from headrace.connect.plugins import Config, Plugin, TaskContext

CLASS: Final = "headrace.GeneratorSourceConnector"
PRESETS: Final[Mapping[str, str]] = {
    "marketplace": '{"Event_Type": "{{choice ListingView:40|ListingClick:18|Search:20|Message:8|Favorite:6|'
    'Share:4|Purchase:2|Signup:2}}", "Event_Version": "{{choice 1:3|2}}", '
    '"User_ID": "user-{{integer 10000 12000}}", '
    '"Listing_ID": "listing-{{integer 100000 105000}}", "Server_Time": "{{now}}", '
    '"Device_Type": "{{choice ios:40|android:38|web:20|tablet:2}}"}',
}
_RATE: Final = 10.0
_SEED: Final = 7
_MOST_AT_ONCE: Final = 1000
# Memory is finite; about so many characters.
_MOST_CHARACTERS: Final = 8_000_000
_WAIT_SECONDS: Final = 0.1


def generator_source(version: str) -> Plugin:
    return Plugin(
        class_name=CLASS,
        aliases=("Generator",),
        kind="source",
        version=version,
        settings=(
            Definition(name="topic", kind="STRING", importance="HIGH", documentation="Topic to write to."),
            Definition(
                name="template",
                kind="STRING",
                default=PRESETS["marketplace"],
                importance="HIGH",
                documentation="A record as JSON, with placeholders such as {{sequence}}, {{integer 1 100}} "
                "or {{choice a:3|b}}; or the name of a template that comes with it: "
                + ", ".join(PRESETS)
                + ".",
                recommended=tuple(PRESETS),
                validator=_usable(is_json=True),
            ),
            Definition(
                name="key",
                kind="STRING",
                default="",
                documentation="The record's key, as text with placeholders; empty for none.",
                validator=_usable(is_json=False),
            ),
            Definition(
                name="rate",
                kind="DOUBLE",
                default=_RATE,
                documentation="Records a second; 0 for as many as possible.",
                validator=at_least(0),
            ),
            Definition(
                name="count",
                kind="LONG",
                default=0,
                documentation="How many records to write in all; 0 for no end.",
                validator=at_least(0),
            ),
            Definition(
                name="seed", kind="LONG", default=_SEED, documentation="The same seed gives the same records."
            ),
        ),
        new_task=GeneratorTask,
        task_class="headrace.GeneratorSourceTask",
        refuses_unknown=True,
        default_converters={
            "key.converter": STRING_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "value.converter.schemas.enable": "false",
        },
        check_offset=_wrong_offset,
    )


def _usable(*, is_json: bool) -> Validator:
    def check(text: Any) -> str:
        try:
            _template(text or "", is_json=is_json)
        except ValueError as error:
            return str(error)
        return ""

    return check


def _template(text: str, *, is_json: bool) -> Template:
    return Template(PRESETS.get(text, text) if is_json else text, is_json=is_json)


def _wrong_offset(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> str:
    if partition.keys() != {"generator"}:
        return "Partition objects should contain the key 'generator' and no other"
    count = offset.get("count") if offset is not None else 0
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        return "Offset objects should contain the key 'count', with a whole number that is not negative"
    return ""


class GeneratorTask:
    def start(self, config: Config, context: TaskContext) -> None:
        self._context = context
        self._topic = config["topic"]
        self._template = _template(config.get("template") or "marketplace", is_json=True)
        key = config.get("key", "")
        self._key = _template(key, is_json=False) if key else None
        self._rate = float(config.get("rate", _RATE))
        self._end = int(config.get("count", 0))
        self._seed = int(config.get("seed", _SEED))
        self._partition = {"generator": self._topic}
        found = context.source_offset(self._partition)
        self._number = int(found["count"]) if found is not None else 0
        self._first, self._began = self._number, time.monotonic()

    def poll(self) -> Sequence[SourceRecord]:
        due = min(self._due(), _MOST_AT_ONCE)
        if self._end:
            due = min(due, self._end - self._number)
        if due <= 0:
            self._context.wait(_WAIT_SECONDS)
            return []
        made: list[SourceRecord] = []
        size = 0
        while len(made) < due and size < _MOST_CHARACTERS:
            made.append(self._next())
            size += len(str(made[-1].value))
        return made

    def commit(self) -> None:
        """Nothing to do: the offset says it all."""

    def stop(self) -> None:
        """Nothing to close."""

    def _due(self) -> int:
        """How many more the rate allows now."""
        if not self._rate:
            return _MOST_AT_ONCE
        wanted = self._first + int((time.monotonic() - self._began) * self._rate)
        if wanted - self._number > _MOST_AT_ONCE:
            # The log was away, or the task was paused: it does not catch up.
            self._first, self._began = self._number, time.monotonic() - _MOST_AT_ONCE / self._rate
        return wanted - self._number

    def _next(self) -> SourceRecord:
        number = self._number
        self._number += 1
        return SourceRecord(
            topic=self._topic,
            key=str(self._key.record(self._seed, number)) if self._key is not None else None,
            value=self._template.record(self._seed, number),
            source_partition=self._partition,
            source_offset={"count": self._number},
        )
