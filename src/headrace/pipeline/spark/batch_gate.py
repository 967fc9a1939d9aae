"""The gate between Spark and the functions that it calls with each batch of a run.

Spark calls such a function from a thread that it cannot interrupt, and stopping a query waits until that
thread returns. So a stop first closes the gate, which waits a while for the batches inside. A batch that
comes afterwards, or that is still waiting for its turn, is turned away at once: if it waited for anything
that the stop holds, neither would ever end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from headrace.pipeline.spark.turns import Turns


class BatchGate:
    """Open from the start of a run until it is stopped. `patience` is in seconds.

    With `turns`, batches wait for theirs before they are let in.
    """

    def __init__(self, query: str, *, patience: float, turns: Turns | None = None) -> None:
        self._query = query
        self._patience = patience
        self._turns = turns
        self._changed = threading.Condition()
        self._inside = 0
        self._is_closed = False

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """Held while a batch is written.

        Raises if the query was stopped, so that Spark does not take the batch for finished.
        """
        with self._turns.one(lambda: self._is_closed) if self._turns is not None else nullcontext():
            with self._changed:
                if self._is_closed:
                    raise RuntimeError(f"query {self._query} was stopped before batch {number}")
                self._inside += 1
            try:
                yield
            finally:
                with self._changed:
                    self._inside -= 1
                    self._changed.notify_all()

    def close(self) -> None:
        """Let no other batch in, and wait for those inside, the first time. One that takes too long will be
        repeated.
        """
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        if self._turns is not None:
            self._turns.look_again()
        with self._changed:
            self._changed.wait_for(lambda: self._inside == 0, self._patience)
