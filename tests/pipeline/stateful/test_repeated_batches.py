"""A batch that is killed after some of its rows were written is repeated: each row is in the sink once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.pipeline.plans.harness import Plans
from tests.pipeline.stateful.stateful_harness import Stateful

STREAM = """
CREATE STREAM s (id VARCHAR KEY, v DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
"""
OTHER = """
CREATE STREAM o (id VARCHAR KEY, w DOUBLE) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');
"""
TABLE = """
CREATE TABLE t (id VARCHAR PRIMARY KEY, g VARCHAR, v BIGINT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
"""
TABLES = (
    TABLE
    + """
CREATE TABLE u (id VARCHAR PRIMARY KEY, name VARCHAR) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
"""
)
KEYS = [f"k{number}" for number in range(12)]
SECOND = 1_000

Shown = Counter[tuple[bytes | None, str]]


def rows(*found: tuple[str, str]) -> Shown:
    return Counter((key.encode(), value) for key, value in found)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A statement, the records of its two parts by topic, and the rows that come of each."""

    text: str
    topics: dict[str, int]
    first: dict[str, list[Any]]
    second: dict[str, list[Any]]
    expected: Shown
    # Batches that follow without records, because a watermark moved.
    more_batches: int = 0
    # Records without rows: after a restart Spark looks at watermarks only with the next record.
    nudge: dict[str, list[Any]] = field(default_factory=dict)
    shown: Callable[[Shown], Shown] = field(default=lambda found: found)


def values(number: int, at: int) -> list[Any]:
    return [(key, {"v": number}, at) for key in KEYS]


AGGREGATE = Kind(
    text=STREAM
    + """
    CREATE TABLE a WITH (KAFKA_TOPIC='sink') AS
      SELECT id, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY id;
    """,
    topics={"s": 2},
    first={"s": values(1, SECOND)},
    second={"s": values(2, SECOND) + values(3, SECOND)},
    expected=rows(*((key, "N=1, TOTAL=1.0") for key in KEYS), *((key, "N=3, TOTAL=6.0") for key in KEYS)),
)
STREAM_JOIN = Kind(
    text=STREAM
    + OTHER
    + """
    CREATE STREAM j WITH (KAFKA_TOPIC='sink') AS
      SELECT s.id AS id, v, w FROM s JOIN o WITHIN 1 HOUR ON s.id = o.id;
    """,
    topics={"s": 2, "o": 3},
    first={"s": values(1, SECOND), "o": [(KEYS[0], {"w": 1}, SECOND)]},
    # Equal records make equal rows, each of which counts.
    second={"o": [(key, {"w": 2}, SECOND) for key in [*KEYS, KEYS[1], KEYS[1]]]},
    expected=rows(
        (KEYS[0], "V=1.0, W=1.0"),
        *((key, "V=1.0, W=2.0") for key in [*KEYS, KEYS[1], KEYS[1]]),
    ),
)
KINDS = {
    "windows": Kind(
        text=STREAM
        + """
        CREATE TABLE a WITH (KAFKA_TOPIC='sink') AS
          SELECT id, COUNT(*) AS n FROM s WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY id;
        """,
        topics={"s": 2},
        first={"s": values(1, SECOND)},
        second={"s": values(2, 3 * SECOND)},
        expected=Counter({"N=1": 24, "N=2": 12}),
        shown=lambda found: Counter(value for _, value in found.elements()),
    ),
    "final windows": Kind(
        text=STREAM
        + """
        CREATE TABLE a WITH (KAFKA_TOPIC='sink') AS
          SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 2 SECONDS, GRACE PERIOD 0 SECONDS)
          GROUP BY id EMIT FINAL;
        """,
        topics={"s": 2},
        first={"s": values(1, SECOND) + values(2, SECOND)},
        second={"s": [*values(3, 3 * SECOND), ("k0", {"v": 4}, 9 * SECOND)]},
        expected=Counter({"N=2": 12, "N=1": 12}),
        more_batches=1,
        nudge={"s": [("k0", {"v": 5}, 9 * SECOND)]},
        shown=lambda found: Counter(value for _, value in found.elements()),
    ),
    "left join of streams": Kind(
        text=STREAM
        + OTHER
        + """
        CREATE STREAM j WITH (KAFKA_TOPIC='sink') AS
          SELECT s.id AS id, v, w FROM s LEFT JOIN o WITHIN 1 SECONDS GRACE PERIOD 0 SECONDS ON s.id = o.id;
        """,
        topics={"s": 2, "o": 2},
        first={"s": values(1, SECOND), "o": [(KEYS[0], {"w": 1}, SECOND)]},
        second={"s": [("x", {"v": 0}, 60 * SECOND)], "o": [("y", {"w": 0}, 60 * SECOND)]},
        expected=rows((KEYS[0], "V=1.0, W=1.0"), *((key, "V=1.0, W=None") for key in KEYS[1:])),
        more_batches=1,
        nudge={"s": [("x", {"v": 0}, 60 * SECOND)]},
    ),
    "aggregate of a table": Kind(
        text=TABLE
        + """
        CREATE TABLE a WITH (KAFKA_TOPIC='sink') AS
          SELECT g, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY g;
        """,
        topics={"t": 2},
        first={"t": [(key, {"g": "a", "v": 1}) for key in KEYS]},
        second={"t": [(key, {"g": f"b{number % 6}", "v": 2}) for number, key in enumerate(KEYS)]},
        expected=rows(
            ("a", "N=12, TOTAL=12"),
            ("a", "N=0, TOTAL=0"),
            *((f"b{number}", "N=2, TOTAL=4") for number in range(6)),
        ),
    ),
    "join of tables": Kind(
        text=TABLES
        + """
        CREATE TABLE j WITH (KAFKA_TOPIC='sink') AS SELECT t.id AS id, v, name FROM t JOIN u ON t.id = u.id;
        """,
        topics={"t": 2, "u": 2},
        first={"t": [(key, {"g": "a", "v": 1}) for key in KEYS]},
        # Each row changes on both sides, and one of them twice.
        second={
            "t": [(key, {"g": "a", "v": 2}) for key in KEYS] + [(KEYS[3], {"g": "a", "v": 2})],
            "u": [(key, {"name": "n"}) for key in KEYS],
        },
        expected=rows(*((key, "None") for key in KEYS), *((key, "NAME=n, V=2") for key in KEYS)),
    ),
}


def check(kind: Kind, plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    stateful = Stateful(plans, kind.text, **kind.topics)
    for topic, records in kind.first.items():
        stateful.produce(topic, *records)
    stateful.run()
    before = sum(stateful.rows().values())
    for topic, records in kind.second.items():
        stateful.produce(topic, *records)
    stateful.die_within_a_batch(monkeypatch)
    written = sum(stateful.rows().values())
    assert written < sum(kind.expected.values()), "nothing was left to be written"
    assert written > before, "nothing was written before it was killed"
    assert stateful.run(more_batches=kind.more_batches) == ""
    assert kind.shown(stateful.rows()) == kind.expected
    assert set(stateful.origins().values()) == {1}


def test_an_aggregate(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    check(AGGREGATE, plans, monkeypatch)


def test_a_join_of_streams(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    check(STREAM_JOIN, plans, monkeypatch)


@pytest.mark.long
def test_rows_that_cannot_be_written(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their dead letters are of the batch, too."""
    text = """
    CREATE STREAM s (id VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
    CREATE TABLE a WITH (KAFKA_TOPIC='sink') AS SELECT id, COLLECT_LIST(v) AS l FROM s GROUP BY id;
    """
    stateful = Stateful(plans, text, s=2)
    plans.cluster.configure_topic(stateful.script.sink, {"max.message.bytes": "2000"})
    (letters,) = stateful.query.query.dead_letter_topics.values()
    large, small = KEYS[2:], KEYS[:2]
    stateful.produce("s", *((key, {"v": "a"}) for key in KEYS))
    stateful.run()
    stateful.produce(
        "s", *((key, {"v": "x" * 3_000}) for key in large), *((key, {"v": "b"}) for key in small)
    )
    stateful.die_within_a_batch(monkeypatch, dies_after=letters)
    assert 0 < len(plans.until(letters, lambda _: True)) < len(large)
    assert stateful.run() == ""
    found = Counter(out.key for out in plans.until(letters, lambda _: True))
    assert found == Counter(key.encode() for key in large)
    assert stateful.rows() == rows(
        *((key, "L=['a']") for key in KEYS), *((key, "L=['a', 'b']") for key in small)
    )


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_every_kind(plans: Plans, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    check(KINDS[name], plans, monkeypatch)
