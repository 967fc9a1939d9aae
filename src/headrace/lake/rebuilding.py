"""Whether a partition of a table can be read again from its topic: the rules, without Spark.

A rebuild derives the rows of a partition again from their records. Rows neither come nor go: rows that were
deleted and records that became dead letters stay away. So the topic must still have the record of each row,
in the same incarnation. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.core.errors import HeadraceError
from headrace.lake.new_partitions import NO_VALUE
from headrace.lake.positions import Offsets, Reached
from headrace.lake.table_state import PartitionValues

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Rows of one partition of the topic: how many, their lowest and highest offset."""

    rows: int
    lowest: int
    highest: int


def partition_text(values: Iterable[tuple[str, str | None]]) -> str:
    """As `--partition` takes it."""
    return ",".join(f"{name}={NO_VALUE if value is None else value}" for name, value in values)


def parse_partition(text: str, columns: Iterable[str]) -> dict[str, str | None]:
    """`EVENT_TYPE=x,SERVER_DATE=y` with the names that the table has. A value may contain commas and equals
    signs. Raises bad_request.
    """
    by_name = {name.casefold(): name for name in columns}
    if not by_name:
        raise HeadraceError("bad_request", "The table has no partitions.", remedy="Leave out --partition.")
    names = "|".join(re.escape(name) for name in sorted(by_name, key=len, reverse=True))
    found = re.split(rf"(?:^|,)({names})=", text, flags=re.IGNORECASE)
    given = {by_name[name.casefold()]: value for name, value in zip(found[1::2], found[2::2], strict=True)}
    if found[0] or not given or len(given) != len(found) // 2:
        raise HeadraceError(
            "bad_request",
            f"{text!r} is not a partition of this table.",
            remedy=f"Write it as {','.join(f'{name}=…' for name in by_name.values())}.",
        )
    return {name: None if value == NO_VALUE else value for name, value in given.items()}


def chosen_partition(
    partitions: Iterable[PartitionValues], asked: Mapping[str, str | None], *, table: str
) -> PartitionValues:
    """The one partition with all these values. Raises bad_request, no_such_table."""
    known = list(partitions)
    matching = [each for each in known if matches(each, asked)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise HeadraceError(
            "bad_request",
            f"{len(matching)} partitions of table {table} match {partition_text(asked.items())}.",
            remedy=f"Name one, such as {partition_text(matching[0])}.",
        )
    some = "; ".join(partition_text(each) for each in sorted(known, key=repr)[:_MOST_NAMED])
    raise HeadraceError(
        "no_such_table",
        f"Table {table} has no partition {partition_text(asked.items())}.",
        remedy=f"`headrace lake show {table}` lists them" + (f", such as {some}." if some else "."),
    )


def matches(partition: PartitionValues, asked: Mapping[str, str | None]) -> bool:
    """Whether the partition has these values, of which an empty text is null."""
    values = {name.casefold(): value for name, value in partition}
    return all(
        name.casefold() in values and (values[name.casefold()] or None) == (value or None)
        for name, value in asked.items()
    )


def refuse_rebuild(
    spans: Mapping[int, Span], *, what: str, foreign: int, positions: Reached, topic_id: str, starts: Offsets
) -> None:
    """Raise lake_unsupported unless the topic can still have every row of `what`.

    `spans` are by partition of the topic, `foreign` is how many rows have no place in it, `positions` are
    those of the table, `starts` the first offsets that the topic has.
    """
    remedy = "The table is as it was. `headrace lake restore` goes back to an older version."
    if foreign:
        raise HeadraceError(
            "lake_unsupported",
            f"{what} cannot be rebuilt: {foreign} of its rows do not come from the topic.",
            remedy=remedy,
        )
    if positions.topic_id != topic_id:
        raise HeadraceError(
            "lake_unsupported",
            f"{what} cannot be rebuilt: the topic was recreated since the table has read it.",
            remedy=remedy,
        )
    reached = positions.offsets
    for number, span in sorted(spans.items()):
        start = starts.get(number)
        if start is None or span.lowest < start:
            gone = "the topic has no such partition" if start is None else f"the topic begins at {start}"
            raise HeadraceError(
                "lake_unsupported",
                f"{what} cannot be rebuilt: the record of its row at offset {span.lowest} of partition "
                f"{number} has expired ({gone}).",
                remedy=remedy,
            )
        if span.highest >= reached.get(number, 0):
            raise HeadraceError(
                "lake_unsupported",
                f"{what} cannot be rebuilt: it has a row at offset {span.highest} of partition {number}, "
                f"but the table has read only up to {reached.get(number, 0)}.",
                remedy="`headrace reconcile` compares the table with its topic.",
            )
