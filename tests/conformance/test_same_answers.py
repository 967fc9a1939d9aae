"""The same requests get the same answers from both engines, in every version of every API.

What is compared, and what is made alike before, is said in `answers/conversation.py`; what may differ, and
why, in `accepted_differences.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.broker.differences import DIFFERENCES
from tests.conformance import answers
from tests.conformance.accepted_differences import ACCEPTED, MISSING
from tests.conformance.answers.conversation import SCENARIOS, Conversation, Scenario
from tests.conformance.engines import EMBEDDED, KAFKA, Engine

for _module in pkgutil.iter_modules(answers.__path__):
    importlib.import_module(f"{answers.__name__}.{_module.name}")

PLAYS = [(scenario, version) for scenario in SCENARIOS for version in scenario.versions]
seen: set[str] = set()
played: set[tuple[str, int]] = set()


@pytest.mark.parametrize(
    ("scenario", "version"), [pytest.param(*play, id=f"{play[0].name}-v{play[1]}") for play in PLAYS]
)
def test_same_answers(both_engines: tuple[Engine, Engine], scenario: Scenario, version: int) -> None:
    transcripts = []
    for engine in both_engines:
        with Conversation(engine) as conversation:
            scenario.play(conversation, version)
            transcripts.append(dict(conversation.transcript))
    prefix = f"{scenario.name}/v{version}"
    unexpected = []
    for place, kafka, embedded in differences(prefix, *transcripts):
        accepted = [each for each in ACCEPTED if each.covers(place, kafka, embedded)]
        seen.update(each.place for each in accepted)
        if not accepted:
            first, second = (each.name for each in both_engines)
            unexpected.append(f"{place}\n    {first}: {kafka!r}\n    {second}: {embedded!r}")
    played.add((scenario.name, version))
    assert not unexpected, f"{len(unexpected)} differences:\n" + "\n".join(unexpected)


def test_every_accepted_difference_is_still_there(both_engines: tuple[Engine, Engine]) -> None:
    """The list must not say of the broker what is no longer true; known only when all was played."""
    all_played = len(played) == len(PLAYS) and [each.name for each in both_engines] == [KAFKA, EMBEDDED]
    stale = [each.place for each in ACCEPTED if each.place not in seen]
    assert not (all_played and stale)


def test_every_accepted_difference_is_told_to_users() -> None:
    assert {each.what for each in ACCEPTED} == {what for what, _kafka, _here in DIFFERENCES}


def differences(place: str, first: Any, second: Any) -> Iterator[tuple[str, Any, Any]]:
    """The places at which two answers differ, as far inside as they are of one shape."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from differences(f"{place}/{key}", first.get(key, MISSING), second.get(key, MISSING))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for index, pair in enumerate(zip(first, second, strict=True)):
            yield from differences(f"{place}/{index}", *pair)
    elif first != second or type(first) is not type(second):
        yield place, first, second
