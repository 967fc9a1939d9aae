"""Orders for tables of the lake in the pipeline process: one at a time, in a thread of its own, so that the
loop that keeps the queries goes on.

`turn` belongs to that loop: it takes the next order, stops the table's query if the order needs that, gives a
sign to whoever waits, and writes the answer. An order that fails affects nothing else.

Crash behaviour: an order without an answer is carried out again by the next process. A stop of the process
waits a few seconds for an order; what is not committed by then is not part of any table.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, Self

from headrace.assembly.lake_connectors import LakeConnectors
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.lake_orders import LakeOrder, OrderLog
from headrace.pipeline.spark.lake.table_orders import needs_rest
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.short_errors import first_line

logger = logging.getLogger(__name__)

_SIGN_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 15.0


class CarryOut(Protocol):
    """`TableOrders.carry_out`."""

    def __call__(
        self, order: LakeOrder, query: TableQuery, *, on_sign: Callable[[str], None]
    ) -> LakeOrder: ...


class LakeOrders:
    """Closes the log at its end. `alone` is entered while an order is carried out: nothing else maintains
    tables meanwhile.
    """

    def __init__(
        self,
        log: OrderLog,
        connectors: LakeConnectors,
        *,
        carry_out: CarryOut,
        alone: Callable[[], AbstractContextManager[object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._connectors = connectors
        self._carry_out = carry_out
        self._alone = alone
        self._clock = clock
        self._current: _Current | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._current is not None:
                self._current.thread.join(_STOP_SECONDS)
                if not self._current.thread.is_alive():
                    self._answer(self._current)
        except HeadraceError as error:
            logger.warning("The answer to an order was not written, so it will be repeated: %s", error)
        finally:
            self._log.close()

    def turn(self) -> None:
        """Never waits for an order. Raises log_unavailable; then the next turn goes on."""
        if self._current is None:
            order = self._log.begin_next()
            if order is not None:
                self._begin(order)
        elif not self._current.thread.is_alive():
            self._answer(self._current)
        elif self._clock() >= self._current.sign_at:
            self._give_sign(self._current)

    def _begin(self, order: LakeOrder) -> None:
        logger.info("order for table %s: %s", order.table, order.kind)
        try:
            query = self._connectors.new_query(order.query)
        except HeadraceError as error:
            self._log.write(failed(order, error))
            return
        if needs_rest(order):
            self._connectors.hold(order.query)
        current = _Current(order=order, sign_at=self._clock() + _SIGN_SECONDS)
        current.thread = threading.Thread(
            target=self._run, args=(current, query), name="lake-order", daemon=True
        )
        self._current = current
        current.thread.start()

    def _run(self, current: _Current, query: TableQuery) -> None:
        def noted(so_far: str) -> None:
            current.so_far = so_far

        try:
            with self._alone():
                if needs_rest(current.order):
                    self._connectors.wait_for_end(query)
                current.answer = self._carry_out(current.order, query, on_sign=noted)
        except Exception as error:
            if not isinstance(error, HeadraceError):
                logger.exception("The order for table %s failed.", current.order.table)
            current.answer = failed(current.order, error)

    def _give_sign(self, current: _Current) -> None:
        current.sign_at = self._clock() + _SIGN_SECONDS
        current.signs += 1
        self._log.write(dataclasses.replace(current.order, signs=current.signs, message=current.so_far))

    def _answer(self, current: _Current) -> None:
        answer = current.answer
        assert answer is not None
        self._connectors.release(current.order.query)
        # Last: if the log does not answer now, the next turn writes it.
        self._log.write(answer)
        self._current = None
        logger.info("order for table %s: %s %s", answer.table, answer.state, answer.message)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Current:
    """The order that is carried out."""

    order: LakeOrder
    sign_at: float
    thread: threading.Thread = dataclasses.field(default_factory=threading.Thread)
    signs: int = 0
    so_far: str = ""
    answer: LakeOrder | None = None


def failed(order: LakeOrder, error: Exception) -> LakeOrder:
    """The answer, with the code of the error."""
    if isinstance(error, HeadraceError):
        code, text = error.code, str(error)
    elif isinstance(error, OSError):
        code, text = "storage_failed", f"Table {order.table} cannot be read or written: {error}."
    else:
        code, text = "pipeline_failed", first_line(str(error)) or type(error).__name__
    return dataclasses.replace(order.failed(text), result={"error": code})
