"""One commit at a time to a table, among the threads of this process.

The pipeline process is the only writer of a table, but it has several threads that commit: the batches of the
table's query, maintenance, and Delta itself, when columns are added or double rows are removed. Commits of
ours fail if their version exists; Delta's own in a local folder looks first and writes then. So whoever lets
Delta commit has the table's turn meanwhile. `DeltaLog.add_commit` takes it by itself.

A turn is short: data files are written before it. It may be taken again by the thread that has it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.lake.location import Location

_turns: dict[Location, threading.RLock] = {}
_guard = threading.Lock()


@contextmanager
def commit_turn(table: Location) -> Iterator[None]:
    with _guard:
        turn = _turns.setdefault(table, threading.RLock())
    with turn:
        yield
