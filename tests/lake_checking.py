"""Compares a table with its topic, record by record, without anything of the pipeline.

A record is known by its partition and its offset, which every row of the lake has, and by a number in its
value, so that a row at the right place with the content of another one is noticed, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.dead_letters.letters import all_records
from tests.lake_connectors import open_table

# Partition, offset, and the number.
Place = tuple[int, int, int]
# The number in the value of a record.
NumberOf = Callable[[bytes], int]


def in_json(value: bytes) -> int:
    number: int = json.loads(value)["n"]
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`wrong` are rows of no record."""

    records: int
    missing: tuple[Place, ...]
    double: tuple[Place, ...]
    wrong: tuple[Place, ...]

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.double or self.wrong)

    @property
    def is_hopeless(self) -> bool:
        """What is missing may still come."""
        return bool(self.double or self.wrong)


def compared(
    bootstrap: str,
    topic: str,
    table: Path | str,
    options: Mapping[str, str] | None = None,
    *,
    number_of: NumberOf = in_json,
) -> Comparison:
    """Of values with a number `n`, which are all in the column of that name."""
    # The table first: what it has is in the topic by then.
    opened = open_table(table, options)
    names = ["_TOPIC_PARTITION", "_TOPIC_OFFSET", "n"]
    found = opened.to_pyarrow_table(columns=names).to_pylist() if opened is not None else []
    rows = Counter((row[names[0]], row[names[1]], row["n"]) for row in found)
    sent = {
        (record.partition(), record.offset(), number_of(record.value()))
        for record in all_records(bootstrap, topic)
    }
    return Comparison(
        records=len(sent),
        missing=tuple(sorted(sent - rows.keys())),
        double=tuple(sorted(place for place, number in rows.items() if number > 1)),
        wrong=tuple(sorted(rows.keys() - sent)),
    )
