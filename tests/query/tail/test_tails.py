"""A table and its tail: every record once, whatever happens to the table and the topic."""

from __future__ import annotations

from headrace.query.tail.tails import Tails
from tests.query.tail.written_table import WrittenTable, rows_in

WAIT = 30.0


def test_records_behind_the_positions_are_rows_of_the_table(table: WrittenTable, tails: Tails) -> None:
    table.produce(10)
    table.produce(5, partition=1, kind=None)
    table.write({0: 4, 1: 2})
    view = tails.view(table.snapshot(), wait_seconds=WAIT)
    assert (view.starts, view.reached, view.behind, view.reason) == ({0: 4, 1: 2}, {0: 10, 1: 5}, 0, "")
    expected = [each for each in table.records if each.offset >= view.starts[each.partition]]
    assert rows_in(view) == table.rows_of(expected)
