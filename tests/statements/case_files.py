"""The cases in `cases/*.sql`: statements, records that go in, and the records that have to come out.

Cases stand between lines of `----`. A case begins with a comment that says what it shows, and may go on with
comments that say how it is run:

    -- long                 only `make test-statements` and `make test-all` run it
    -- real-time            in real-time mode instead of micro-batches
    -- fails: the reason    it is known to fail; the test is told when it no longer does

Then come the statements, as one would type them; every query reads from the beginning. Then, in any number
and order, blocks of records:

    <<< topic               records that a client writes
    >>> topic               what the queries have added to a topic, in this order
    >>> topic in any order
    >>> topic as a table    the last record of each key that was added, in any order; deletions of what was
                            not there do not count
    >>> dead letters        what could not be read, in any order: key, value, reason
    <<< schema of topic-value     an Avro schema for a subject of the registry
    === settled             all that was written has been taken in by the queries

A record is a line of `key | value | more`. Keys and values are JSON, written and read in the format that the
topic's stream or table has: for DELIMITED the line is a JSON string. `~text` is the text as it stands and
`x'00ff'` are bytes, whatever the format. A windowed key is followed by its window: `"a" [1000..2000]`. More
is `@1000`, the record's time in milliseconds (checked only where it is there; 0 would be now, to a client);
for records that go in also `p1`, the partition, and `h:name=text`, a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"
DEAD_LETTERS = "dead letters"

_BETWEEN = "\n----\n"
_WRITE, _EXPECT, _SETTLE = "<<< ", ">>> ", "=== settled"
_SCHEMA, _ANY_ORDER, _TABLE = "schema of ", " in any order", " as a table"
_WINDOW = re.compile(r"^(?P<key>.*) \[(?P<start>\d+)\.\.(?P<end>\d+)\]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A record as a case has it."""

    key: str
    value: str
    window: tuple[int, int] | None = None
    time: int | None = None
    partition: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    # Only of dead letters.
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    topic: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """`how` is one of "in order", "in any order", "as a table"."""

    topic: str
    how: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    pass


Action = Schema | Write | Expect | Settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    file: str
    name: str
    statements: str
    actions: tuple[Action, ...]
    is_long: bool
    is_real_time: bool
    fails: str | None

    @property
    def id(self) -> str:
        return f"{self.file}-{re.sub(r'[^A-Za-z0-9]+', '_', self.name).strip('_')}"


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.sql")):
        for block in path.read_text().rstrip("\n").split(_BETWEEN):
            yield case_of(path.stem, block.split("\n"))


def case_of(file: str, lines: list[str]) -> Case:
    flags, body = [], list(lines)
    assert body[0].startswith("-- "), f"{file}: a case begins with what it shows, not with {body[0]}"
    while body and body[0].startswith("-- "):
        flags.append(body.pop(0).removeprefix("-- ").strip())
    name, *marks = flags
    unknown = [mark for mark in marks if mark not in ("long", "real-time") and not mark.startswith("fails: ")]
    assert not unknown, f"{file}, {name}: {unknown} says nothing to the runner"
    first = next(number for number, line in enumerate(body) if _is_action(line))
    return Case(
        file=file,
        name=name,
        statements="\n".join(body[:first]),
        actions=tuple(_actions(body[first:])),
        is_long="long" in marks,
        is_real_time="real-time" in marks,
        fails=next((mark.removeprefix("fails: ") for mark in marks if mark.startswith("fails: ")), None),
    )


def _is_action(line: str) -> bool:
    return line.startswith((_WRITE, _EXPECT)) or line == _SETTLE


def _actions(lines: list[str]) -> Iterator[Action]:
    starts = [number for number, line in enumerate(lines) if _is_action(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield _action(lines[start], [line for line in lines[start + 1 : end] if line.strip()])


def _action(head: str, body: list[str]) -> Action:
    if head == _SETTLE:
        return Settle()
    what = head[len(_WRITE) :].strip()
    if head.startswith(_WRITE):
        if what.startswith(_SCHEMA):
            return Schema(subject=what.removeprefix(_SCHEMA), text="\n".join(body))
        return Write(topic=what, lines=tuple(_line(text) for text in body))
    if what == DEAD_LETTERS:
        return Expect(topic=what, how="in any order", lines=tuple(_dead_letter(text) for text in body))
    how = next((suffix for suffix in (_ANY_ORDER, _TABLE) if what.endswith(suffix)), "")
    topic = what.removesuffix(how)
    return Expect(topic=topic, how=how.strip() or "in order", lines=tuple(_line(text) for text in body))


def _line(text: str) -> Line:
    key, value, *more = text.strip().split(" | ")
    window = _WINDOW.match(key)
    headers, time, partition = [], None, None
    for each in more:
        if each.startswith("@"):
            time = int(each[1:])
        elif each.startswith("h:"):
            name, _, content = each[2:].partition("=")
            headers.append((name, content))
        else:
            assert re.fullmatch(r"p\d+", each), f"what is {each} in {text}?"
            partition = int(each[1:])
    return Line(
        key=window["key"] if window else key,
        value=value,
        window=(int(window["start"]), int(window["end"])) if window else None,
        time=time,
        partition=partition,
        headers=tuple(headers),
    )


def _dead_letter(text: str) -> Line:
    key, value, reason = text.strip().split(" | ")
    return Line(key=key, value=value, reason=reason)
