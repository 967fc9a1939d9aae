"""Orders in the pipeline process: one at a time, beside its loop, with the table's query held if need be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from headrace.assembly.lake_connectors import LakeConnectors
from headrace.assembly.lake_orders import LakeOrders
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.lake_orders import Kind, LakeOrder, OrderLog
from headrace.pipeline.spark.lake.table_query import TableQuery


class Log:
    def __init__(self, *asked: LakeOrder) -> None:
        self.asked = list(asked)
        self.written: list[LakeOrder] = []
        self.is_away = False
        self.is_closed = False

    def begin_next(self) -> LakeOrder | None:
        return self.asked.pop(0) if self.asked else None

    def write(self, order: LakeOrder) -> None:
        if self.is_away:
            raise HeadraceError("log_unavailable", "The log does not answer.")
        self.written.append(order)

    def close(self) -> None:
        self.is_closed = True


class Connectors:
    """`ended` is set once the run that was stopped has ended."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.was_held: list[str] = []
        self.ended = threading.Event()
        self.ended.set()

    def hold(self, query: str) -> None:
        self.held.add(query)
        self.was_held.append(query)

    def release(self, query: str) -> None:
        self.held.discard(query)

    def wait_for_end(self, _query: TableQuery) -> None:
        assert self.ended.wait(30)

    def new_query(self, query: str) -> TableQuery:
        if query == "gone":
            raise HeadraceError("connector_not_found", "No connector has it.")
        return cast(TableQuery, object())


class Process:
    """The loop of a process whose orders end when the test says so."""

    def __init__(self, *asked: LakeOrder, error: Exception | None = None) -> None:
        self.log = Log(*asked)
        self.connectors = Connectors()
        self.maintaining = threading.Lock()
        self.end = threading.Event()
        self.begun = threading.Event()
        self.now = 0.0
        self._error = error
        self.orders = LakeOrders(
            cast(OrderLog, self.log),
            cast(LakeConnectors, self.connectors),
            carry_out=self._carry_out,
            alone=lambda: self.maintaining,
            clock=lambda: self.now,
        )

    def _carry_out(
        self, order: LakeOrder, _query: TableQuery, *, on_sign: Callable[[str], None]
    ) -> LakeOrder:
        assert self.maintaining.locked()
        on_sign("half of it")
        self.begun.set()
        assert self.end.wait(30)
        if self._error is not None:
            raise self._error
        return order.done("done", {"rows": 1})

    def turn_until_answered(self) -> LakeOrder:
        waiting = threading.Event()
        for _ in range(3000):
            self.orders.turn()
            if self.log.written and self.log.written[-1].state != "ASKED":
                return self.log.written[-1]
            waiting.wait(0.01)
        raise AssertionError("there is no answer")


def order(kind: Kind = "restore", query: str = "c.t", **fields: Any) -> LakeOrder:
    return LakeOrder(id=f"{kind}-{query}", query=query, table="t", kind=kind, **fields)


def test_a_query_is_held_while_its_table_is_restored() -> None:
    process = Process(order(), order("optimize", "c.u"))
    process.orders.turn()
    assert process.begun.wait(30)
    assert process.connectors.held == {"c.t"}
    process.orders.turn()
    assert process.log.written == [], "it is too early for a sign"
    process.now = 6.0
    process.orders.turn()
    (sign,) = process.log.written
    assert (sign.state, sign.signs, sign.message) == ("ASKED", 1, "half of it")
    process.end.set()
    answer = process.turn_until_answered()
    assert (answer.state, answer.message, answer.result) == ("DONE", "done", {"rows": 1})
    assert process.connectors.held == set()
    # The next one, which needs nobody to stop.
    process.log.written.clear()
    assert process.turn_until_answered().id == "optimize-c.u"
    assert process.connectors.was_held == ["c.t"]


def test_an_order_waits_for_the_end_of_the_run_that_it_stopped() -> None:
    process = Process(order())
    process.connectors.ended.clear()
    process.end.set()
    process.orders.turn()
    process.orders.turn()
    assert not process.begun.is_set()
    assert process.log.written == []
    process.connectors.ended.set()
    assert process.turn_until_answered().state == "DONE"


def test_a_vacuum_that_is_forced_holds_the_query() -> None:
    """It may take the files of a batch that is being written."""
    for is_forced, held in ((True, ["c.t"]), (False, [])):
        process = Process(order("vacuum", is_forced=is_forced))
        process.end.set()
        process.turn_until_answered()
        assert process.connectors.was_held == held


def test_failures_are_answers_with_a_code() -> None:
    failures = (
        (
            HeadraceError("lake_unsupported", "It cannot be.", remedy="Leave it."),
            "lake_unsupported",
            "Leave it.",
        ),
        (OSError(28, "No space left on device"), "storage_failed", "No space left"),
        (RuntimeError("broken\nin many lines"), "pipeline_failed", "broken"),
    )
    for error, code, text in failures:
        process = Process(order(), error=error)
        process.end.set()
        answer = process.turn_until_answered()
        assert (answer.state, answer.result) == ("FAILED", {"error": code})
        assert text in answer.message
        assert "\n" not in answer.message
        assert process.connectors.held == set()


def test_a_table_without_a_connector_is_an_answer() -> None:
    process = Process(order(query="gone"))
    process.orders.turn()
    (answer,) = process.log.written
    assert (answer.state, answer.result) == ("FAILED", {"error": "connector_not_found"})


def test_an_answer_waits_for_a_log_that_does_not_answer() -> None:
    process = Process(order())
    process.end.set()
    process.orders.turn()
    process.log.is_away = True
    failures = 0
    for _ in range(3000):
        try:
            process.orders.turn()
        except HeadraceError:
            failures += 1
            if failures == 2:
                break
        threading.Event().wait(0.01)
    assert failures == 2
    process.log.is_away = False
    assert process.turn_until_answered().state == "DONE"


def test_a_stop_waits_for_the_order_and_answers() -> None:
    process = Process(order())
    with process.orders:
        process.orders.turn()
        assert process.begun.wait(30)
        process.end.set()
    assert process.log.written[-1].state == "DONE"
    assert process.log.is_closed
